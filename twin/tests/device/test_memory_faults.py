"""Planted faults with memory and queues: each is caught, with the right words and the line."""

import re

import numpy as np
import pytest

from twin.tests.builds import ROOT
from twin.tests.harness import INPUT, OUTPUT, TILING, WORKSPACE
from twin.tests.programs import python

SOURCE = ROOT / "twin" / "tests" / "device" / "faults_memory.cc"

ERRORS = {
    "gm_read_past_end": r"DataCopy\(dst: .*src: GlobalTensor<float> buffer 0 \+ 32 bytes\): out of "
    r"bounds: the access to src covers bytes \[32, 288\) of buffer 0, which has 256",
    "gm_write_past_end": r"out of bounds: the access to dst covers bytes \[128, 288\) of buffer 1",
    "gm_write_before_start": r"out of bounds: the access to dst covers bytes \[-32, 0\)",
    "gm_foreign_pointer": r"out of bounds: src points into none of the kernel's buffers",
    "gm_scalar_past_end": r"GetValue\(.*out of bounds.*\[256, 260\) of buffer 0, which has 256",
    "ub_past_tensor": r"out of bounds: dst has 64 bytes from its address on, the access ends at "
    r"byte 256",
    "ub_view_beyond": r"dst begins beyond the end of the tensor it was taken from",
    "ub_size_beyond_buffer": r"Duplicate\(.*out of bounds: dst has 1024 bytes",
    "ub_scalar_past_end": r"SetValue\(.*out of bounds: tensor has 1024 bytes",
    "ub_exceeded": r"TPipe::InitBuffer: UB is exceeded: 1024 bytes are taken, 195616 more",
    "tbuf_get_too_long": r"TBuf<VECCALC>::Get: bytes \[0, 1028\) are asked for, the buffer "
    r"has 1024",
    "static_tensor_beyond": r"lie beyond the end of UB, which has 196608",
    "static_tensor_unaligned": r"address 16 is not a multiple of 32",
    "too_many_buffers": r"TPipe::InitBuffer: a TPipe manages at most 64 buffers",
    "zero_length": r"length is 0 bytes, expected 1 to 196608 \(UB\)",
    "never_allocated": r"dst was never allocated",
    "ub_unaligned": r"dst is at byte 4 of UB; the address has to be a multiple of 32",
    "gm_unaligned": r"src lies at a GM address that is not a multiple of its element's 4 bytes",
    "count_not_blocks": r"count 10 is 40 bytes, not a multiple of 32",
    "block_count_limit": r"blockCount is 4096, expected 0 to 4095",
    "pad_block_length": r"blockLen is 6 bytes, expected a multiple of the element's 4",
    "pad_limit": r"rightPadding is 9 elements, 36 bytes, expected at most 32 bytes",
    "pad_value_of_wide_type": r"DataCopyPad\(.*paddingValue of a 64-bit type is not 0",
    "no_path": r"there is no path from UB to L1",
    "write_input": r"writes to buffer 0, which is an input of the kernel; only outputs and "
    r"workspace are written",
    "write_tiling": r"writes to buffer 3, which is the tiling data of the kernel",
    "ub_uninitialised": r"uninitialised read: nothing was written to bytes \[0, 32\) of UB",
    "ub_partly_uninitialised": r"uninitialised read: nothing was written to bytes \[252, 256\)",
    "workspace_uninitialised": r"uninitialised read: .*of buffer 2",
    "output_uninitialised": r"GetValue.*uninitialised read: .*\[12, 16\) of buffer 1",
    "padding_undefined": r"uninitialised read: nothing was written to bytes \[12, 32\) of UB",
    "atomic_uninitialised": r"uninitialised read: .*of buffer 1",
    "atomic_other_dtype": r"atomic stores are on for half \(.*\), this one stores float",
    "copy_overlap": r"illegal overlap: block 0 of dst shares bytes with block 0 of src",
    "deque_empty": r"DeQue: TQue<VECIN, 2> is empty: DeQue without EnQue",
    "enque_twice": r"EnQue: TQue<VECIN, 2>: the tensor is in the queue already, since .*\.cc:\d+",
    "enque_beyond_depth": r"EnQue: TQue<VECIN, 1>: 1 tensors are in the queue, which is its depth",
    "enque_foreign": r"EnQue: the tensor is not one of TQue<VECIN, 2>",
    "free_twice": r"FreeTensor: TQue<VECIN, 2>: the tensor was freed at .*\.cc:\d+",
    "free_in_queue": r"FreeTensor: TQue<VECIN, 2>: the tensor is in the queue since",
    "use_after_free": r"DataCopy\(.*dst is used after FreeTensor \(.*\.cc:\d+\)",
    "use_of_an_earlier_tensor": r"DataCopy\(.*dst is used after FreeTensor",
    "all_busy": r"AllocTensor: deadlock: all 2 buffers of TQue<VECIN, 2> are in use",
    "queue_without_buffers": r"AllocTensor: TQue<VECIN, 2> has no buffers: TPipe::InitBuffer first",
    "event_ids_run_out": r"all 8 ids of HardEvent::MTE2_V are taken",
    "deque_of_other_positions": r"DeQue: TQue<VECOUT, 1>: EnQue used HardEvent::MTE2_V "
    r"\(.*\.cc:\d+\), DeQue uses HardEvent::V_MTE3",
    "queue_without_path": r"TPipe::InitBuffer: no data path leads from VECIN to A2",
    "buffer_in_gm": r"TPipe::InitBuffer: position CO2 has no on-chip memory",
    "released_id_limit": r"ReleaseEventID: id is 8, expected 0 to 7",
    "destroyed_pipe": r"TPipe::InitBuffer: the TPipe was destroyed",
    "no_pipe": r"GetTPipePtr: this core has no TPipe",
    "second_pipe": r"TPipe: a second TPipe: the one from .*\.cc:\d+ is not destroyed",
    "use_after_next_pipe": r"dst belongs to a TPipe that was reset or destroyed",
    "gm_base_of_nothing": r"src points into none of the kernel's buffers",
    "use_after_reset": r"dst belongs to a TPipe that was reset or destroyed",
    "tiling_too_small": r"GET_TILING_DATA: the structure has 256 bytes, the tiling data of the "
    r"host has 64",
    "tiling_over_ub": r"GET_TILING_DATA: overwrites bytes \[0, 8\) of UB",
    "tiling_of_key": r"tiling key 7 is registered with another structure",
    "tiling_bad_condition": r"cannot read the condition \"TILING_KEY ==\"",
}
WARNINGS = {
    "ub_to_the_end": (
        "the framework's part of UB",
        r"ends at byte 196608 of UB; CANN keeps the bytes from 196352 on",
    ),
    "not_freed": ("tensor not freed", r"a tensor of position VECIN is allocated and was not freed"),
    "declared_size": (
        "beyond the size given to SetGlobalBuffer",
        r"a read of src ends 128 bytes after the tensor's size",
    ),
}


def launch(library, kernel, blocks=1):
    buffers = [
        (INPUT, np.zeros(64, np.float32)),
        (OUTPUT, np.zeros(64, np.float32)),
        (WORKSPACE, np.zeros(64, np.float32)),
        (TILING, np.zeros(8, np.int64)),
    ]
    return library.launch(kernel, buffers, key=7, block_dim=blocks)


def lines_of(kernel):
    """First and last line of the kernel's definition."""
    lines = SOURCE.read_text().split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith(f"KERNEL({kernel})"))
    last = next(
        i for i in range(first, len(lines)) if lines[i].endswith("}") and lines[i][0] in "}K"
    )
    return first + 1, last + 1


@pytest.mark.parametrize("kernel", ERRORS)
def test_error(faults_memory, kernel):
    report = launch(faults_memory, kernel)
    assert not report.ok, "not caught"
    assert re.search(ERRORS[kernel], report.error), report.error
    place = re.match(rf"kernel {kernel}, (\S+):(\d+), AIV 0: ", report.error)
    assert place, report.error
    first, last = lines_of(kernel)
    assert place[1] == str(SOURCE.relative_to(ROOT)), report.error
    assert first <= int(place[2]) <= last, report.error


@pytest.mark.parametrize("kernel", WARNINGS)
def test_warning(faults_memory, kernel):
    report = launch(faults_memory, kernel)
    assert report.ok, report.error
    kind, message = WARNINGS[kernel]
    assert report.kinds() == [kind]
    assert re.search(message, report.warnings[0]["message"]) and report.warnings[0]["count"] == 1


# kernel: (what is said, core)
STOPPED = {
    "null_write": (
        r"after Duplicate: an access through a pointer that is null or nearly so, to 0x0 "
        r"\(SIG(SEGV|BUS)\); memory of the device is reached through tensors$",
        "AIV 1",
    ),
    "null_write_first": (
        r"before the first instruction: an access through a pointer that is null",
        "AIV [01]",
    ),
    "wild_read": (r"after Duplicate: an access through a pointer to 0x123456789000", "AIV [01]"),
    "stack_overflow": (
        r"after Duplicate: the stack is full \(SIG(SEGV|BUS)\): arrays that are too large, or a "
        r"call without end$",
        "AIV [01]",
    ),
}


@pytest.mark.parametrize("kernel", STOPPED)
def test_stopped_by_the_processor(faults_memory, kernel):
    """A signal names kernel, core and last instruction, and the process goes on."""
    message, core = STOPPED[kernel]
    for _ in range(2):
        report = launch(faults_memory, kernel, blocks=2)
        assert not report.ok
        assert re.search(rf"^kernel {kernel}, .*, {core}: {message}", report.error), report.error
        place = re.search(r"faults_memory\.cc:(\d+)", report.error)
        if "after" in message:
            first, last = lines_of(kernel)
            assert first <= int(place[1]) <= last, report.error
    assert launch(faults_memory, "ub_to_the_end").ok


def test_a_signal_outside_a_kernel(faults_memory):
    """It is as deadly after a launch as it was before."""
    done = python(
        "-c",
        f"""
import ctypes
from twin.tests.device.test_memory_faults import launch
from twin.tests.harness import Library
library = Library({str(faults_memory._library._name)!r})
assert not launch(library, "stack_overflow").ok
ctypes.string_at(0)
""",
    )
    assert done.returncode < 0 and not done.stdout, done.stderr
