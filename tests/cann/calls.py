"""Calls of the stand-in's own operators through ctypes: their arguments, both phases, results."""

import ctypes
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ascendc_twin import library
from twin.tests.host.acl import DTYPES, FORMAT_ND, SUCCESS, handle, ints, lib

LIBRARY = Path(library()).parent / "cann" / "libopapi.so"
own = ctypes.CDLL(str(LIBRARY))
for name in ("aclCreateTensorDesc", "aclCreateDataBuffer", "aclopCreateAttr"):
    getattr(own, name).restype = ctypes.c_void_p
own.TwinOperatorType.restype = ctypes.c_char_p
CODES = {**DTYPES, "int16": 6, "uint32": 8, "float64": 11}


@dataclass
class Out:
    """An output: what it should hold, and what it holds before."""

    expected: object
    before: object = None
    dtype: str = ""

    def __post_init__(self):
        self.expected = np.asarray(self.expected)
        self.dtype = self.dtype or str(self.expected.dtype)
        if self.before is None:
            self.before = np.zeros_like(self.expected)


@dataclass
class Scalar:
    value: float
    dtype: str = "float32"


@dataclass
class Number:
    """A plain argument of a C type."""

    value: object
    kind: type = ctypes.c_int64


@dataclass
class Bools:
    """A list of truth values."""

    values: tuple


def dtype(name):
    return Number(CODES[name], ctypes.c_int)


def halves(values):
    """The bits of bfloat16, rounded to the nearest even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@dataclass
class BFloat16:
    """An input of bfloat16."""

    values: object
    bits: object = field(init=False)

    def __post_init__(self):
        self.bits = halves(self.values)


@dataclass
class Constant:
    """An input of an operator by type that is given with its description."""

    values: object


class Call:
    """One call on a device; `Out`s among the arguments can be read after `run`."""

    def __init__(self, device, name):
        self.device, self.name = device, name
        self.outputs, self._keep = [], []

    def _tensor(self, array, dtype=None):
        memory = self.device.put(array)
        dtype = dtype or str(array.dtype)
        DTYPES.setdefault(dtype, CODES.get(dtype))
        return memory, self.device.tensor(memory, array.shape, dtype)

    def _argument(self, value):
        if value is None or isinstance(value, ctypes._SimpleCData):
            return value
        if isinstance(value, BFloat16):
            return self._tensor(value.bits, "bfloat16")[1]
        if isinstance(value, np.ndarray):
            return self._tensor(value)[1]
        if isinstance(value, Out):
            memory, tensor = self._tensor(np.asarray(value.before), value.dtype)
            self.outputs.append((value, memory))
            return tensor
        if isinstance(value, Scalar):
            array = np.array(value.value, value.dtype)
            self._keep.append(array)
            data = array.ctypes.data_as(ctypes.c_void_p)
            return ctypes.c_void_p(lib.aclCreateScalar(data, CODES[value.dtype]))
        if isinstance(value, Number):
            return value.kind(value.value)
        if isinstance(value, tuple):
            return self.device.int_array(value)
        if isinstance(value, Bools):
            array = (ctypes.c_bool * len(value.values))(*value.values)
            count = ctypes.c_uint64(len(value.values))
            return ctypes.c_void_p(lib.aclCreateBoolArray(array, count))
        if isinstance(value, list):
            tensors = [self._argument(each) for each in value]
            array = (ctypes.c_void_p * len(tensors))(*[each.value for each in tensors])
            count = ctypes.c_uint64(len(tensors))
            return ctypes.c_void_p(lib.aclCreateTensorList(array, count))
        if isinstance(value, bool):
            return ctypes.c_bool(value)
        return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(value)

    def aclnn(self, arguments):
        """Both phases; the status of the first that is not success, or of the stream."""
        passed = [self._argument(value) for value in arguments]
        size, executor = ctypes.c_uint64(), handle()
        prepare = getattr(own, f"aclnn{self.name}GetWorkspaceSize")
        status = prepare(*passed, ctypes.byref(size), ctypes.byref(executor))
        if status == SUCCESS:
            launch = getattr(own, f"aclnn{self.name}")
            status = launch(None, size, executor, self.device.stream)
        return self.device.synchronize() if status == SUCCESS else status

    def results(self):
        """Arrays of the outputs, in the order of the arguments."""
        found = []
        for out, memory in self.outputs:
            before = np.asarray(out.before)
            found.append(self.device.get(memory, before.shape, before.dtype))
        return found

    def _described(self, value, storage):
        """(description, buffer) of an input or output of an operator by type."""
        if isinstance(value, Out):
            array, dtype = np.asarray(value.before), value.dtype
        else:
            array = np.asarray(value.values if isinstance(value, Constant) else value)
            dtype = str(array.dtype)
        shape = (array.ndim, ints(array.shape))
        made = ctypes.c_void_p(own.aclCreateTensorDesc(CODES[dtype], *shape, FORMAT_ND))
        size = ctypes.c_size_t(array.nbytes)
        memory = None
        if isinstance(value, Constant):
            self._keep.append(array)
            own.aclSetTensorConst(made, array.ctypes.data_as(ctypes.c_void_p), size)
        else:
            memory = self.device.put(array)
        if isinstance(value, Out):
            self.outputs.append((value, memory))
        if "format" in storage:
            assert own.aclSetTensorFormat(made, storage["format"]) == SUCCESS
        if "shape" in storage:
            stored = storage["shape"]
            assert own.aclSetTensorShape(made, len(stored), ints(stored)) == SUCCESS
        return made, ctypes.c_void_p(own.aclCreateDataBuffer(memory, size))

    def aclop(self, inputs, attributes, outputs, storage=None):
        """The status of the call, or of the stream; `storage` is set for the first input."""
        attr = ctypes.c_void_p(own.aclopCreateAttr())
        kinds = {bool: "Bool", int: "Int", float: "Float", str: "String"}
        for name, value in attributes.items():
            passed = {float: ctypes.c_float, int: ctypes.c_int64}.get(type(value), lambda x: x)
            passed = value.encode() if isinstance(value, str) else passed(value)
            getattr(own, f"aclopSetAttr{kinds[type(value)]}")(attr, name.encode(), passed)
        made = [
            self._described(value, storage or {} if i == 0 else {})
            for i, value in enumerate((*inputs, *outputs))
        ]
        n = len(inputs)
        array_of = lambda found: (ctypes.c_void_p * len(found))(*[x.value for x in found])  # noqa: E731
        descriptions, buffers = zip(*made)
        status = own.aclopCompileAndExecute(
            *(self.name.encode(), n, array_of(descriptions[:n]), array_of(buffers[:n])),
            *(len(outputs), array_of(descriptions[n:]), array_of(buffers[n:])),
            *(attr, 0, 0, None, self.device.stream),
        )
        own.aclopDestroyAttr(attr)
        for description, buffer in made:
            own.aclDestroyTensorDesc(description)
            own.aclDestroyDataBuffer(buffer)
        return self.device.synchronize() if status == SUCCESS else status
