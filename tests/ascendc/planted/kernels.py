"""The kernels with planted faults."""

from .. import builds
from ..cache_step_runner import CacheStepRunner
from ..compress_attention_runner import CompressAttentionRunner
from ..compress_infer_runner import CompressInferRunner
from ..decode_runner import DecodeRunner
from ..flash_runner import FlashRunner
from ..selected_infer_runner import SelectedInferRunner
from ..selected_runner import SelectedRunner
from . import (
    flash_attention_score,
    flash_attention_score_grad,
    nsa_cache_step,
    nsa_compress_attention,
    nsa_compress_attention_infer,
    nsa_decode,
    nsa_selected_attention,
    nsa_selected_attention_grad,
    nsa_selected_attention_infer,
)
from .judge import Kernel

_FLASH = ("flash_attention_score", builds.FLASH_SOURCES, FlashRunner)
_SELECTED = ("nsa_selected_attention", builds.SELECTED_SOURCES, SelectedRunner)
_CACHE_STEP = ("nsa_cache_step", builds.CACHE_STEP_SOURCES, CacheStepRunner)
_COMPRESS = ("nsa_compress_attention", builds.COMPRESS_ATTENTION_SOURCES, CompressAttentionRunner)
_COMPRESS_INFER = (
    "nsa_compress_attention_infer",
    builds.COMPRESS_INFER_SOURCES,
    CompressInferRunner,
)
_DECODE = ("nsa_decode", builds.DECODE_SOURCES, DecodeRunner)
_SELECTED_INFER = (
    "nsa_selected_attention_infer",
    builds.SELECTED_INFER_SOURCES,
    SelectedInferRunner,
)


def _kernel(module, shared):
    name = module.__name__.rsplit(".", 1)[-1]
    return Kernel(name, *shared, module.FAULTS, module.HARMLESS, module.checks)


KERNELS = {
    kernel.name: kernel
    for kernel in (
        _kernel(flash_attention_score, _FLASH),
        _kernel(flash_attention_score_grad, _FLASH),
        _kernel(nsa_cache_step, _CACHE_STEP),
        _kernel(nsa_compress_attention, _COMPRESS),
        _kernel(nsa_compress_attention_infer, _COMPRESS_INFER),
        _kernel(nsa_decode, _DECODE),
        _kernel(nsa_selected_attention, _SELECTED),
        _kernel(nsa_selected_attention_grad, _SELECTED),
        _kernel(nsa_selected_attention_infer, _SELECTED_INFER),
    )
}
