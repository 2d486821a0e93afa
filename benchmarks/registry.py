"""Every benchmark case, by name."""

from . import workloads
from .branches import branches_cases
from .decoding import decode_cases
from .indexer_losses import loss_cases
from .indexers import indexer_cases, sparse_cases, token_cases
from .latents import latents_cases
from .layer import layer_cases
from .layer_memory import layer_memory_cases
from .memory import memory_cases
from .overhead import overhead_cases
from .speed import SpeedCase
from .training import training_cases

FLOAT32, FLOAT16, BFLOAT16 = "float32", "float16", "bfloat16"


def _flash(dtype, direction, **more):
    return SpeedCase(
        f"flash_{dtype}_{direction}",
        "FlashAttentionScore" + ("Grad" if direction == "backward" else ""),
        *(workloads.flash, dtype, direction, 4096, 512),
        **more,
    )


def _selected(dtype, direction, **more):
    return SpeedCase(
        f"selected_{dtype}_{direction}",
        "NsaSelectedAttention" + ("Grad" if direction == "backward" else ""),
        *(workloads.selected, dtype, direction, 8192, 1280),
        **more,
    )


def _compress_attention(dtype, direction, **more):
    return SpeedCase(
        f"compress_attention_{dtype}_{direction}",
        "FlashAttentionScoreGrad" if direction == "backward" else "NsaCompressAttention",
        *(workloads.compress_attention, dtype, direction, 8192, 1280),
        **more,
    )


def _compress(direction):
    return SpeedCase(
        f"compress_{FLOAT32}_{direction}",
        "NsaCompress" + ("Grad" if direction == "backward" else ""),
        *(workloads.compress, FLOAT32, direction, 65536, 4096),
        share=0.6,
        peers=(),
    )


CASES = [
    _flash(FLOAT32, "forward", share=0.95),
    _flash(FLOAT32, "backward", share=0.95),
    _flash(BFLOAT16, "forward", share=0.8, baseline=FLOAT32, baseline_limit=1.0),
    _flash(BFLOAT16, "backward", share=0.75, baseline=FLOAT32),
    _flash(FLOAT16, "forward", baseline=FLOAT32),
    _flash(FLOAT16, "backward", baseline=FLOAT32, baseline_limit=1.3),
    _selected(FLOAT32, "forward", share=0.6),
    _selected(FLOAT32, "backward", share=0.45),
    _selected(BFLOAT16, "forward", baseline=FLOAT32),
    _selected(BFLOAT16, "backward", baseline=FLOAT32),
    _compress_attention(FLOAT32, "forward", share=0.5),
    _compress_attention(FLOAT32, "backward"),
    _compress_attention(BFLOAT16, "forward", baseline=FLOAT32),
    _compress_attention(BFLOAT16, "backward", baseline=FLOAT32),
    _compress("forward"),
    _compress("backward"),
    *indexer_cases(),
    *token_cases(),
    *sparse_cases(),
    *loss_cases(),
    *latents_cases(),
    *branches_cases(),
    *layer_cases(),
    *layer_memory_cases(),
    *decode_cases(),
    *memory_cases(),
    *overhead_cases(),
    *training_cases(),
]


def select(beginnings):
    """The cases whose names begin with one of the texts, in order; all of them for no text."""
    if not beginnings:
        return CASES
    for beginning in beginnings:
        if not any(case.name.startswith(beginning) for case in CASES):
            raise ValueError(f"no benchmark case begins with {beginning!r}; see --list")
    return [case for case in CASES if case.name.startswith(tuple(beginnings))]
