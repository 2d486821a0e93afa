"""Runs NsaCompress and NsaCompressGrad on the twin: any number of cores, any interleaving."""

import ctypes
from dataclasses import dataclass

import numpy as np

from tests.common.dtypes import BFLOAT16, decode

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")


# The fields of the structs of runner.cc.
_NUMBERS = "tokens rows heads dim segments block_size stride bfloat16 cores seed"
_ADDRESSES = "list input weight output_grad output weight_grad"


class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS.split()),
        *((name, ctypes.c_void_p) for name in _ADDRESSES.split()),
    ]


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
    """What a launch did, as the twin counts it."""

    cores: int
    warnings: int
    instructions: dict  # by pipe
    repeats: dict
    gm_read: int  # bytes, of all cores
    gm_written: int


def counts_of(result):
    """Those of a `Result`."""
    return Counts(
        result.cores,
        result.warnings,
        dict(zip(PIPES, result.instructions)),
        dict(zip(PIPES, result.repeats)),
        result.gm_read,
        result.gm_written,
    )


def bits(tensor):
    """The 16-bit values of a tensor as they lie in memory."""
    array = tensor[1] if isinstance(tensor, tuple) else tensor
    return np.ascontiguousarray(array).view(np.uint16)


class Runner:
    """The kernels as one library, see builds.py."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def _call(self, case, cores, seed):
        """(the call, the arrays that it points to)"""
        tensors = case.named()
        attrs = case.attrs
        x, weight = bits(tensors["input"]), bits(tensors["weight"])
        ends = np.ascontiguousarray(tensors["actual_seq_len"], np.int64)
        arrays = {"list": ends, "input": x, "weight": weight}
        if "output_grad" in tensors:
            arrays["output_grad"] = bits(tensors["output_grad"])
            arrays["output"] = np.full(x.shape, 0x7EA5, np.uint16)
            arrays["weight_grad"] = np.full(weight.shape, 0x7EA5, np.uint16)
            rows = len(arrays["output_grad"])
        else:
            rows = attrs["num_windows"]
            arrays["output"] = np.full((rows, *x.shape[1:]), 0x7EA5, np.uint16)
        call = _Call(
            *x.shape[:1],
            rows,
            *x.shape[1:],
            len(ends),
            attrs["compress_block_size"],
            attrs["compress_stride"],
            case.dtype == BFLOAT16,
            cores,
            seed,
        )
        for name, array in arrays.items():
            setattr(call, name, array.ctypes.data)
        return call, arrays

    def run(self, case, cores, seed=0):
        """(outputs as the native binding returns them, Counts); TwinError if the twin objects."""
        call, arrays = self._call(case, cores, seed)
        result = Result()
        self.library.run(ctypes.byref(call), ctypes.byref(result))
        if result.error:
            raise TwinError(result.error.decode())
        assert result.unwritten == 0, f"{case}: {result.unwritten} bytes of outputs never written"
        outputs = [arrays["output"]]
        if "weight_grad" in arrays:
            outputs.append(arrays["weight_grad"])
        counts = counts_of(result)
        if case.dtype == BFLOAT16:
            return [(BFLOAT16, bits) for bits in outputs], counts
        return [bits.view(np.float16) for bits in outputs], counts

    def tiling(self, case, cores):
        """What op_host decides: a dict."""
        call, arrays = self._call(case, cores, 0)
        out = (ctypes.c_int64 * 80)()
        backward = "output_grad" in arrays
        names = ["cores", "tile_heads", "ub_bytes"]
        if backward:
            self.library.tile_backward(ctypes.byref(call), out)
            return dict(zip([*names, "chunks", "groups"], out))
        self.library.tile_forward(ctypes.byref(call), out)
        tiling = dict(zip(names, out))
        return {**tiling, "unit_begin": out[3 : 4 + tiling["cores"]]}


def same_bits(a, b):
    """True if two lists of outputs are equal to the bit."""
    return all(np.array_equal(bits(x), bits(y)) for x, y in zip(a, b, strict=True))


def values(outputs):
    """The outputs as float32 or float16 arrays."""
    return [decode(x) for x in outputs]
