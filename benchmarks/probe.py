"""The library of probe.cc, and Customs of its functions."""

import ctypes
from functools import cache
from pathlib import Path

import numpy as np

from mindspore_nsa import _native

from .compiled import compiled

SOURCE = Path(__file__).with_name("probe.cc")


@cache
def library():
    """The compiled library, loaded; it knows the native library of the package."""
    # MindSpore opens a Custom's library several times in a call, which takes the longer, the more
    # folders its path has: 3 us of 62 for two of them. That is no operator's time.
    like = _native.__file__
    loaded = compiled("probe", "-O3", "-fopenmp", SOURCE, "-ldl", like=like)
    loaded.nsa_probe_seconds.restype = ctypes.c_double
    size, pointer = ctypes.c_int64, ctypes.c_void_p
    loaded.nsa_probe_copy.argtypes = (pointer, pointer, size, size, ctypes.c_int)
    loaded.nsa_probe_copy.restype = None
    loaded.nsa_probe_read.argtypes = (pointer, size, ctypes.c_int)
    loaded.nsa_probe_read.restype = ctypes.c_uint64
    loaded.nsa_probe_source.argtypes = (pointer, size, size, ctypes.c_int)
    loaded.nsa_probe_source.restype = None
    if not loaded.nsa_probe_open(_native.__file__.encode()):
        raise OSError(f"cannot load {_native.__file__}")
    return loaded


def kernel_seconds():
    """Time in the native function of the last call of a `timed_custom`."""
    return library().nsa_probe_seconds()


def copy(to, source, piece, threads):
    """Copy an array to one of the same size."""
    library().nsa_probe_copy(to.ctypes.data, source.ctypes.data, source.nbytes, piece, threads)


def read(source, threads):
    """Read an array."""
    library().nsa_probe_read(source.ctypes.data, source.nbytes, threads)


def timed_custom(op, attrs):
    """The Custom of a native operator; `attrs` as `mindspore_nsa.ops` encodes them."""
    return _custom(op, f"Timed{op}", len(_native.schema(op)["outputs"]), nsa_attrs=attrs)


def empty_custom(outputs):
    """A Custom that does nothing; its first output is like its first input."""
    return _custom(f"Empty{outputs}", f"Empty{outputs}", outputs)


def reading_custom(source, piece, threads):
    """A Custom that reads the next `piece` bytes of an array at every call, and does nothing else.

    There is one array at a time; whoever has it keeps it alive.

    Raises:
        ValueError: If the array is smaller than a piece.
    """
    if piece > source.nbytes:
        raise ValueError(f"piece must be at most {source.nbytes} bytes, got {piece}")
    library().nsa_probe_source(source.ctypes.data, source.nbytes, piece, threads)
    return _custom("Reader", "Reader", 1)


def _custom(function, name, outputs, **attrs):
    from mindspore import ops

    custom = ops.Custom(f"{library()._name}:{function}", None, None, "aot")
    custom.add_prim_attr("reg_op_name", name)
    custom.add_prim_attr("multi_output", outputs > 1)
    for key, value in attrs.items():
        custom.add_prim_attr(key, value)
    return custom


def copy_buffers(nbytes):
    """Two arrays whose pages are in memory.

    Both written: pages of zeros that were only read are all one page, which the caches hold.
    """
    return np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
