"""Planted faults of synchronisation: each is caught, with the right words and the line."""

import re

import numpy as np
import pytest

from twin.tests.builds import ROOT
from twin.tests.harness import (
    AIC_ONLY,
    INOUT,
    INPUT,
    MIX_AIC_1_2,
    MIX_AIV_1_0,
    OUTPUT,
    UNSET,
    WORKSPACE,
)

SOURCE = ROOT / "twin" / "tests" / "device" / "faults_sync.cc"
RAW, WAR, WAW = (
    rf"hazard, {kind}: bytes .* not known to be complete; "
    for kind in ("read after write", "write after read", "write after write")
)

# kernel: (message, blocks, kernel type)
ERRORS = {
    "error_before_destructor": (RAW + r"SetFlag/WaitFlag<HardEvent::MTE2_V> or a queue", 1, UNSET),
    "error_while_others_wait": (
        RAW + r"SetFlag/WaitFlag<HardEvent::MTE2_V> or a queue",
        4,
        MIX_AIV_1_0,
    ),
    "load_then_compute": (RAW + r"SetFlag/WaitFlag<HardEvent::MTE2_V> or a queue", 1, UNSET),
    "load_then_store": (RAW + r"SetFlag/WaitFlag<HardEvent::MTE2_MTE3>", 1, UNSET),
    "compute_then_store": (
        r"written by Duplicate on PIPE_V at .*\.cc:\d+.*SetFlag/WaitFlag<HardEvent::V_MTE3>",
        1,
        UNSET,
    ),
    "compute_then_reload": (WAR + r"SetFlag/WaitFlag<HardEvent::V_MTE2>", 1, UNSET),
    "store_then_compute": (WAR + r"SetFlag/WaitFlag<HardEvent::MTE3_V>", 1, UNSET),
    "input_in_vecout": (
        RAW
        + r"SetFlag/WaitFlag<HardEvent::MTE2_V> or a queue of position VECIN between them; that of "
        r"the tensor has position VECOUT, which orders other pipes$",
        1,
        UNSET,
    ),
    "queue_passed_by": (
        RAW + r"SetFlag/WaitFlag<HardEvent::MTE2_V> or EnQue and DeQue of the tensor's queue",
        1,
        UNSET,
    ),
    "compute_then_compute": (RAW + r"PipeBarrier<PIPE_V> between them", 1, UNSET),
    "compute_over_source": (WAR + r"PipeBarrier<PIPE_V>", 1, UNSET),
    "load_over_load": (WAW + r"PipeBarrier<PIPE_MTE2>", 1, UNSET),
    "store_over_store": (WAW + r"PipeBarrier<PIPE_MTE3>", 1, UNSET),
    "store_then_load": (RAW + r"SetFlag/WaitFlag<HardEvent::MTE3_MTE2>", 1, UNSET),
    "scalar_then_compute": (RAW + r"SetFlag/WaitFlag<HardEvent::S_V>", 1, UNSET),
    "compute_then_scalar": (RAW + r"SetFlag/WaitFlag<HardEvent::V_S>", 1, UNSET),
    "load_then_scalar": (RAW + r"SetFlag/WaitFlag<HardEvent::MTE2_S>", 1, UNSET),
    "wrong_direction": (RAW + r"SetFlag/WaitFlag<HardEvent::MTE2_V>", 1, UNSET),
    "flag_too_early": (RAW + r"SetFlag/WaitFlag<HardEvent::MTE2_V>", 1, UNSET),
    "write_after_enque": (RAW + r"SetFlag/WaitFlag<HardEvent::MTE2_V>", 1, UNSET),
    "wait_without_set": (
        r"deadlock: WaitFlag<HardEvent::MTE2_V>\(3\) without a SetFlag before it",
        1,
        UNSET,
    ),
    "set_without_wait": (
        r"unmatched flag: SetFlag<HardEvent::MTE2_V>\(3\) has no WaitFlag",
        1,
        UNSET,
    ),
    "event_id_limit": (r"event id 8 of HardEvent::MTE2_V, expected 0 to 7", 1, UNSET),
    "event_of_cube": (r"HardEvent::MTE1_M does not exist on an AIV", 1, UNSET),
    "event_of_vector": (r"HardEvent::MTE2_V does not exist on an AIC", 1, AIC_ONLY),
    "vector_on_cube": (
        r"PIPE_V is a pipe of vector cores \(AIV\); this core is an AIC",
        1,
        AIC_ONLY,
    ),
    "ub_on_cube": (r"dst lies in UB, which an AIC does not have", 1, AIC_ONLY),
    "l1_on_vector": (r"dst lies in L1, which an AIV does not have", 1, UNSET),
    "barrier_of_cube": (r"PipeBarrier: pipe 2 \(PIPE_M\) does not exist on an AIV", 1, UNSET),
    "cores_write_same": (
        WAW + r"the two cores are not ordered: CrossCoreSetFlag/CrossCoreWaitFlag or SyncAll",
        2,
        UNSET,
    ),
    "core_reads_other": (r"hazard, .*(of AIV [01]) at .*the two cores are not ordered", 2, UNSET),
    "flag_on_wrong_pipe": (
        RAW + r"the two cores are not ordered",
        2,
        MIX_AIV_1_0,
    ),
    "pure_kernel_flag": (
        r"cross-core flags do not work in a kernel of type AIV_ONLY or AIC_ONLY",
        2,
        UNSET,
    ),
    "flag_limit": (r"CrossCoreSetFlag: flag 16, expected 0 to 15", 1, MIX_AIV_1_0),
    "mode_one_in_aiv": (r"mode 1 needs a kernel of type KERNEL_TYPE_MIX_AIC_1_1", 1, MIX_AIV_1_0),
    "flag_pipe_of_cube": (r"an AIV has no PIPE_FIX", 1, MIX_AIV_1_0),
    "unequal_sync_all": (
        r"deadlock: every core that has not ended waits; AIV 0 waits for cross-core flag 14",
        3,
        MIX_AIV_1_0,
    ),
    "one_vector_core_sets": (r"deadlock: .*AIC 0 waits for cross-core flag 3", 1, MIX_AIC_1_2),
    "flag_never_waited": (
        r"AIV 0: CrossCoreSetFlag: unmatched flag: flag 3 was raised and never waited for",
        1,
        MIX_AIC_1_2,
    ),
    "flag_counter": (r"flag 3 of AIV 0 has been set 15 times and not waited for", 1, MIX_AIC_1_2),
    "mode_changes": (r"flag 3 is used in mode 2 while a set in mode 1", 1, MIX_AIC_1_2),
    "more_blocks_than_cores": (r"deadlock: .*; and 42 more", 49, MIX_AIV_1_0),
    "soft_sync_dirty": (r"the slot of this core in gmWorkspace holds \d+, expected 0", 2, UNSET),
    "soft_sync_small": (r"ubWorkspace has 32 bytes, expected at least 64", 2, UNSET),
    "soft_sync_many": (r"SyncAll: usedCores is 3, the kernel has 2 AIV cores", 2, UNSET),
    "soft_sync_few": (r"AIV 1: SyncAll: usedCores is 1, so only the first cores take", 2, UNSET),
    "mode_one_on_cube": (r"mode 1 is for the AIV cores of a block", 1, MIX_AIC_1_2),
    "no_event": (r"set_flag/wait_flag: no event between these pipes", 1, UNSET),
    "scalar_store_not_cleaned": (
        r"were written by SetValue on PIPE_S at .* still in that core's data cache: "
        r"DataCacheCleanAndInvalid first",
        1,
        UNSET,
    ),
    "scalar_load_stale": (r"stale scalar read: the 64-byte line at byte 0 of buffer 3", 1, UNSET),
    "cache_line_shared": (
        r"DataCacheCleanAndInvalid.*: the 64-byte line at byte 0 of buffer 3 is written by AIV "
        r"[01] as well",
        2,
        UNSET,
    ),
}
WARNINGS = {
    "set_twice": ("flag set twice", 1),
    "reserved_id": ("event id 6 or 7", 1),
    "flag_of_sync_all": ("cross-core flag above 10", 2),
    "atomic_left_on": ("state left at the end of the kernel", 1),
    "float_atomics": ("float atomics in no fixed order", 4),
    "scalar_store_left": ("scalar writes left in the data cache", 1),
}


def launch(library, kernel, blocks, kernel_type, seed=0):
    buffers = [
        (INPUT, np.ones(1024, np.float32)),
        (OUTPUT, np.zeros(1024, np.float32)),
        (WORKSPACE, np.zeros(1024, np.float32)),
        (INOUT, np.zeros(1024, np.float32)),
    ]
    if kernel == "soft_sync_dirty":
        buffers[0] = (INOUT, buffers[0][1])
    return library.launch(kernel, buffers, block_dim=blocks, type=kernel_type, seed=seed)


@pytest.mark.parametrize("kernel", ERRORS)
def test_error(faults_sync, kernel):
    message, blocks, kernel_type = ERRORS[kernel]
    lines = SOURCE.read_text().split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith(f"KERNEL({kernel})"))
    for seed in range(3):
        report = launch(faults_sync, kernel, blocks, kernel_type, seed)
        assert not report.ok, "not caught"
        assert report.error.startswith(f"kernel {kernel}"), report.error
        assert re.search(message, report.error), report.error
        line = int(re.search(r"faults_sync\.cc:(\d+)", report.error)[1])
        assert first < line <= first + 20, report.error


def test_error_in_a_destructor(faults_sync):
    report = faults_sync.launch("error_in_destructor")
    assert "deadlock: WaitFlag<HardEvent::MTE2_V>(3) without a SetFlag" in report.error


@pytest.mark.parametrize(
    "before, caught",
    [(0, "SetSaturationFlag"), (1, None), (2, None), (3, "SetCtrlSpr"), (4, "set_ctrl")],
)
def test_saturation_changes_only_when_casts_are_done(faults_sync, before, caught):
    report = faults_sync.launch("saturation_under_a_cast", numbers=(before,))
    if caught is None:
        assert report.ok, report.error
    else:
        assert re.search(
            rf"{caught}\(\): hazard, write after read: CTRL, read by Cast on PIPE_V.*V_S",
            report.error,
        )


@pytest.mark.parametrize(
    "bit, value, fine", [(48, 1, True), (48, 0, True), (3, 1, False), (60, 0, False)]
)
def test_other_bits_of_the_control_register_stay(faults_sync, bit, value, fine):
    report = faults_sync.launch("other_bits_of_ctrl", numbers=(bit, value))
    if fine:
        assert report.ok, report.error
    else:
        assert "only bit 48 may be changed on the twin" in report.error


@pytest.mark.parametrize("kernel", WARNINGS)
def test_warning(faults_sync, kernel):
    kind, blocks = WARNINGS[kernel]
    report = launch(faults_sync, kernel, blocks, UNSET)
    assert report.ok, report.error
    assert report.kinds() == [kind]
    assert "faults_sync.cc:" in report.warnings[0]["message"]
