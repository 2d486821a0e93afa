"""Calls through the whole host side: an operator's definition, its shapes, its tiling, its launch.

The kernels' own tests call the tiling by themselves; nothing here compiles a kernel.
"""

import pytest

from mindspore_nsa import _native, twin
from tests.common.cases import compare
from tests.common.draw import Draw
from tests.common.parity import compress, compress_grad

from .attention_checks import CORES, same_bits
from .sweep import OPERATORS

# The steps of a layer over its cache are no call of arrays alone.
NAMES = [name for name in OPERATORS if name != "NsaCacheStep"]
SEEDS = range(4)
MOST_ELEMENTS = 60_000


def _run(case, cores):
    with twin.machine(cube_cores=cores, vector_cores=2 * cores):
        return _native.run(case.op, case.inputs, case.attrs, target="ascend_twin")


def _elements(case):
    return sum((x[1] if isinstance(x, tuple) else x).size for x in case.inputs if x is not None)


def _cases(name):
    """The first small cases of an operator, as many with pages as without."""
    found, seed, most = [], 0, {True: len(SEEDS), False: 0}
    while len(found) < len(SEEDS):
        case = OPERATORS[name].make(seed)
        if "block_table" in case.named():
            most = dict.fromkeys(most, len(SEEDS) // 2)
        whole = case.named().get("block_table") is None
        if _elements(case) <= MOST_ELEMENTS and most[whole] > sum(w == whole for w, _ in found):
            found.append((whole, case))
        seed += 1
    return [case for _, case in found]


@pytest.mark.parametrize("name", NAMES)
def test_random_calls(name):
    """Right on few cores, and to the bit alike on many."""
    cases = _cases(name)
    assert len({case.dtype for case in cases}) > 1
    for number, case in enumerate(cases):
        outputs = _run(case, CORES[number % 2])
        compare(case, outputs)
        assert same_bits(outputs, _run(case, CORES[2 + number % 2])), case


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("make", [compress, compress_grad])
def test_segments_without_a_window(make, cores):
    """Tiling has nothing to share out; rows behind the windows, and the gradients, are 0."""
    case = make(Draw(0, "float16"), [16, 32, 48], 3, 16, 32, 16)
    if make is compress:
        case.attrs["num_windows"] = 2
    outputs = _run(case, cores)
    compare(case, outputs)
    assert all(x.size and not x.any() for x in outputs)
