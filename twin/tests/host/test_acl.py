"""The acl runtime: states, memory, copies, streams, events."""

import ctypes

import numpy as np
import pytest

from .acl import (
    DEFAULT,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    INVALID_PARAM,
    REPEAT_FINALIZE,
    REPEAT_INITIALIZE,
    RT_CONTEXT_NULL,
    RT_INVALID_DEVICEID,
    RT_PARAM_INVALID,
    SUCCESS,
    Device,
    handle,
    lib,
    recent_error,
    reset_device,
)


@pytest.fixture
def device():
    with Device() as opened:
        yield opened


def size(bytes):
    return ctypes.c_size_t(bytes)


def host(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def test_order_of_calls():
    """A call that needs a context says so; a device is set with and without aclInit."""
    memory, number = handle(), ctypes.c_int32(-1)
    # A test of this process that called an operator has left the runtime initialised.
    initialised = lib.aclFinalize() == SUCCESS
    recent_error()
    assert lib.aclFinalize() == REPEAT_FINALIZE
    assert recent_error() == "aclFinalize: aclInit has not been called"
    reset_device()
    assert lib.aclrtSetDevice(0) == SUCCESS
    assert lib.aclrtSetDevice(0) == SUCCESS
    assert lib.aclrtResetDevice(0) == SUCCESS
    # Set twice, it is there until it has been reset twice.
    assert lib.aclrtGetDevice(ctypes.byref(number)) == SUCCESS and number.value == 0
    assert lib.aclrtResetDevice(0) == SUCCESS
    assert lib.aclInit(None) == SUCCESS
    assert lib.aclInit(None) == REPEAT_INITIALIZE
    assert lib.aclrtSetDevice(8) == RT_INVALID_DEVICEID
    assert "deviceId must be from 0 to 7, got 8" in recent_error()
    assert lib.aclrtSetDevice(3) == SUCCESS
    assert lib.aclrtGetDevice(ctypes.byref(number)) == SUCCESS and number.value == 3
    assert lib.aclrtSetDevice(0) == RT_INVALID_DEVICEID
    assert "deviceId must be 3, the device of this process until it is reset" in recent_error()
    assert lib.aclrtResetDevice(3) == SUCCESS
    assert lib.aclrtSetDevice(0) == SUCCESS
    assert lib.aclrtResetDevice(0) == SUCCESS
    assert lib.aclrtMalloc(ctypes.byref(memory), size(8), 0) == RT_CONTEXT_NULL
    assert "this thread has no context" in recent_error()
    assert lib.aclFinalize() == SUCCESS
    assert recent_error() is None
    if initialised:
        assert lib.aclInit(None) == SUCCESS


def test_contexts(device):
    first, second, current = handle(), handle(), handle()
    assert lib.aclrtCreateContext(ctypes.byref(first), 0) == SUCCESS
    assert lib.aclrtCreateContext(ctypes.byref(second), 0) == SUCCESS
    assert lib.aclrtGetCurrentContext(ctypes.byref(current)) == SUCCESS
    assert current.value == second.value
    assert lib.aclrtSetCurrentContext(first) == SUCCESS
    assert lib.aclrtDestroyContext(first) == SUCCESS
    assert lib.aclrtSynchronizeDevice() == RT_CONTEXT_NULL
    assert lib.aclrtDestroyContext(first) == INVALID_PARAM
    assert lib.aclrtSetCurrentContext(second) == SUCCESS
    assert lib.aclrtDestroyContext(second) == SUCCESS
    assert lib.aclrtSetDevice(0) == SUCCESS


def test_device_queries(device):
    count, identity, mode = ctypes.c_uint32(), ctypes.c_int32(-1), ctypes.c_int(-1)
    free, total = size(0), size(0)
    assert lib.aclrtGetDeviceCount(ctypes.byref(count)) == SUCCESS and count.value == 8
    assert lib.aclrtGetDevice(ctypes.byref(identity)) == SUCCESS and identity.value == 0
    assert lib.aclrtGetRunMode(ctypes.byref(mode)) == SUCCESS and mode.value == 1
    assert lib.aclrtGetSocName() == b"Ascend910B2"
    assert lib.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total)) == SUCCESS
    assert total.value == 64 << 30
    before = free.value
    memory = device.malloc(1000)
    assert lib.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total)) == SUCCESS
    assert before - free.value == 1000
    device.free(memory)
    assert lib.aclrtGetDeviceCount(None) == INVALID_PARAM


def test_memory(device):
    memory = device.malloc(100)
    assert memory.value % 512 == 0
    assert np.isnan(device.get(memory, 25, np.float32)).all(), "fresh memory is garbage"
    empty = handle()
    assert lib.aclrtMalloc(ctypes.byref(empty), size(0), 0) == RT_PARAM_INVALID
    assert "size must be greater than 0" in recent_error()
    assert lib.aclrtMalloc(None, size(8), 0) == INVALID_PARAM
    assert lib.aclrtFree(ctypes.c_void_p(memory.value + 8)) == RT_PARAM_INVALID
    assert device.free(memory) == SUCCESS
    assert lib.aclrtFree(memory) == RT_PARAM_INVALID
    assert "has been freed already" in recent_error()
    assert lib.aclrtFree(None) == INVALID_PARAM
    page = handle()
    assert lib.aclrtMallocHost(ctypes.byref(page), size(64)) == SUCCESS
    assert lib.aclrtFreeHost(page) == SUCCESS
    # Programs exist that free the address of a variable.
    other = ctypes.create_string_buffer(64)
    for address in (page, ctypes.cast(other, ctypes.c_void_p)):
        assert lib.aclrtFreeHost(address) == RT_PARAM_INVALID
        assert "is not an address that aclrtMallocHost gave" in recent_error()


def test_copies(device):
    values = np.arange(16, dtype=np.float32)
    first, second = device.put(values), device.malloc(64)
    assert lib.aclrtMemcpy(second, size(64), first, size(64), DEVICE_TO_DEVICE) == SUCCESS
    assert np.array_equal(device.get(second, 16, np.float32), values)
    assert lib.aclrtMemset(second, size(64), 0, size(32)) == SUCCESS
    assert np.array_equal(device.get(second, 16, np.float32), [*[0] * 8, *values[8:]])
    back = np.empty(16, np.float32)
    assert lib.aclrtMemcpy(host(back), size(64), first, size(64), DEFAULT) == SUCCESS
    assert np.array_equal(back, values)
    inside = ctypes.c_void_p(first.value + 32)
    assert lib.aclrtMemcpy(host(back), size(32), inside, size(32), DEVICE_TO_HOST) == SUCCESS
    assert np.array_equal(back[:8], values[8:])


def test_wrong_copies(device):
    values = np.zeros(16, np.float32)
    memory = device.malloc(60)

    def error(*arguments):
        status = lib.aclrtMemcpy(*arguments)
        assert status in (RT_PARAM_INVALID, INVALID_PARAM)
        return recent_error()

    pointer = host(values)
    assert "dst has 60 bytes left, the call needs 64" in error(
        memory, size(64), pointer, size(64), HOST_TO_DEVICE
    )
    assert "count 64 is greater than destMax 32" in error(
        memory, size(32), pointer, size(64), HOST_TO_DEVICE
    )
    assert "dst is not device memory" in error(pointer, size(64), pointer, size(64), HOST_TO_DEVICE)
    assert "dst is device memory, the kind of copy says host" in error(
        memory, size(60), memory, size(60), DEVICE_TO_HOST
    )
    assert "src is device memory" in error(memory, size(60), memory, size(60), HOST_TO_DEVICE)
    assert "src is null" in error(memory, size(60), None, size(60), HOST_TO_DEVICE)
    assert lib.aclrtMemset(memory, size(60), 0, size(61)) == RT_PARAM_INVALID
    assert lib.aclrtMemset(pointer, size(60), 0, size(8)) == RT_PARAM_INVALID
    assert "devPtr is not device memory" in recent_error()


def test_work_waits_for_its_stream(device):
    """A program that reads without waiting sees the old content, as it might on a device."""
    memory = device.put(np.zeros(4, np.float32))
    done = ctypes.c_int(-1)
    assert lib.aclrtMemsetAsync(memory, size(16), 1, size(16), device.stream) == SUCCESS
    assert not device.get(memory, 4, np.float32).any()
    assert lib.aclrtStreamQuery(device.stream, ctypes.byref(done)) == SUCCESS
    assert done.value == 1
    assert device.synchronize() == SUCCESS
    assert device.get(memory, 4, np.float32).all()
    assert lib.aclrtStreamQuery(device.stream, ctypes.byref(done)) == SUCCESS
    assert done.value == 0


def test_freed_before_the_copy_ran(device):
    source, target = device.put(np.zeros(4, np.float32)), device.malloc(16)
    arguments = (target, size(16), source, size(16), DEVICE_TO_DEVICE, device.stream)
    assert lib.aclrtMemcpyAsync(*arguments) == SUCCESS
    assert device.free(source) == SUCCESS
    assert device.synchronize() == RT_PARAM_INVALID
    assert recent_error() == "aclrtMemcpyAsync: src is not device memory"
    assert device.synchronize() == SUCCESS


def test_events(device):
    """One stream waits for a mark in another; the work of both comes in that order."""
    memory = device.put(np.zeros(4, np.uint8))
    other, event, status = handle(), handle(), ctypes.c_int(-1)
    assert lib.aclrtCreateStream(ctypes.byref(other)) == SUCCESS
    assert lib.aclrtCreateEvent(ctypes.byref(event)) == SUCCESS
    assert lib.aclrtMemsetAsync(memory, size(4), 1, size(4), other) == SUCCESS
    assert lib.aclrtRecordEvent(event, other) == SUCCESS
    assert lib.aclrtMemsetAsync(memory, size(4), 9, size(1), other) == SUCCESS
    assert lib.aclrtStreamWaitEvent(device.stream, event) == SUCCESS
    assert lib.aclrtMemsetAsync(memory, size(4), 2, size(2), device.stream) == SUCCESS
    assert lib.aclrtQueryEventStatus(event, ctypes.byref(status)) == SUCCESS
    assert status.value == 0
    assert device.synchronize() == SUCCESS
    assert device.get(memory, 4, np.uint8).tolist() == [2, 2, 1, 1]
    assert lib.aclrtQueryEventStatus(event, ctypes.byref(status)) == SUCCESS
    assert status.value == 1
    assert lib.aclrtSynchronizeDevice() == SUCCESS
    assert device.get(memory, 4, np.uint8).tolist() == [9, 2, 1, 1]
    assert lib.aclrtSynchronizeEvent(event) == SUCCESS
    assert lib.aclrtDestroyEvent(event) == SUCCESS
    assert lib.aclrtDestroyEvent(event) == INVALID_PARAM
    assert lib.aclrtDestroyStream(other) == SUCCESS
    assert lib.aclrtSynchronizeStream(other) == RT_PARAM_INVALID
    assert recent_error() == "aclrtSynchronizeStream: the stream does not exist"


def test_elements():
    for value in (0.0, 1.0, -2.5, 65504.0, 6e-8, float("inf")):
        bits = int(np.float16(value).view(np.uint16))
        assert lib.aclFloatToFloat16(value) == bits
        assert lib.aclFloat16ToFloat(bits) == float(np.float16(value))
    assert [lib.aclDataTypeSize(i) for i in (0, 1, 2, 9, 12, 13, 27)] == [4, 2, 1, 8, 1, 0, 2]
