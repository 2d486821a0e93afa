"""Calls of native operators as a file for nsa_replay, and the outputs it writes.

Little-endian: a magic, the number of cases, then each case: operator, attributes (name, type
letter, value), inputs (present, MindSpore type id, shape, contents). A result is an error text and,
where that is empty, the outputs.
"""

import io
import struct
from dataclasses import dataclass

import numpy as np

CASE_MAGIC = b"NSACASE1"
RESULT_MAGIC = b"NSARSLT1"

# MindSpore's type ids, which infer/op.h uses.
TYPE_IDS = {
    "bool": 30,
    "int32": 34,
    "int64": 35,
    "uint8": 37,
    "float16": 42,
    "float32": 43,
    "float64": 44,
    "bfloat16": 45,
}
_NAMES = {number: name for name, number in TYPE_IDS.items()}


@dataclass
class Result:
    """The outcome of a call: the text of its error, or its outputs as the binding returns them."""

    error: str
    outputs: list


def _text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def _attr(value):
    if isinstance(value, str):
        return b"s" + _text(value)
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value)
    return b"i" + struct.pack("<q", int(value))


def _tensor(tensor):
    if tensor is None:
        return struct.pack("<B", 0)
    name, array = tensor if isinstance(tensor, tuple) else (tensor.dtype.name, tensor)
    head = struct.pack("<BiI", 1, TYPE_IDS[name], array.ndim)
    return head + struct.pack(f"<{array.ndim}q", *array.shape) + array.tobytes()


def write_cases(path, cases):
    """Write cases, anything with op, inputs and attrs as `_native.run` takes them."""
    with open(path, "wb") as file:
        file.write(CASE_MAGIC + struct.pack("<I", len(cases)))
        for case in cases:
            file.write(_text(case.op) + struct.pack("<I", len(case.attrs)))
            for name, value in case.attrs.items():
                file.write(_text(name) + _attr(value))
            file.write(struct.pack("<I", len(case.inputs)))
            for tensor in case.inputs:
                file.write(_tensor(tensor))


def _take(file, form):
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _read_output(file):
    number, rank = _take(file, "<iI")
    shape = _take(file, f"<{rank}q")
    name = _NAMES[number]
    dtype = np.dtype(np.uint16 if name == "bfloat16" else name)
    count = int(np.prod(shape, dtype=np.int64))
    array = np.frombuffer(file.read(count * dtype.itemsize), dtype).reshape(shape)
    return (name, array) if name == "bfloat16" else array


def read_results(path):
    """The results of every case, in the order of the cases."""
    with open(path, "rb") as handle:
        file = io.BytesIO(handle.read())
    if file.read(len(RESULT_MAGIC)) != RESULT_MAGIC:
        raise ValueError(f"{path} is no result file")
    results = []
    while file.tell() < len(file.getbuffer()):
        error = file.read(*_take(file, "<I")).decode()
        outputs = [] if error else [_read_output(file) for _ in range(*_take(file, "<I"))]
        results.append(Result(error, outputs))
    return results
