"""Work that tiling gives the cores, asked of the tiling itself: the library of tiling.cc."""

import ctypes
from functools import cache
from pathlib import Path

from mindspore_nsa import twin

from .compiled import compiled

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (
    "benchmarks/tiling.cc",
    "benchmarks/tiling_selected.cc",
    "ascendc/attention/op_host/attention_plan.cpp",
    "ascendc/flash_attention_score/op_host/flash_attention_score_tiling.cpp",
    "ascendc/flash_attention_score_grad/op_host/flash_attention_score_grad_tiling.cpp",
    "ascendc/nsa_compress/op_host/nsa_compress_tiling.cpp",
    "ascendc/nsa_compress_attention/op_host/nsa_compress_attention_tiling.cpp",
    "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.cpp",
    "ascendc/attention/op_host/selection_plan.cpp",
    "ascendc/nsa_selected_attention/op_host/nsa_selected_attention_tiling.cpp",
    "ascendc/nsa_selected_attention_grad/op_host/nsa_selected_attention_grad_tiling.cpp",
    "infer/seq.cc",
)


@cache
def _library():
    flags = ("-O1", "-fvisibility=hidden", *twin.cflags(), f"-I{ROOT}")
    return compiled("tiling", *flags, *(ROOT / source for source in SOURCES), *twin.libs())


def work(kernel, *sizes, cores):
    """Work of the busiest core and of all, in slices of 16 tokens times heads, or in scores.

    `sizes`: tokens, N, D and, of compression, l and s.
    """
    function = getattr(_library(), kernel)
    function.restype = ctypes.c_int64
    total = ctypes.c_int64()
    given = (ctypes.c_int64(size) for size in (*sizes, cores))
    most = function(*given, ctypes.byref(total))
    if most < 0:
        raise RuntimeError(f"{kernel}: the twin cannot walk the steps of tiling")
    return most, total.value
