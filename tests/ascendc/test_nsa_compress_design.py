"""Promises of the kernels beside right numbers: memory traffic, sharing, room in the UB."""

import numpy as np
import pytest

from mindspore_nsa.reference.segments import compressed_seq_len
from tests.common.draw import Draw
from tests.common.parity import compress, compress_grad

from .checks import CORES
from .compress_cases import make_case

UB_BYTES = 192 * 1024 - 8 * 1024 - 256
KINDS = {"NsaCompress": compress, "NsaCompressGrad": compress_grad}


def _bytes(shape):
    return 2 * int(np.prod(shape))


@pytest.mark.parametrize(("l", "s"), [(32, 32), (32, 16), (128, 16)])
def test_one_core_reads_every_row_once(runner, l, s):  # noqa: E741
    case = compress(Draw(0, "float16"), [400, 1000], 12, 128, l, s)
    covered = sum((w - 1) * s + l for w in np.diff([0, *compressed_seq_len([400, 1000], l, s)]))
    _, counts = runner.run(case, 1)
    lists = counts.gm_read - _bytes((covered, 12, 128)) - _bytes((l, 12))
    # The rest is the sequence list and nothing else.
    assert 0 <= lists < 4096
    assert counts.gm_written == _bytes((case.attrs["num_windows"], 12, 128))


@pytest.mark.parametrize(("l", "s", "most"), [(32, 32, 1.01), (32, 16, 1.15), (64, 16, 1.3)])
def test_many_cores_read_little_twice(runner, l, s, most):  # noqa: E741
    """Where a segment is cut, both sides read the tokens of the windows that overlap."""
    case = compress(Draw(0, "bfloat16"), [1000, 1000, 4096], 4, 128, l, s)
    (_, one), (_, many) = (runner.run(case, cores) for cores in (1, 48))
    assert many.cores == 48
    assert many.gm_read <= most * one.gm_read
    assert many.gm_written == one.gm_written


def test_the_gradient_reads_input_once(runner):
    """And few rows of output_grad twice: those open where a chunk ends."""
    case = compress_grad(Draw(0, "float16"), [2048], 12, 128, 32, 16)
    _, counts = runner.run(case, 1)
    rows = len(case.inputs[0])
    once = _bytes((2048, 12, 128)) + _bytes((rows, 12, 128))
    chunks = runner.tiling(case, 1)["chunks"]
    partial = 4 * 32 * 12 * chunks
    assert counts.gm_read <= once + _bytes((chunks, 12, 128)) + partial + _bytes((32, 12)) + 65536
    assert counts.gm_written == _bytes((2048, 12, 128)) + partial + _bytes((32, 12))


@pytest.mark.parametrize("op", KINDS)
def test_the_budget_holds(runner, op):
    for l in range(16, 129, 16):  # noqa: E741
        for s in range(16, l + 1, 16):
            for heads, dim in ((1, 16), (1, 256), (128, 16), (128, 128), (128, 256), (3, 80)):
                case = KINDS[op](Draw(0, "float16"), [l + s], heads, dim, l, s)
                assert runner.tiling(case, 48)["ub_bytes"] <= UB_BYTES


def test_windows_are_shared_out_evenly(runner):
    """Every unit once, and no core has more than its share and a window or so."""
    for seed in range(200):
        case = make_case("NsaCompress", seed)
        l, s = case.attrs["compress_block_size"], case.attrs["compress_stride"]  # noqa: E741
        x, _, ends = (t[1] if isinstance(t, tuple) else t for t in case.inputs)
        sums = compressed_seq_len(ends.tolist(), l, s)
        for cores in CORES:
            tiling = runner.tiling(case, cores)
            begin, heads = tiling["unit_begin"], tiling["tile_heads"]
            tiles = -(-x.shape[1] // heads)
            assert begin[0] == 0 and begin[-1] == tiles * sums[-1]
            assert (np.diff(begin) >= 0).all()
            if not sums[-1]:
                continue
            costs = [_cost(a, b, sums, heads, x.shape[1], l, s) for a, b in zip(begin, begin[1:])]
            total = x.shape[1] * sum((w - 1) * s + l for w in np.diff([0, *sums]) if w)
            assert max(costs) <= total / tiling["cores"] + 2 * heads * (l + s)


def _cost(unit, end, sums, tile_heads, heads, l, s):  # noqa: E741
    """Head tokens that the units read."""
    cost = 0
    while unit < end:
        tile, window = divmod(unit, sums[-1])
        segment = np.searchsorted(sums, window, side="right")
        windows = min(sums[segment] - window, end - unit)
        cost += min(tile_heads, heads - tile * tile_heads) * ((windows - 1) * s + l)
        unit += windows
    return cost


def test_chunks_do_not_depend_on_the_cores(runner):
    for seed in range(100):
        case = make_case("NsaCompressGrad", seed)
        assert len({runner.tiling(case, cores)["chunks"] for cores in CORES}) == 1
