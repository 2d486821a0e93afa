"""Mistakes with tiles, tails, double buffers and workspaces: each is caught, in every order."""

import re

import numpy as np
import pytest

from twin.tests.harness import (
    AIV_ONLY,
    INOUT,
    INPUT,
    MIX_AIC_1_2,
    MIX_AIV_1_0,
    OUTPUT,
    WORKSPACE,
)

RAW, WAR, WAW = (
    f"hazard, {kind}: .*not known to be complete; "
    for kind in ("read after write", "write after read", "write after write")
)
CORES = "the two cores are not ordered"

ONE_CORE = {
    "stale_tail": r"Adds\(.*uninitialised read: nothing was written to bytes \[256, 288\) of UB",
    "stale_after_reset": r"DataCopy\(.*uninitialised read: nothing was written to bytes \[0, 32\)",
    "stored_from_vecin": WAR + "SetFlag/WaitFlag<HardEvent::MTE3_MTE2>",
    "computed_after_enque": RAW + "SetFlag/WaitFlag<HardEvent::V_MTE3>",
    "stored_without_deque": RAW + "SetFlag/WaitFlag<HardEvent::V_MTE3>",
    "loaded_after_deque": RAW + "SetFlag/WaitFlag<HardEvent::MTE2_V>",
    "two_buffers_three_tiles": WAR + "SetFlag/WaitFlag<HardEvent::V_MTE2>",
    "flag_of_other_buffer": RAW + "SetFlag/WaitFlag<HardEvent::MTE2_V>",
    "prefilled_without_flag": WAW + "SetFlag/WaitFlag<HardEvent::V_MTE2>",
    "scalar_over_load": WAW + "SetFlag/WaitFlag<HardEvent::MTE2_S>",
    "length_in_elements": r"uninitialised read: nothing was written to bytes \[128, 160\) of UB",
    "stride_in_bytes": "out of bounds: dst has 1024 bytes .*, the access ends at byte 3200",
    "many_rows": r"DataCopyPad\(.*blockCount is 65537, expected 0 to 4095",
    "long_rows": r"DataCopy\(.*blockLen is 65538, expected 0 to 65535",
    "wide_gap": r"DataCopyPad\(.*srcStride is 70000, expected 0 to 65535",
    "wider_gap": r"DataCopyPad\(.*srcStride is 4294967296, expected 0 to 4294967295",
    "negative_gap": r"DataCopyPad\(.*srcStride is -32, expected 0 to 4294967295",
    "many_buffers": "InitBuffer: num is 257, expected 1 to 64",
    "stride_of_wide_type": r"Cast\(.*uninitialised read: .*bytes \[512, 544\) of UB",
    "offset_in_elements": WAW + "PipeBarrier<PIPE_V>",
    "freed_in_other_queue": "FreeTensor: the tensor is not one of TQue<VECOUT, 1>",
    "event_ids_kept": "all 8 ids of HardEvent::MTE2_V are taken",
}
# kernel: (message, blocks, kernel type)
CORES_TOGETHER = {
    "added_before_zero": (f"{CORES}|uninitialised read: .* of buffer 1", 4, AIV_ONLY),
    "sum_read_early": (f"hazard, .*{CORES}", 4, AIV_ONLY),
    "slots_overlap": (WAW + CORES, 4, AIV_ONLY),
    "core_without_work": (
        "deadlock: every core that has not ended waits; AIV 0 waits for cross-core flag 14",
        4,
        MIX_AIV_1_0,
    ),
    "flag_after_wrong_pipe": (RAW + CORES, 2, MIX_AIV_1_0),
    "vector_does_not_wait": (f"{CORES}|uninitialised read: .* of buffer 2", 1, MIX_AIC_1_2),
    "slot_overwritten": (f"hazard, .*{CORES}", 1, MIX_AIC_1_2),
}


@pytest.fixture
def launch(faults_tiles):
    def run(kernel, blocks=1, kernel_type=AIV_ONLY, seed=0):
        arrays = np.ones((4, 1024), np.float32)
        arrays[3] = 0
        roles = (INPUT, OUTPUT, WORKSPACE, INOUT)
        buffers = list(zip(roles, arrays, strict=True))
        return faults_tiles.launch(kernel, buffers, block_dim=blocks, type=kernel_type, seed=seed)

    return run


@pytest.mark.parametrize("kernel", ONE_CORE)
def test_one_core(launch, kernel):
    report = launch(kernel)
    assert not report.ok, "not caught"
    assert re.search(ONE_CORE[kernel], report.error), report.error
    assert re.match(rf"kernel {kernel}, \S*faults_tiles\.cc:\d+, AIV 0: ", report.error)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kernel", CORES_TOGETHER)
def test_several_cores(launch, kernel, seed):
    message, blocks, kernel_type = CORES_TOGETHER[kernel]
    report = launch(kernel, blocks, kernel_type, seed)
    assert not report.ok, "not caught"
    assert re.search(message, report.error), report.error
    assert re.match(rf"kernel {kernel}\b.*faults_tiles\.cc:\d+", report.error), report.error


@pytest.mark.parametrize("seed", range(6))
def test_a_slot_that_is_handed_back(launch, seed):
    report = launch("slot_handed_back", 1, MIX_AIC_1_2, seed)
    assert report.ok, report.error
    assert report.warnings == []


def test_repeats_that_overwrite_each_other(launch):
    report = launch("repeats_meet")
    assert report.ok, report.error
    assert report.kinds() == ["repeats overwrite each other"]
