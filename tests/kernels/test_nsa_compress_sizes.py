"""NsaCompress at sizes beyond a unit of work: many items and head tiles, outputs that are written
past the caches, windows that begin and end anywhere in a block of tokens."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.reference import compressed_seq_len
from mindspore_nsa.testing.case import Case, compare
from mindspore_nsa.testing.dtypes import encode
from tests.common.cases import make_case

from .sweep import instruction_set

# dtype, segment ends, N, D, l, s. Gradients from 8 MiB on are written past the caches, and rows of
# a float32 input from 32 MiB on.
SIZES = [
    ("float32", [9000, 17003], 4, 128, 32, 16),
    ("float32", [3000, 3000, 3041, 5003], 4, 128, 32, 16),
    ("float32", [4, 2051], 8, 136, 33, 16),  # the last vector of a head is a partial one
    ("float32", [700, 1501], 40, 40, 20, 5),  # heads in groups
    ("float32", [2200], 4, 256, 7, 3),
    ("float32", [1000, 2200], 4, 256, 3, 1),
    ("float32", [999], 170, 16, 24, 2),  # head tiles
    ("float32", [130, 400], 6, 5, 200, 4),  # heads narrower than a vector
    ("bfloat16", [4321, 8500], 4, 128, 32, 16),
    ("float16", [3, 6300], 5, 136, 64, 16),
]


def _cases(dtype, ends, heads, dim, l, s):  # noqa: E741
    rng = np.random.default_rng(4)
    lists = np.array(ends, np.int64)
    rows = int(compressed_seq_len(ends, l, s)[-1])
    dy, x, w = (
        encode(rng.standard_normal(shape, np.float32), dtype)
        for shape in ((rows, heads, dim), (ends[-1], heads, dim), (l, heads))
    )
    attrs = {"compress_block_size": l, "compress_stride": s}
    inputs = {"input": x, "weight": w, "actual_seq_len": lists}
    yield Case.of("NsaCompress", inputs, {**attrs, "num_windows": rows}, dtype)
    yield Case.of("NsaCompressGrad", {**inputs, "output_grad": dy}, attrs, dtype)


def _bytes(outputs):
    return [(x[1] if isinstance(x, tuple) else x).tobytes() for x in outputs]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "-".join(map(str, size[:1] + size[2:])))
def test_sizes(size):
    for case in _cases(*size):
        for isa in _native.available_isas():
            with instruction_set(isa):
                one, three = (
                    _native.run(case.op, case.inputs, case.attrs, num_threads=n) for n in (1, 3)
                )
            case.name = f"on {isa}"
            compare(case, one)
            assert _bytes(one) == _bytes(three)


@pytest.mark.parametrize("seed", [7500148, 7500182, 7500362, 7500534])
def test_sums_of_weight_grad(isa, seed):
    """Sums of thousands of terms that nearly cancel."""
    case = make_case(seed, "NsaCompressGrad", "float32")
    compare(case, _native.run(case.op, case.inputs, case.attrs))
