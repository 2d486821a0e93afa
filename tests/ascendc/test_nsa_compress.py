"""NsaCompress and NsaCompressGrad in Ascend C, on the twin, against the float64 reference."""

import numpy as np
import pytest

from tests.common.draw import Draw
from tests.common.parity import compress, compress_grad

from .checks import CORES, check_agreement, check_call
from .compress_cases import DTYPES, make_case, parity
from .runner import values

OPS = ("NsaCompress", "NsaCompressGrad")
CONFIGURATIONS = 160
CHUNK = 40


@pytest.mark.parametrize(("op", "name"), [(op, name) for op in OPS for name in parity(op)])
def test_parity(runner, op, name):
    case = parity(op)[name]()
    first = check_call(runner, case, CORES[0])
    for cores in CORES[1:]:
        outputs = check_call(runner, case, cores)
        assert all(np.array_equal(a, b) for a, b in zip(values(first), values(outputs)))
    check_agreement(case, first)


@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, CHUNK))
@pytest.mark.parametrize("op", OPS)
def test_random_configurations(runner, op, first):
    for seed in range(first, first + CHUNK):
        case = make_case(op, seed)
        cores = CORES[seed // 2 % 4]
        others = [count for count in CORES if count != cores]
        check_agreement(case, check_call(runner, case, cores, more_cores=others))


def test_the_cases_cover_what_matters():
    """Overlap and none, short and empty segments, no window at all, several head tiles, dtypes."""
    cases = [make_case("NsaCompress", seed) for seed in range(CONFIGURATIONS)]
    lengths = [np.diff([0, *case.inputs[2]]) for case in cases]
    sizes = [(c.attrs["compress_block_size"], c.attrs["compress_stride"]) for c in cases]
    assert sum(l > s for l, s in sizes) > 50  # noqa: E741
    assert sum(l == s for l, s in sizes) > 50  # noqa: E741
    assert sum(l % s != 0 for l, s in sizes) > 10  # noqa: E741
    assert {l for l, _ in sizes} >= {16, 32, 64, 128}  # noqa: E741
    empty = [n for n in lengths if 0 in n]
    assert any(n[0] == 0 for n in empty) and any(n[-1] == 0 for n in empty)
    assert any((n[:-1][n[1:] == 0] == 0).any() for n in empty)  # two in a row
    assert sum(((n < l) & (n > 0)).any() for n, (l, _) in zip(lengths, sizes)) > 50  # noqa: E741
    assert sum(case.attrs["num_windows"] == 0 for case in cases) > 10
    assert {case.dtype for case in cases} == {"float16", "bfloat16"}
    assert {128} <= {
        np.shape(c.inputs[1][1] if c.dtype == "bfloat16" else c.inputs[1])[1] for c in cases
    }


# Segments 80, 96 and 80, l = 64, s = 16: windows of the second begin at tokens 80, 96 and 112.
ENDS, L, S = [80, 176, 256], 64, 16
TOKEN, ROWS = 100, [2, 3]  # in the windows of these rows


def _differ(clean, dirty):
    """Where two outputs are not the same; they are NaN there and nowhere else."""
    touched = np.isnan(dirty)
    assert np.array_equal(clean[~touched], dirty[~touched])
    return np.argwhere(touched).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_reaches_what_is_computed_from_it(runner, dtype):
    case = compress(Draw(1, dtype), ENDS, 3, 80, L, S)
    (clean,) = values(runner.run(case, 7)[0])
    _spoil(case.inputs[0], (TOKEN, 1, 70))
    (dirty,) = values(runner.run(case, 7)[0])
    assert _differ(clean, dirty) == [[row, 1, 70] for row in ROWS]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_reaches_the_gradients_computed_from_it(runner, dtype):
    case = compress_grad(Draw(1, dtype), ENDS, 3, 80, L, S)
    clean = values(runner.run(case, 7)[0])
    _spoil(case.inputs[1], (TOKEN, 1, 70))
    dirty = values(runner.run(case, 7)[0])
    assert _differ(clean[0], dirty[0]) == []
    # TOKEN is number 4 of the window at 96 and number 20 of the one at 80.
    assert _differ(clean[1], dirty[1]) == [[4, 1], [20, 1]]

    case = compress_grad(Draw(1, dtype), ENDS, 3, 80, L, S)
    _spoil(case.inputs[0], (3, 1, 70))
    dirty = values(runner.run(case, 7)[0])
    assert _differ(clean[0], dirty[0]) == [[96 + j, 1, 70] for j in range(L)]
    assert _differ(clean[1], dirty[1]) == [[j, 1] for j in range(L)]


def _spoil(tensor, place):
    if isinstance(tensor, tuple):
        tensor[1][place] = 0x7FC0
    else:
        tensor[place] = np.nan


@pytest.mark.parametrize("dtype", DTYPES)
def test_uncovered_tokens_have_gradient_zero(runner, dtype):
    """The ends of segments, a segment without a window, and empty ones."""
    ends = [0, 100, 100, 140, 256, 256]
    case = compress_grad(Draw(2, dtype), ends, 5, 48, 64, 32)
    for cores in CORES:
        (dx, _) = values(runner.run(case, cores)[0])
        for covered, begin, end in ((96, 0, 100), (0, 100, 140), (96, 140, 256)):
            assert (dx[begin + covered : end] == 0).all()
            assert (dx[begin : begin + covered] != 0).any(axis=(1, 2)).all()
