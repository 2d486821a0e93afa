"""Every check of the vector side finds the fault planted for it, and says where and what."""

import numpy as np
import pytest

from twin.tests import harness

FAULTS = {
    "mask_above_repeat": ["Add(", "mask is 65, it has to be 1 to 64"],
    "mask_zero": ["Add(", "mask is 0, it has to be 1 to 64"],
    "mask_high_word_of_float": ["mask[1] is 0x1", "only mask[0] counts"],
    "mask_bits_zero": ["Exp(", "mask[0] and mask[1] are 0"],
    "repeat_256": ["Add(", "repeatTime is 256, it has to be 0 to 255"],
    "repeat_negative": ["Exp(", "repeatTime is -1"],
    "count_negative": ["Add(", "count is -1, it cannot be negative"],
    "register_above_repeat": ["SetVectorMask", "len is 65"],
    "stride_256": ["src0RepStride is 256, it has to be 0 to 255"],
    "block_stride_0": ["dstBlkStride is 0"],
    "brcb_stride_0": ["Brcb(", "dstBlkStride is 0"],
    "misaligned": ["dst is at byte 4 of UB", "multiple of 32"],
    "misaligned_source": ["src is at byte", "multiple of 32"],
    "beyond_tensor": ["Add(", "out of bounds", "16384"],
    "beyond_by_stride": ["Exp(", "out of bounds: src"],
    "uninitialised": ["Add(", "uninitialised read", "src1"],
    "reduce_misaligned": ["WholeReduceSum(", "multiple of 4"],
    "not_ub": ["Add(", "dst lies in L1", "takes UB"],
    "overlap": ["Add(", "overlap", "src0"],
    "overlap_repeats": ["Adds(", "overlap"],
    "overlap_widening": ["Cast(", "overlap"],
    "overlap_brcb": ["Brcb(", "overlap"],
    "overlap_gather": ["Gather(", "overlap"],
    "read_after_write": ["Muls(", "hazard, read after write", "PipeBarrier<PIPE_V>"],
    "write_after_read": ["Muls(", "hazard, write after read", "PipeBarrier<PIPE_V>"],
    "write_after_write": ["Muls(", "hazard, write after write", "PipeBarrier<PIPE_V>"],
    "tree_without_barrier": ["BlockReduceSum(", "read after write", "PipeBarrier<PIPE_V>"],
    "cast_without_barrier": ["Add(", "read after write", "PipeBarrier<PIPE_V>"],
    "scalar_before_vector": ["Adds(", "read after write", "HardEvent::S_V"],
    "vector_before_scalar": ["read after write", "HardEvent::V_S"],
    "load_before_vector": ["Adds(", "read after write", "HardEvent::MTE2_V"],
    "counter_mode_forgotten": ["Add(", "counter mode", "SetMaskNorm"],
    "stale_counter_mask": ["Add(", "mask register was set for counter mode"],
    "stale_normal_mask": ["Exp(", "mask register was set for normal mode"],
    "cast_mode": ["Cast", "roundMode is CAST_RINT, half to float takes CAST_NONE"],
    "cast_mode_none": ["Cast", "roundMode is CAST_NONE, float to int32_t takes"],
    "deq_scale": ["Cast", "SetDeqScale"],
    "shift": ["ShiftLeft", "scalarValue is 33, it has to be 0 to 32"],
    "compare_count": ["Compare(", "count is 65", "multiple of 64"],
    "compare_integer": ["Compare(", "int32_t takes CMPMODE::EQ only"],
    "compare_register_unset": ["GetCmpMask(", "no Compare has written CMPMASK"],
    "compare_register_small": ["GetCmpMask(", "dst has 32 bytes, it needs 128"],
    "select_mode": ["Select(", "src1 is a tensor"],
    "select_scalar_mode": ["Select(", "src1 is a scalar"],
    "gather_misaligned": ["Gather(", "srcOffset[0] is 2 bytes"],
    "gather_beyond": ["Gather(", "out of bounds"],
    "gather_mask_pattern": ["GatherMask(", "src1Pattern is 8"],
    "gather_mask_nothing": ["GatherMask(", "mask is 0"],
    "reduce_tmp": ["ReduceMax(", "sharedTmpBuffer has 32 bytes"],
    "reduce_repeats": ["WholeReduceMax(", "repeatTime is 256"],
    "sort_repeats": ["Sort32(", "repeatTime is 256"],
    "merge_valid_bit": ["MrgSort(", "validBit is 5"],
    "merge_length": ["MrgSort(", "elementLengths[0] is 4096"],
    "merge_repeats": ["MrgSort(", "repeatTimes is 2"],
    "merge_result_early": ["GetMrgSortResult", "V_S"],
    "maximum_early": ["GetReduceRepeatMaxMinSpr", "V_S"],
    "high_half": ["TransDataTo5HD(", "8-bit types"],
    "softmax_columns": ["SoftMax(", "srcK is 33"],
    "softmax_tiling": ["SoftMax(", "no rows in a pass"],
    "softmax_tmp": ["SoftMax(", "sharedTmpBuffer has 32 bytes"],
    "softmax_early": ["SoftMax(", "read after write", "HardEvent::MTE2_V"],
    "topk_tmp": ["TopK(", "tmpLocal has 32 bytes, 1280 are needed"],
    "topk_k": ["TopK(", "k is 33, it has to be 1 to n, 32"],
    "topk_inner": ["TopK(", "topKInfo.inner is 48"],
    "topk_tiling": ["TopK(", "tilling is for 32 elements"],
    "broadcast_shape": ["Broadcast(", "a length of 2 cannot be broadcast to 4"],
    "broadcast_axis": ["Broadcast(", "axis is 0"],
    "broadcast_columns": ["Broadcast(", "srcShape[1] is 33"],
    "select_bytes_size": ["Select(", "firstAxis * srcLastAxis is 64, but src0 has 4096 elements"],
    "fill_without_room": ["Fill", "UB that no buffer holds, and there is none left"],
    "arange_count": ["Arange", "count is 0, expected more than 0"],
    "arange_falling": ["ArithProgression", "diffValue is -1, expected 0 or more"],
    "arange_early": ["write after read", "HardEvent::V_S"],
    "silu_in_place": ["Silu", "source and destination share bytes"],
    "sigmoid_in_place": ["Sigmoid", "source and destination share bytes"],
    "sigmoid_without_space": ["Sigmoid", "temporary space has 16 bytes, 32 are needed"],
    "cumsum_short_rows": ["CumSum", "cumSumInfo is (4, 12), expected rows of a multiple of 32"],
    "cumsum_without_space": ["CumSum", "sharedTmpBuffer has 256 bytes, 2048 are needed"],
    "silu_beyond": ["out of bounds", "the access ends at byte 16388"],
    "log_in_place": ["Log", "source and destination share bytes"],
    "log_early": ["Ln(", "read after write", "PipeBarrier<PIPE_V>"],
    "log_tmp": ["Log2", "96 bytes, 128 are needed"],
    "sum_inner": ["Sum", "inner is 16, expected n, 5, rounded up"],
    "sum_n": ["Sum", "n is 9, expected 1 to inner, 8"],
    "sum_in_place": ["Sum(", "overlap"],
    "sum_early": ["Sum(", "read after write", "PipeBarrier<PIPE_V>"],
    "sum_uninitialised": ["Sum(", "uninitialised read", "srcTensor"],
    "reduce_axis_tmp": ["ReduceSum(", "sharedTmpBuffer has 64 bytes, 1024 are needed"],
    "reduce_axis_pad": ["ReduceMax", "srcInnerPad is false"],
    "reduce_axis_source": ["Muls(", "uninitialised read"],
    "transpose_rows": ["ConfusionTranspose(", "a matrix of 17 by 32"],
    "transpose_tiling": ["ConfusionTranspose(", "tiling.param3 to param5 are (1, 32, 4)"],
    "transpose_kind": ["ConfusionTranspose", "transposeType is 1", "TRANSPOSE_ND2ND_ONLY"],
    "dropout_keep": ["DropOut(", "keepProb is 1, expected between 0 and 1"],
    "dropout_mask": ["DropOut(", "maskLastAxis is 6", "has 8 bytes of mask"],
    "dropout_mask_used_again": ["DropOut(", "uninitialised read", "maskLocal"],
    "address_list": ["TransDataTo5HD", "dstList[0] is not the address"],
}


@pytest.fixture
def launch(fault_kernels):
    buffers = [(harness.INPUT, np.zeros(64, np.float32))]

    def run(kernel, type=harness.AIV_ONLY):
        return fault_kernels.launch(kernel, buffers, type=type)

    return run


def test_without_a_fault(launch):
    report = launch("none")
    assert report.ok, report.error
    assert report.kinds() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_fault(launch, fault):
    report = launch(fault)
    assert not report.ok, "the fault was not found"
    for text in ("faults.cc:", *FAULTS[fault]):
        assert text in report.error, report.error


def test_scratch_of_select(fault_kernels):
    kinds = ["the framework's part of UB", "the last 8 KB of UB"]
    beside = fault_kernels.launch("select_scratch", numbers=(128,), type=harness.AIV_ONLY)
    assert beside.ok, beside.error
    assert [w for w in beside.kinds() if "UB" in w] == kinds[::-1] or beside.kinds() == kinds
    within = fault_kernels.launch("select_scratch", numbers=(96,), type=harness.AIV_ONLY)
    assert "uninitialised read: nothing was written to bytes [188512, 188544)" in within.error


def test_count_form_over_itself_warns(fault_kernels):
    out = np.zeros(128, np.float32)
    for second_half, kinds, right in (0, ["operands overlap"], 64), (1, [], 128):
        report = fault_kernels.launch(
            "overlap_count", [(harness.OUTPUT, out)], (second_half,), type=harness.AIV_ONLY
        )
        assert report.ok, report.error
        assert report.kinds() == kinds
        assert np.all(out[:right] == 1)  # a repeat is read before it is written


def test_on_a_cube_core(launch):
    report = launch("on_cube", harness.AIC_ONLY)
    assert not report.ok
    assert "PIPE_V is a pipe of vector cores (AIV); this core is an AIC" in report.error


def test_fills_of_one_value_need_no_wait(fault_kernels):
    """CANN's document: only another value has to wait until the copies of the first are done."""
    out = np.zeros(192, np.float32)

    def fill(kind):
        return fault_kernels.launch(
            "two_fills", [(harness.INOUT, out)], (kind,), type=harness.AIV_ONLY
        )

    assert fill(0).ok and (out[:128] == 1).all()
    error = fill(1).error
    assert "InitOutput(" in error and "write after read" in error and "by InitOutput on" in error
    # Bytes that somebody else has written there in between are not taken for the value.
    report = fill(2)
    assert report.ok and (out == 1).all(), report.error


def test_a_launch_without_an_instruction_warns(fault_kernels):
    out = np.zeros(64, np.float32)
    for key, kinds in (7, []), (0, ["no instruction"]):
        report = fault_kernels.launch(
            "nothing", [(harness.INOUT, out)], key=key, type=harness.AIV_ONLY
        )
        assert report.ok and report.kinds() == kinds, report.error
    said = report.warnings[0]["message"]
    assert said.startswith("kernel nothing, at its end: ") and "tiling key 0" in said
