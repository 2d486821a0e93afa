"""The processor's peak, by the loop of peak.cc."""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mindspore_nsa import _native

from . import timing
from .compiled import compiled

SOURCE = Path(__file__).with_name("peak.cc")
# Some 20 ms on one thread: long beside the start of the threads.
FLOPS = 1 << 31
_BF16 = ("-mavx512f", "-mavx512bf16")
FLAGS = {
    "avx2": ("-mavx2", "-mfma"),
    "avx512": ("-mavx512f",),
    "avx512bf16": _BF16,
    "avx512amx": (*_BF16, "-mamx-tile", "-mamx-bf16"),
    "neon": (),
}


@cache
def load(isa):
    """The loop of an instruction set, compiled and loaded."""
    loaded = compiled(f"peak_{isa}", "-O2", "-fopenmp", *FLAGS[isa], SOURCE)
    loaded.nsa_peak_flops.argtypes = ()
    loaded.nsa_peak_flops.restype = ctypes.c_int64
    number, size = ctypes.c_float, ctypes.c_int64
    loaded.nsa_peak_products.argtypes = (size, number, number, ctypes.c_int)
    loaded.nsa_peak_products.restype = ctypes.c_double
    return loaded


def bounding(isa, dtype):
    """The instruction set whose multiply-adds bound operands of a dtype; None for none.

    Only bfloat16 is multiplied as it is, where there are instructions for it; float16 is widened to
    float32. Instructions without vectors have no loop.
    """
    if isa in ("avx512bf16", "avx512amx") and dtype != "bfloat16":
        isa = "avx512"
    return isa if isa in FLAGS else None


class Bound(NamedTuple):
    """A loop of multiply-adds that takes as many threads as the kernels."""

    isa: str
    operations: int
    loop: Callable


def of(dtype):
    """The `Bound` of a dtype here, or None."""
    isa, threads = bounding(_native.isa(), dtype), _native.num_threads()
    if isa is None:
        return None
    flops = load(isa).nsa_peak_flops()
    steps = FLOPS // flops
    return Bound(isa, steps * flops * threads, lambda: products(isa, steps, threads))


def products(isa, steps, threads, x=1.0, y=1.0):
    """The sum of the products x * y that so many steps on so many threads make."""
    return load(isa).nsa_peak_products(steps, x, y, threads)


def shares(bound, work, seconds, times):
    """Fields of a `Result` for what does `work` operations in so many seconds.

    Args:
        bound: The `Bound` that `of` returns, or None.
        work: Operations.
        seconds: Time of a call.
        times: Name -> times of the same run, with those of the loop under "peak".
    """
    if bound is None:
        return {}
    rate = bound.operations / timing.median(times["peak"])
    return {"peak": bound.isa, "peak_rate": rate / 1e9, "peak_share": work / seconds / rate}
