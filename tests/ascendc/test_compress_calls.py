"""aclnn calls: return codes with one reason each, tensors with gaps, executors, streams."""

import ctypes

import numpy as np
import pytest

from mindspore_nsa.reference import nsa_compress
from twin.tests.host.acl import (
    FORMAT_NCL,
    FORMAT_NZ,
    INVALID,
    NULLPTR,
    RT_AICORE_EXCEPTION,
    RT_PARAM_INVALID,
    SUCCESS,
    TILING,
    Device,
    cores,
    handle,
    recent_error,
)

from .aclnn import first_phase, lib, second_phase

API = "aclnnMsnsaCompress"
SEQ, ROWS = [40, 96], 3
INPUT = np.random.default_rng(0).integers(-8, 9, (96, 4, 32)).astype(np.float16) / 8
WEIGHT = np.random.default_rng(1).integers(-8, 9, (32, 4)).astype(np.float16) / 8
EXPECTED = nsa_compress(INPUT, WEIGHT, 32, 16, actual_seq_len=SEQ).astype(np.float16)


@pytest.fixture
def device():
    with Device() as opened:
        yield opened


class Call:
    """A good call, whose arguments can be changed by name."""

    def __init__(self, device):
        self.device = device
        self.memory = device.malloc(EXPECTED.nbytes)
        self.arguments = {
            "input": device.tensor(device.put(INPUT), INPUT.shape, "float16"),
            "weight": device.tensor(device.put(WEIGHT), WEIGHT.shape, "float16"),
            "actSeqLenOptional": device.int_array(SEQ),
            "layoutOptional": b"TND",
            "compressBlockSize": 32,
            "compressStride": 16,
            "actSeqLenType": 0,
            "out": device.tensor(self.memory, EXPECTED.shape, "float16"),
        }

    def first(self, **changes):
        arguments = {**self.arguments, **changes}
        assert set(arguments) == set(self.arguments)
        values = (ctypes.c_int64(a) if type(a) is int else a for a in arguments.values())
        return first_phase(API, *values)

    def run(self, **changes):
        """Status of a whole call."""
        status, size, executor = self.first(**changes)
        assert status == SUCCESS, recent_error()
        assert second_phase(self.device, API, size, executor) == SUCCESS
        return self.device.synchronize()

    def output(self):
        return self.device.get(self.memory, EXPECTED.shape, np.float16)


@pytest.fixture
def call(device):
    return Call(device)


@pytest.mark.parametrize("vector_cores", [1, 7, 48])
def test_good_call(call, vector_cores):
    with cores(vector_cores):
        assert call.run() == SUCCESS
    assert np.array_equal(call.output(), EXPECTED)
    assert recent_error() is None


def test_optional_arguments(call, capfd):
    """Without a layout the default of the definition holds; without the list the rules speak."""
    assert call.run(layoutOptional=None) == SUCCESS
    assert np.array_equal(call.output(), EXPECTED)
    status, _, _ = call.first(actSeqLenOptional=None)
    assert status == INVALID
    assert "actual_seq_len" in one_reason(capfd)


def test_names_of_dimensions(call, device):
    """A format that names dimensions lies in memory as ND does, and MindSpore uses these."""
    named = device.tensor(device.put(INPUT), INPUT.shape, "float16", form=FORMAT_NCL)
    assert call.run(input=named) == SUCCESS
    assert np.array_equal(call.output(), EXPECTED)


def one_reason(capfd):
    """The line that a failed call printed: exactly one, and what aclGetRecentErrMsg gives."""
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0] == f"[ERROR] {recent_error()}"
    assert recent_error() is None
    return lines[0]


def other_tensor(device, array, shape=None, dtype="float16", **options):
    return device.tensor(device.put(array), shape or array.shape, dtype, **options)


def wrong_calls():
    """name: (changes of a device, status, text)."""

    def tensor(name, shape, dtype="float16", item=2, **options):
        array = np.zeros(int(np.prod(shape)) * item, np.uint8)
        return lambda d: {name: d.tensor(d.put(array), shape, dtype, **options)}

    return {
        "input null": (lambda d: {"input": None}, NULLPTR, "input must not be null"),
        "weight null": (lambda d: {"weight": None}, NULLPTR, "weight must not be null"),
        "out null": (lambda d: {"out": None}, NULLPTR, "out must not be null"),
        "dtype": (
            tensor("input", (96, 4, 32), "float32", 4),
            INVALID,
            "input must be of dtype float16 or bfloat16",
        ),
        "mixed dtypes": (
            tensor("weight", (32, 4), "bfloat16"),
            INVALID,
            "weight must be of dtype float16 or bfloat16 that goes with the other tensors, "
            "got bfloat16 with input float16",
        ),
        "format": (tensor("input", (96, 4, 32), form=FORMAT_NZ), INVALID, "in format FRACTAL_NZ"),
        "weight shape": (
            tensor("weight", (32, 5)),
            INVALID,
            "weight must be of shape (compress_block_size, N) = (32, 4), got (32, 5)",
        ),
        "input rank": (tensor("input", (96, 128)), INVALID, "input must be of shape (T, N, D)"),
        "weight rank": (tensor("weight", (32, 4, 1)), INVALID, "weight must be of shape"),
        "output rank": (
            tensor("out", (ROWS, 128)),
            INVALID,
            "output must be of shape (3, 4, 32), got (3, 128)",
        ),
        "input without dimensions": (tensor("input", ()), INVALID, "input must be of shape"),
        "output rows": (tensor("out", (2, 4, 32)), INVALID, "num_windows must be at least 3"),
        "layout": (
            lambda d: {"layoutOptional": b"BSH"},
            INVALID,
            "layout must be 'TND', got 'BSH'",
        ),
        "list type": (lambda d: {"actSeqLenType": 1}, INVALID, "actSeqLenType must be 0"),
        "list end": (
            lambda d: {"actSeqLenOptional": d.int_array([40, 95])},
            INVALID,
            "actual_seq_len must",
        ),
        "block size": (
            lambda d: {"compressBlockSize": 144, "weight": tensor("w", (144, 4))(d)["w"]},
            TILING,
            "compress_block_size must be at most 128 on Ascend, got 144",
        ),
        "stride": (
            lambda d: {"compressStride": 24},
            TILING,
            "compress_stride must be a multiple of 16 on Ascend, got 24",
        ),
    }


@pytest.mark.parametrize("name", wrong_calls())
def test_wrong_call(call, capfd, name):
    changes, status, text = wrong_calls()[name]
    capfd.readouterr()
    assert call.first(**changes(call.device))[0] == status
    assert text in one_reason(capfd)


def test_wrong_memory(call, device, capfd):
    """Null, host memory, memory that is too small, and views that leave their storage."""

    def reason(status=INVALID, **changes):
        assert call.first(**changes)[0] == status
        return one_reason(capfd)

    def launched(status, **changes):
        first, size, executor = call.first(**changes)
        assert first == SUCCESS
        assert second_phase(device, API, size, executor) == status
        return one_reason(capfd)

    shape = INPUT.shape
    # The first phase takes it: an executor that is used again may get its addresses later.
    without = device.tensor(None, shape, "float16")
    assert "input has no memory" in launched(NULLPTR, input=without)
    host = INPUT.ctypes.data_as(ctypes.c_void_p)
    assert "not in device memory" in reason(input=device.tensor(host, shape, "float16"))
    small = device.tensor(device.malloc(100), shape, "float16")
    assert "input needs 24576 bytes, its device memory has 100" in reason(input=small)
    outside = other_tensor(device, INPUT, offset=1)
    assert "reaches from element 1 to 12288 of a storage of 12288" in reason(input=outside)
    backward = other_tensor(device, INPUT, strides=(-128, 32, 1))
    assert "reaches from element -12160" in reason(input=backward)
    shared = device.tensor(device.put(INPUT), EXPECTED.shape, "float16")
    memory = device.put(INPUT)
    changes = {
        "input": device.tensor(memory, shape, "float16"),
        "out": device.tensor(memory, EXPECTED.shape, "float16"),
    }
    assert "out and input share device memory" in launched(INVALID, **changes)
    assert call.first(out=shared)[0] == SUCCESS
    flat = device.tensor(device.malloc(1000), EXPECTED.shape, "float16", strides=(0, 32, 1))
    assert "out has stride 0 in dimension 0" in reason(out=flat)


def test_views(call, device):
    """Inputs and outputs with strides and offsets give what contiguous ones give."""
    wide = np.zeros((98, 5, 64), np.float16)
    wide[1:97, 1:5, 3:35] = INPUT
    spread = device.tensor(
        device.put(wide), INPUT.shape, "float16", (320, 64, 1), 320 + 64 + 3, wide.shape
    )
    turned = np.ascontiguousarray(WEIGHT.T)
    weight = device.tensor(device.put(turned), WEIGHT.shape, "float16", (1, 32), 0, turned.shape)
    target = np.full((6, 4, 33), 7, np.float16)
    memory = device.put(target)
    out = device.tensor(memory, EXPECTED.shape, "float16", (2 * 132, 33, 1), 132, target.shape)
    plain = call.first()
    status, size, executor = call.first(input=spread, weight=weight, out=out)
    assert status == SUCCESS, recent_error()
    copies = INPUT.nbytes + WEIGHT.nbytes + EXPECTED.nbytes
    assert plain[1] + copies <= size <= plain[1] + copies + 3 * 512
    assert second_phase(device, API, size, executor) == SUCCESS
    assert device.synchronize() == SUCCESS, recent_error()
    target[1::2, :, :32] = EXPECTED
    assert np.array_equal(device.get(memory, target.shape, np.float16), target)


def test_dimension_of_one_and_broadcast_input(call, device):
    """A stride that is never used does not matter; stride 0 repeats an element."""
    one = np.array([0.5], np.float16)
    weight = device.tensor(device.put(one), WEIGHT.shape, "float16", (0, 0), 0, (1,))
    assert call.run(weight=weight) == SUCCESS
    half = np.full(WEIGHT.shape, 0.5, np.float16)
    expected = nsa_compress(INPUT, half, 32, 16, actual_seq_len=SEQ)
    assert np.abs(call.output() - expected).max() <= 2.0**-10 * np.abs(expected).max()


def test_second_phase(call, device, capfd):
    status, size, executor = call.first()
    assert status == SUCCESS and size >= 16 << 20
    workspace = device.malloc(size)
    assert second_phase(device, API, size, None, workspace) == NULLPTR
    assert "executor must not be null" in one_reason(capfd)
    assert second_phase(device, API, size - 1, executor, workspace) == INVALID
    assert f"workspaceSize must be {size} as the first phase has said" in one_reason(capfd)
    assert second_phase(device, API, size, executor, workspace) == INVALID
    assert "serves one call" in one_reason(capfd)
    function = getattr(lib, API)
    executor = call.first()[2]
    assert function(None, ctypes.c_uint64(size), executor, device.stream) == NULLPTR
    assert "workspace must not be null" in one_reason(capfd)
    executor = call.first()[2]
    assert function(workspace, ctypes.c_uint64(size), executor, ctypes.c_void_p(8)) == (
        RT_PARAM_INVALID
    )
    assert "the stream does not exist" in one_reason(capfd)
    null = ctypes.c_void_p()
    arguments = [ctypes.c_int64(a) if type(a) is int else a for a in call.arguments.values()]
    first = getattr(lib, API + "GetWorkspaceSize")
    assert first(*arguments, None, ctypes.byref(null)) == NULLPTR
    assert "workspaceSize must not be null" in one_reason(capfd)


def test_wrong_workspace(call, device, capfd):
    """Smaller than said, and not of the device."""
    status, size, executor = call.first()
    assert status == SUCCESS
    small = device.malloc(4096)
    assert second_phase(device, API, size, executor, small) == INVALID
    assert f"workspace must have {size} bytes, its device memory has 4096" in one_reason(capfd)
    executor = call.first()[2]
    host = np.zeros(size, np.uint8)
    memory = host.ctypes.data_as(ctypes.c_void_p)
    assert second_phase(device, API, size, executor, memory) == INVALID
    assert "workspace is not in device memory" in one_reason(capfd)


def test_destroyed_objects(call, device, capfd):
    """Nothing is read of an object that was destroyed, whoever is asked for it."""

    def destroyed(function, create):
        handle_ = ctypes.c_void_p(create)
        assert getattr(lib, function)(handle_) == SUCCESS
        assert getattr(lib, function)(handle_) == INVALID
        assert f"{function}: the object does not exist" in one_reason(capfd)
        return handle_

    one = ctypes.c_uint64(1)
    shape = (ctypes.c_int64 * 1)(4)
    made = lib.aclCreateTensor(shape, one, 1, None, ctypes.c_int64(0), 2, shape, one, None)
    tensor = destroyed("aclDestroyTensor", made)
    array = destroyed("aclDestroyIntArray", lib.aclCreateIntArray(shape, one))
    for name, value in (("input", tensor), ("out", tensor), ("actSeqLenOptional", array)):
        assert call.first(**{name: value})[0] == INVALID
        assert f"{name} does not exist, or has been destroyed" in one_reason(capfd)
    # The kinds are told apart.
    assert call.first(input=call.arguments["actSeqLenOptional"])[0] == INVALID
    assert "input does not exist" in one_reason(capfd)
    kind, count = ctypes.c_int(), ctypes.c_uint64()
    assert lib.aclGetDataType(tensor, ctypes.byref(kind)) == INVALID
    assert "aclGetDataType: the object does not exist" in one_reason(capfd)
    assert lib.aclGetIntArraySize(array, ctypes.byref(count)) == INVALID
    one_reason(capfd)


def test_freed_between_the_phases(call, device, capfd):
    memory = device.put(INPUT)
    tensor = device.tensor(memory, INPUT.shape, "float16")
    _, size, executor = call.first(input=tensor)
    device.free(memory)
    assert second_phase(device, API, size, executor) == INVALID
    assert "input was freed" in one_reason(capfd)


def test_result_waits_for_the_stream(call, device):
    """Nothing is computed before the stream is waited for."""
    assert lib.aclrtMemset(call.memory, EXPECTED.nbytes, 0, ctypes.c_size_t(EXPECTED.nbytes)) == 0
    _, size, executor = call.first()
    assert second_phase(device, API, size, executor) == SUCCESS
    assert not call.output().any()
    assert device.synchronize() == SUCCESS
    assert np.array_equal(call.output(), EXPECTED)


def test_freed_before_the_kernel_ran(call, device, capfd):
    memory = device.put(INPUT)
    tensor = device.tensor(memory, INPUT.shape, "float16")
    _, size, executor = call.first(input=tensor)
    assert second_phase(device, API, size, executor) == SUCCESS
    device.free(memory)
    assert device.synchronize() == RT_AICORE_EXCEPTION
    assert "input was freed before the stream was waited for" in one_reason(capfd)


def test_repeatable_executor(call, device, capfd):
    """Runs again, with other memory behind its tensors."""
    _, size, executor = call.first()
    assert lib.aclSetAclOpExecutorRepeatable(executor) == SUCCESS
    workspace = device.malloc(size)
    for factor in (1, 2):
        memory, out = device.put(INPUT * factor), device.malloc(EXPECTED.nbytes)
        first, last = call.arguments["input"], call.arguments["out"]
        assert lib.aclSetInputTensorAddr(executor, ctypes.c_size_t(0), first, memory) == SUCCESS
        assert lib.aclSetOutputTensorAddr(executor, ctypes.c_size_t(0), last, out) == SUCCESS
        assert second_phase(device, API, size, executor, workspace) == SUCCESS
        assert device.synchronize() == SUCCESS
        result = device.get(out, EXPECTED.shape, np.float16)
        expected = nsa_compress(INPUT * factor, WEIGHT, 32, 16, actual_seq_len=SEQ)
        assert np.array_equal(result, expected.astype(np.float16))
    assert lib.aclSetInputTensorAddr(executor, ctypes.c_size_t(9), first, memory) == INVALID
    assert "no tensor with index 9" in one_reason(capfd)
    assert lib.aclDestroyAclOpExecutor(executor) == SUCCESS
    assert lib.aclDestroyAclOpExecutor(executor) == INVALID


def test_no_rows(call, device):
    """No window: an empty output without memory, and nothing to compute."""
    empty = device.tensor(None, (0, 4, 32), "float16")
    segments = device.int_array([16, 32, 48, 64, 80, 96])
    status, size, executor = call.first(out=empty, actSeqLenOptional=segments)
    assert status == SUCCESS and size == 0
    assert second_phase(device, API, size, executor) == SUCCESS
    assert device.synchronize() == SUCCESS


def test_tensors(device, capfd):
    """Queries of a tensor, and descriptions that make no sense."""
    tensor = device.tensor(device.put(INPUT), (4, 96), "float16", (32, 128), 5, INPUT.shape)
    dims, count, number = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64(), ctypes.c_int64()
    for function, expected in (
        ("aclGetViewShape", [4, 96]),
        ("aclGetViewStrides", [32, 128]),
        ("aclGetStorageShape", [96, 4, 32]),
    ):
        call = getattr(lib, function)
        assert call(tensor, ctypes.byref(dims), ctypes.byref(count)) == SUCCESS
        assert dims[: count.value] == expected
    assert lib.aclGetViewOffset(tensor, ctypes.byref(number)) == SUCCESS and number.value == 5
    kind = ctypes.c_int()
    assert lib.aclGetDataType(tensor, ctypes.byref(kind)) == SUCCESS and kind.value == 1
    assert lib.aclGetFormat(tensor, ctypes.byref(kind)) == SUCCESS and kind.value == 2
    assert lib.aclGetFormat(None, ctypes.byref(kind)) == NULLPTR
    one_reason(capfd)
    shape = (ctypes.c_int64 * 1)(-4)
    arguments = (shape, ctypes.c_uint64(1), 1, None, ctypes.c_int64(0), 2, shape)
    assert lib.aclCreateTensor(*arguments, ctypes.c_uint64(1), None) is None
    assert "dimension 0 is -4" in one_reason(capfd)
    array = device.int_array([1, 2, 3])
    assert lib.aclGetIntArraySize(array, ctypes.byref(count)) == SUCCESS and count.value == 3
    # MindSpore destroys the handles of absent arguments, too.
    assert lib.aclDestroyTensor(handle()) == SUCCESS
    assert "aclDestroyTensor" not in capfd.readouterr().err
