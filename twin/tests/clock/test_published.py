"""Modelled time against measurements that others have published; what is off says by how much."""

import numpy as np
import pytest

from twin.tests.harness import AIC_ONLY, AIV_ONLY, INPUT, OUTPUT

# CANN's example bank_conflict_ub: addresses of src0, src1, dst, strides of src0, and ticks of 20 ns
# for 1000 Adds of 64 repeats. At 1.8 GHz the ticks are 22 + 64 and 22 + 128 cycles for an Add
# without and with a conflict in every repeat.
BANKS = {
    1: ((0, 0x10100, 0x20000, 1, 8), 2390),
    2: ((0, 0x4000, 0x10000, 1, 8), 4167),
    3: ((0, 0x10000, 0x14100, 1, 8), 4167),
    4: ((0, 0x10100, 0x4000, 1, 8), 2389),
    5: ((0, 0x10100, 0x4020, 1, 8), 3751),
    6: ((0, 0x10100, 0x10100, 1, 8), 2390),
    7: ((0, 0x10100, 0x10100, 0, 1), 3584),
    8: ((0, 0x10100, 0x10100, 0, 8), 2389),
}
# A conflict of some blocks of a repeat only, in 5 and 7, lengthens it by other than one cycle on
# the device: the model is 11 % above in 5 and 9 % below in 7.
BANK_TOLERANCE = {5: 0.12, 7: 0.10}


def _add(kernels, scenario):
    addresses, _ = BANKS[scenario]
    buffers = [(INPUT, np.ones(4096, np.float32)), (OUTPUT, np.empty(4096, np.float32))]
    report = kernels.time("add_at", buffers, [*addresses, 64], type=AIV_ONLY)
    assert report.ok, report.error
    return report.timed("V")["busy"]


@pytest.mark.parametrize("scenario", BANKS)
def test_bank_conflicts(kernels, scenario):
    ticks = BANKS[scenario][1]
    tolerance = BANK_TOLERANCE.get(scenario, 0.01)
    cycles = _add(kernels, scenario)
    assert cycles == pytest.approx(ticks * 20e-9 * 1.8e9 / 1000, rel=tolerance)
    # Relative to the Add without a conflict.
    assert cycles / _add(kernels, 1) == pytest.approx(ticks / BANKS[1][1], rel=tolerance)


def _mmads(kernels, m, n, k, count):
    a, b = np.zeros((m, k), np.float16), np.zeros((k, n), np.float16)
    report = kernels.time("mmads", [(INPUT, a), (INPUT, b)], [m, n, k, count], type=AIC_ONLY)
    assert report.ok, report.error
    return report.timed("M", "AIC")["busy"]


@pytest.mark.parametrize("n,theory,measured", [(256, 4156, 4209), (128, 2108, 2172)])
def test_mmad(kernels, n, theory, measured):
    """CANN's page of UnitFlag: K is 512, in 8 products."""
    cycles = _mmads(kernels, 128, n, 64, 8)
    assert cycles == theory
    assert cycles == pytest.approx(measured, rel=0.03)


def test_matmul_of_8192(kernels):
    """CANN's matmul examples: 3082 and 3116 us of cube time on 24 cores, 8192 in each direction."""
    tile = _mmads(kernels, 128, 256, 64, 8) / 8
    tiles = (8192 // 128) * (8192 // 256) * (8192 // 64)
    microseconds = tiles / 24 * tile / 1850
    assert microseconds == pytest.approx(3082, rel=0.01)
    assert microseconds == pytest.approx(3116, rel=0.02)


# CANN's example data_copy on a matrix of 12288 x 12288 halfs: tile, columns, times that a core
# reads its part, to L1, and GB/s of the copies' time. The columns here are fewer.
COPIES = {
    "UB, 1 row of 128 bytes": ((1, 64), 3072, 1, False, 551, 0.05),
    "UB, rows of 128 bytes": ((64, 64), 3072, 1, False, 1368, 0.05),
    "UB, rows of 2048 bytes": ((64, 1024), 3072, 1, False, 1490, 0.05),
    "UB, rows off 32 bytes": ((64, 1024), 3071, 1, False, 1166, 0.05),
    "UB, four times": ((64, 1024), 3072, 4, False, 3407, 0.10),
    "L1, rows of 128 bytes": ((64, 64), 3072, 1, True, 1065, 0.05),
    "L1, rows of 512 bytes": ((64, 256), 3072, 1, True, 1408, 0.10),
    "L1, rows off 32 bytes": ((64, 256), 3071, 1, True, 715, 0.10),
    "L1, four times": ((64, 1024), 3072, 4, True, 3037, 0.10),
}


@pytest.mark.parametrize("case", COPIES)
def test_copies(kernels, case):
    tile, columns, times, to_l1, gigabytes, tolerance = COPIES[case]
    cores, rows = (24, 128) if to_l1 else (48, 64)
    matrix = np.zeros((cores * rows, columns), np.float16)
    numbers = [rows, columns, *tile, times, to_l1]
    kind = AIC_ONLY if to_l1 else AIV_ONLY
    report = kernels.time("read_tiles", [(INPUT, matrix)], numbers, block_dim=cores, type=kind)
    assert report.ok, report.error
    rate = matrix.nbytes * times / report.clock["microseconds"] / 1e3
    assert rate == pytest.approx(gigabytes, rel=tolerance)


# The stages of pto-isa's flash attention on a tile of 128 x 256 with heads of 128, in cycles of a
# simulator; O's update comes after its load, the other stages load the next tile meanwhile.
STAGES = {
    "qk": (AIC_ONLY, ((128, 128), (256, 128)), np.float16, (128, 256), np.float32, 2487, 0.02),
    "softmax": (AIV_ONLY, ((64, 256),), np.float32, (64, 256), np.float16, 2489, 0.2),
    "pv": (AIC_ONLY, ((256, 128), (256, 128)), np.float16, (128, 128), np.float32, 1617, 0.2),
    "update": (AIV_ONLY, ((64, 128),), np.float32, (64, 128), np.float32, 834, 0.2),
}


@pytest.mark.parametrize("stage", STAGES)
def test_stages_of_flash_attention(kernels, stage):
    kind, shapes, dtype, out_shape, out_dtype, expected, tolerance = STAGES[stage]
    inputs = [(INPUT, np.zeros(shape, dtype)) for shape in shapes]

    def cycles(tiles):
        buffers = [*inputs, (OUTPUT, np.empty(out_shape, out_dtype))]
        report = kernels.time(stage, buffers, [tiles], type=kind)
        assert report.ok, report.error
        return report.clock["cycles"]

    assert (cycles(12) - cycles(4)) / 8 == pytest.approx(expected, rel=tolerance)
