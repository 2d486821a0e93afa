"""The acl runtime and aclnn calls of the twin's library through ctypes."""

import contextlib
import ctypes

import numpy as np

import ascendc_twin

SUCCESS = 0
INVALID_PARAM, UNINITIALIZE, REPEAT_INITIALIZE, REPEAT_FINALIZE = 100000, 100001, 100002, 100037
RT_PARAM_INVALID, RT_INVALID_DEVICEID, RT_CONTEXT_NULL = 107000, 107001, 107002
RT_AICORE_EXCEPTION = 507015
NULLPTR, INVALID, TILING, NO_KERNEL = 161001, 161002, 561002, 561003
HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)
FORMAT_ND, FORMAT_NCL, FORMAT_NZ = 2, 47, 29
DTYPES = {
    "float32": 0,
    "float16": 1,
    "int8": 2,
    "int32": 3,
    "uint8": 4,
    "int64": 9,
    "bool": 12,
    "bfloat16": 27,
}

_POINTERS = (
    "aclCreateTensor aclCreateIntArray aclCreateFloatArray aclCreateBoolArray aclCreateScalar "
    "aclCreateTensorList"
).split()


def load(path):
    """A library that has the twin's functions, with the types of what returns no status."""
    library = ctypes.CDLL(path)
    for name in _POINTERS:
        getattr(library, name).restype = ctypes.c_void_p
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    library.aclrtGetSocName.restype = ctypes.c_char_p
    library.aclDataTypeSize.restype = ctypes.c_size_t
    library.aclFloat16ToFloat.restype = ctypes.c_float
    library.aclFloat16ToFloat.argtypes = [ctypes.c_uint16]
    library.aclFloatToFloat16.restype = ctypes.c_uint16
    library.aclFloatToFloat16.argtypes = [ctypes.c_float]
    library.TwinSetCores.restype = ctypes.c_bool
    return library


lib = load(ascendc_twin.library())


def recent_error():
    text = lib.aclGetRecentErrMsg()
    return None if text is None else text.decode()


def handle():
    return ctypes.c_void_p()


def ints(values):
    return (ctypes.c_int64 * max(len(values), 1))(*values)


class Device:
    """Initialised runtime with a context and a stream; everything is freed at the end."""

    def __init__(self, number=0):
        self.number = number

    def __enter__(self):
        self._memory, self._tensors, self._arrays = [], [], []
        status = lib.aclInit(None)
        assert status in (SUCCESS, REPEAT_INITIALIZE)
        recent_error()
        self.finalize = status == SUCCESS
        assert lib.aclrtSetDevice(self.number) == SUCCESS
        self.stream = handle()
        assert lib.aclrtCreateStream(ctypes.byref(self.stream)) == SUCCESS
        return self

    def __exit__(self, *error):
        for tensor in self._tensors:
            lib.aclDestroyTensor(tensor)
        for array in self._arrays:
            lib.aclDestroyIntArray(array)
        lib.aclrtDestroyStream(self.stream)
        for memory in self._memory:
            lib.aclrtFree(memory)
        recent_error()
        if self.finalize:
            assert lib.aclFinalize() == SUCCESS

    def malloc(self, size):
        memory = handle()
        assert lib.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(size), 0) == SUCCESS
        self._memory.append(memory)
        return memory

    def free(self, memory):
        self._memory.remove(memory)
        return lib.aclrtFree(memory)

    def put(self, array):
        """Device memory with the content of an array."""
        array = np.ascontiguousarray(array)
        if array.nbytes == 0:
            return None
        memory = self.malloc(array.nbytes)
        size = ctypes.c_size_t(array.nbytes)
        status = lib.aclrtMemcpy(memory, size, array.ctypes.data_as(ctypes.c_void_p), size, 1)
        assert status == SUCCESS
        return memory

    def get(self, memory, shape, dtype):
        """An array with the content of device memory."""
        array = np.empty(shape, dtype)
        size = ctypes.c_size_t(array.nbytes)
        status = lib.aclrtMemcpy(array.ctypes.data_as(ctypes.c_void_p), size, memory, size, 2)
        assert status == SUCCESS, recent_error()
        return array

    def tensor(self, memory, shape, dtype, strides=None, offset=0, storage=None, form=FORMAT_ND):
        """aclTensor of device memory."""
        storage = shape if storage is None else storage
        tensor = lib.aclCreateTensor(
            ints(shape),
            ctypes.c_uint64(len(shape)),
            DTYPES[str(dtype)],
            None if strides is None else ints(strides),
            ctypes.c_int64(offset),
            form,
            ints(storage),
            ctypes.c_uint64(len(storage)),
            memory,
        )
        assert tensor, recent_error()
        tensor = ctypes.c_void_p(tensor)
        self._tensors.append(tensor)
        return tensor

    def int_array(self, values):
        array = ctypes.c_void_p(lib.aclCreateIntArray(ints(values), ctypes.c_uint64(len(values))))
        self._arrays.append(array)
        return array

    def synchronize(self):
        return lib.aclrtSynchronizeStream(self.stream)


def reset_device():
    """Reset the device until this process has none."""
    assert lib.aclrtSetDevice(0) == SUCCESS
    while lib.aclrtGetCurrentContext(ctypes.byref(handle())) == SUCCESS:
        assert lib.aclrtResetDevice(0) == SUCCESS
    recent_error()


@contextlib.contextmanager
def cores(vector, cube=None):
    """Another number of cores."""
    cube = max(1, vector // 2) if cube is None else cube
    assert lib.TwinSetCores(cube, vector)
    try:
        yield
    finally:
        assert lib.TwinSetCores(0, 0)


def first_phase(function, *arguments, library=lib):
    """(status, workspace size, executor) of aclnn...GetWorkspaceSize."""
    size, executor = ctypes.c_uint64(), handle()
    status = getattr(library, function + "GetWorkspaceSize")(
        *arguments, ctypes.byref(size), ctypes.byref(executor)
    )
    return status, size.value, executor


def second_phase(device, function, size, executor, workspace=None, library=lib):
    """Status of the second phase, with a workspace of that size."""
    if workspace is None and size > 0:
        workspace = device.malloc(size)
    return getattr(library, function)(workspace, ctypes.c_uint64(size), executor, device.stream)
