"""Runs NsaCompress and NsaCompressGrad on the twin: any number of cores, any interleaving."""

import ctypes

import numpy as np

from mindspore_nsa.testing.dtypes import BFLOAT16, decode

from .launch import Tensor, attach, launch

# The fields of the structs of runner.cc.
_NUMBERS = "tokens rows heads dim block_size stride bfloat16 cores seed"
_TENSORS = "list input weight output_grad output weight_grad"


class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in _NUMBERS.split()),
        *((name, Tensor) for name in _TENSORS.split()),
    ]


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
            attrs["compress_block_size"],
            attrs["compress_stride"],
            case.dtype == BFLOAT16,
            cores,
            seed,
        )
        return call, arrays

    def run(self, case, cores, seed=0):
        """(outputs as the native binding returns them, Counts); TwinError if the twin objects."""
        call, arrays = self._call(case, cores, seed)
        counts = launch(self.library.run, call, arrays, case)
        outputs = [arrays["output"]]
        if "weight_grad" in arrays:
            outputs.append(arrays["weight_grad"])
        if case.dtype == BFLOAT16:
            return [(BFLOAT16, bits) for bits in outputs], counts
        return [bits.view(np.float16) for bits in outputs], counts

    def tiling(self, case, cores):
        """The tiling that op_host decides: a dict."""
        call, arrays = self._call(case, cores, 0)
        attach(call, arrays)
        out = (ctypes.c_int64 * 80)()
        backward = "output_grad" in arrays
        names = ["cores", "tile_heads", "ub_bytes"]
        if backward:
            self.library.tile_backward(ctypes.byref(call), out)
            return dict(zip([*names, "chunks", "slices"], out))
        self.library.tile_forward(ctypes.byref(call), out)
        tiling = dict(zip(names, out))
        return {**tiling, "unit_begin": out[3 : 4 + tiling["cores"]]}


def same_bits(a, b):
    """True if two lists of outputs are equal to the bit."""
    return all(np.array_equal(bits(x), bits(y)) for x, y in zip(a, b, strict=True))


def values(outputs):
    """The outputs as float32 or float16 arrays."""
    return [decode(x) for x in outputs]
