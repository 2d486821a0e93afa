"""Builds kernels into libraries for the runners."""

from tests.twin.builds import ROOT, shared

from .compress_attention_runner import CompressAttentionRunner
from .flash_runner import FlashRunner
from .runner import Runner
from .selected_runner import SelectedRunner

SOURCES = (
    "tests/ascendc/runner.cc",
    "ascendc/nsa_compress/op_host/nsa_compress_tiling.cpp",
    "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.cpp",
    "infer/seq.cc",
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


def runner(name="nsa_compress", flags=()):
    """The kernels as they are, or as `flags` change what is included."""
    return Runner(shared(*(ROOT / source for source in SOURCES), name=name, flags=flags))


def flash_runner(name="flash_attention_score", flags=()):
    """FlashAttentionScore and its gradient, likewise."""
    return FlashRunner(shared(*(ROOT / source for source in FLASH_SOURCES), name=name, flags=flags))


def selected_runner(name="nsa_selected_attention", flags=()):
    """NsaSelectedAttention and its gradient, likewise."""
    sources = (ROOT / source for source in SELECTED_SOURCES)
    return SelectedRunner(shared(*sources, name=name, flags=flags))


def compress_attention_runner(name="nsa_compress_attention", flags=()):
    """NsaCompressAttention, likewise."""
    sources = (ROOT / source for source in COMPRESS_ATTENTION_SOURCES)
    return CompressAttentionRunner(shared(*sources, name=name, flags=flags))
