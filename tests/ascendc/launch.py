"""Shared by the runners of the kernels: calls of their libraries, and the results."""

import ctypes
from dataclasses import dataclass

import numpy as np

from mindspore_nsa.testing.dtypes import BFLOAT16

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")


# The fields of the structs of launcher.h.
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_int64)]


class Result(ctypes.Structure):
    _fields_ = [
        ("error", ctypes.c_char * 4096),
        ("cores", ctypes.c_int64),
        ("warnings", ctypes.c_int64),
        ("unwritten", ctypes.c_int64),
        ("instructions", ctypes.c_int64 * len(PIPES)),
        ("repeats", ctypes.c_int64 * len(PIPES)),
        ("gm_read", ctypes.c_int64),
        ("gm_written", ctypes.c_int64),
        ("most_gm", ctypes.c_int64),
    ]


class TwinError(RuntimeError):
    """The twin refused what the kernel did."""


@dataclass
class Counts:
    """Counters of a launch on the twin."""

    cores: int
    warnings: int
    instructions: dict  # by pipe
    repeats: dict
    gm_read: int  # bytes, of all cores
    gm_written: int
    most_gm: int  # of the busiest core


def counts_of(result):
    """Counters of a `Result`."""
    return Counts(
        result.cores,
        result.warnings,
        dict(zip(PIPES, result.instructions)),
        dict(zip(PIPES, result.repeats)),
        result.gm_read,
        result.gm_written,
        result.most_gm,
    )


def raw(tensor):
    """The values of a tensor as they lie in memory."""
    return np.ascontiguousarray(tensor[1] if isinstance(tensor, tuple) else tensor)


def unwritten(like, shape):
    """A tensor that holds what no computation gives."""
    if like.dtype.itemsize == 2:
        return np.full(shape, 0x7EA5, np.uint16)
    return np.full(shape, np.nan, np.float32)


def as_dtype(dtype, array):
    """An output as the native binding returns it."""
    if array.dtype.itemsize == 4:
        return array
    return (BFLOAT16, array) if dtype == BFLOAT16 else array.view(dtype)


def attach(call, arrays):
    """Points the call's tensors at `arrays`, {name: array}, which have to outlive it."""
    for name, array in arrays.items():
        # An address even where there is nothing, as for a tensor without elements.
        setattr(call, name, Tensor(array.ctypes.data, array.nbytes))


def launch(function, call, arrays, case):
    """Runs `call`, whose tensors are `arrays`; the launch's Counts, or TwinError."""
    attach(call, arrays)
    result = Result()
    function(ctypes.byref(call), ctypes.byref(result))
    if result.error:
        raise TwinError(result.error.decode())
    assert result.unwritten == 0, f"{case}: {result.unwritten} bytes of outputs never written"
    return counts_of(result)


def arrays_of(case, names, lists):
    """{the runner's name: array} of the tensors given; `names` has those that differ, `lists` are
    int64."""
    arrays = {}
    for name, tensor in case.named().items():
        if tensor is not None:
            name, array = names.get(name, name), raw(tensor)
            arrays[name] = array.astype(np.int64) if name in lists else array
    return arrays
