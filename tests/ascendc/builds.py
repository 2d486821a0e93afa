"""Builds kernels into libraries for the runners."""

import os
import re
import tempfile

from twin.tests.builds import BUILD, FLAGS, ROOT, compiled, linked, objects, shared

from .cache_runner import CacheRunner
from .cache_step_runner import CacheStepRunner
from .compress_attention_runner import CompressAttentionRunner
from .compress_infer_runner import CompressInferRunner
from .decode_runner import DecodeRunner
from .flash_runner import FlashRunner
from .runner import Runner
from .selected_infer_runner import SelectedInferRunner
from .selected_runner import SelectedRunner

COMPRESS_SOURCES = (
    "tests/ascendc/runner.cc",
    "ascendc/nsa_compress/op_host/nsa_compress_tiling.cpp",
    "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.cpp",
    "infer/seq.cc",
)

CACHE_SOURCES = (
    "tests/ascendc/cache_runner.cc",
    "ascendc/nsa_compress_with_cache/op_host/nsa_compress_with_cache_tiling.cpp",
)

SELECTED_INFER_SOURCES = (
    "tests/ascendc/selected_infer_runner.cc",
    "ascendc/decoding/op_host/split_plan.cpp",
    "ascendc/nsa_selected_attention_infer/op_host/nsa_selected_attention_infer_tiling.cpp",
)

COMPRESS_INFER_SOURCES = (
    "tests/ascendc/compress_infer_runner.cc",
    "ascendc/decoding/op_host/split_plan.cpp",
    "ascendc/decoding/op_host/ranking_plan.cpp",
    "ascendc/nsa_compress_attention_infer/op_host/nsa_compress_attention_infer_tiling.cpp",
)

DECODE_SOURCES = (
    "tests/ascendc/decode_runner.cc",
    "ascendc/decoding/op_host/split_plan.cpp",
    "ascendc/decoding/op_host/ranking_plan.cpp",
    "ascendc/nsa_compress_attention_infer/op_host/nsa_compress_attention_infer_tiling.cpp",
    "ascendc/nsa_selected_attention_infer/op_host/nsa_selected_attention_infer_tiling.cpp",
    "ascendc/nsa_decode/op_host/nsa_decode_tiling.cpp",
)

CACHE_STEP_SOURCES = (
    "tests/ascendc/cache_step_runner.cc",
    "ascendc/decoding/op_host/split_plan.cpp",
    "ascendc/decoding/op_host/ranking_plan.cpp",
    "ascendc/nsa_cache_step/op_host/nsa_cache_step_tiling.cpp",
)

FLASH_SOURCES = (
    "tests/ascendc/flash_runner.cc",
    "ascendc/attention/op_host/attention_plan.cpp",
    "ascendc/flash_attention_score/op_host/flash_attention_score_tiling.cpp",
    "ascendc/flash_attention_score_grad/op_host/flash_attention_score_grad_tiling.cpp",
    "infer/seq.cc",
)

SELECTED_SOURCES = (
    "tests/ascendc/selected_runner.cc",
    "ascendc/attention/op_host/attention_plan.cpp",
    "ascendc/attention/op_host/selection_plan.cpp",
    "ascendc/nsa_selected_attention/op_host/nsa_selected_attention_tiling.cpp",
    "ascendc/nsa_selected_attention_grad/op_host/nsa_selected_attention_grad_tiling.cpp",
    "infer/seq.cc",
)

COMPRESS_ATTENTION_SOURCES = (
    "tests/ascendc/compress_attention_runner.cc",
    "ascendc/attention/op_host/attention_plan.cpp",
    "ascendc/nsa_compress_attention/op_host/nsa_compress_attention_tiling.cpp",
    "infer/seq.cc",
)

C_TYPES = {"float16": "half", "bfloat16": "bfloat16_t", "float32": "float"}
HALVES = ("float16", "bfloat16")
# Kernels know their data type by the name of an input.
FIRST_INPUT = {
    "nsa_compress": "INPUT",
    "nsa_compress_grad": "INPUT",
    "nsa_compress_with_cache": "INPUT",
    "nsa_cache_step": "SELECTED",
}


def entry(kernel):
    """Name of the entry of a kernel, by which its file does not go."""
    text = (ROOT / "ascendc" / kernel / "op_kernel" / f"{kernel}.cpp").read_text()
    return re.search(r"__aicore__ void (\w+)\(", text)[1]


def unit(kernel, dtype):
    """Path of a source that compiles a kernel of entries.h for one data type."""
    text = f"""#include "tests/ascendc/entries.h"
#define DTYPE_{FIRST_INPUT.get(kernel, "QUERY")} {C_TYPES[dtype]}
#define {entry(kernel)} {kernel}_{dtype}
#include "tests/ascendc/checked_casts.h"
#include "ascendc/{kernel}/op_kernel/{kernel}.cpp"
"""
    path = BUILD / "units" / f"{kernel}_{dtype}.cc"
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    return path


def units(kernels, dtypes):
    """Units of all kernels and data types."""
    return [unit(kernel, dtype) for kernel in kernels for dtype in dtypes]


def _includes(compiled, file):
    names = compiled.with_suffix(".d").read_text().replace("\\\n", " ").split()
    return any(name.endswith(file) for name in names)


def changed(sources, name, folder, file, text):
    """Path of a library of sources in which a file has another text; `name` is the clean one's.

    What does not include the file is taken from there.
    """
    copy = folder / file
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(text)
    # Quoted includes look here first.
    flags = (*FLAGS, "-O0", "-iquote", str(folder), "-w")
    parts = [
        compiled(source, flags, folder) if _includes(clean, file) else clean
        for source, clean in zip(sources, objects(*sources, name=name), strict=True)
    ]
    return linked(parts, folder / "kernel.so")


def compress_sources():
    """Sources of NsaCompress and its gradient for both data types."""
    kernels = units(("nsa_compress", "nsa_compress_grad"), HALVES)
    return [*kernels, *(ROOT / source for source in COMPRESS_SOURCES)]


def runner(name="nsa_compress", flags=()):
    """The kernels as they are, or as `flags` change what is included."""
    return Runner(shared(*compress_sources(), name=name, flags=flags))


def cache_sources():
    """Sources of NsaCompressWithCache for both data types."""
    return [
        *units(("nsa_compress_with_cache",), HALVES),
        *(ROOT / source for source in CACHE_SOURCES),
    ]


def cache_runner(name="nsa_compress_with_cache", flags=()):
    """NsaCompressWithCache, likewise."""
    return CacheRunner(shared(*cache_sources(), name=name, flags=flags))


def selected_infer_runner(name="nsa_selected_attention_infer", flags=()):
    """NsaSelectedAttentionInfer, likewise."""
    kernels = units(("nsa_selected_attention_infer",), HALVES)
    sources = (ROOT / source for source in SELECTED_INFER_SOURCES)
    return SelectedInferRunner(shared(*kernels, *sources, name=name, flags=flags))


def compress_infer_runner(name="nsa_compress_attention_infer", flags=()):
    """NsaCompressAttentionInfer, likewise."""
    kernels = units(("nsa_compress_attention_infer",), HALVES)
    sources = (ROOT / source for source in COMPRESS_INFER_SOURCES)
    return CompressInferRunner(shared(*kernels, *sources, name=name, flags=flags))


def decode_runner(name="nsa_decode", flags=()):
    """NsaDecode, likewise."""
    kernels = units(("nsa_decode",), HALVES)
    sources = (ROOT / source for source in DECODE_SOURCES)
    return DecodeRunner(shared(*kernels, *sources, name=name, flags=flags))


def cache_step_runner(name="nsa_cache_step", flags=()):
    """NsaCacheStep, likewise."""
    kernels = units(("nsa_cache_step",), HALVES)
    sources = (ROOT / source for source in CACHE_STEP_SOURCES)
    return CacheStepRunner(shared(*kernels, *sources, name=name, flags=flags))


def flash_runner(name="flash_attention_score", flags=()):
    """FlashAttentionScore and its gradient, likewise."""
    kernels = units(("flash_attention_score", "flash_attention_score_grad"), C_TYPES)
    sources = (ROOT / source for source in FLASH_SOURCES)
    return FlashRunner(shared(*kernels, *sources, name=name, flags=flags))


def selected_runner(name="nsa_selected_attention", flags=()):
    """NsaSelectedAttention and its gradient, likewise."""
    kernels = units(("nsa_selected_attention", "nsa_selected_attention_grad"), HALVES)
    sources = (ROOT / source for source in SELECTED_SOURCES)
    return SelectedRunner(shared(*kernels, *sources, name=name, flags=flags))


def compress_attention_runner(name="nsa_compress_attention", flags=()):
    """NsaCompressAttention, likewise."""
    kernels = units(("nsa_compress_attention",), HALVES)
    sources = (ROOT / source for source in COMPRESS_ATTENTION_SOURCES)
    return CompressAttentionRunner(shared(*kernels, *sources, name=name, flags=flags))
