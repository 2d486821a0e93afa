"""The kernels with planted faults."""

from .. import builds
from ..compress_attention_runner import CompressAttentionRunner
from ..flash_runner import FlashRunner
from ..selected_runner import SelectedRunner
from . import (
    flash_attention_score,
    flash_attention_score_grad,
    nsa_compress_attention,
    nsa_selected_attention,
    nsa_selected_attention_grad,
)
from .judge import Kernel

_FLASH = ("flash_attention_score", builds.FLASH_SOURCES, FlashRunner)
_SELECTED = ("nsa_selected_attention", builds.SELECTED_SOURCES, SelectedRunner)
_COMPRESS = ("nsa_compress_attention", builds.COMPRESS_ATTENTION_SOURCES, CompressAttentionRunner)


def _kernel(module, shared):
    name = module.__name__.rsplit(".", 1)[-1]
    return Kernel(name, *shared, module.FAULTS, module.HARMLESS, module.checks)


KERNELS = {
    kernel.name: kernel
    for kernel in (
        _kernel(flash_attention_score, _FLASH),
        _kernel(flash_attention_score_grad, _FLASH),
        _kernel(nsa_compress_attention, _COMPRESS),
        _kernel(nsa_selected_attention, _SELECTED),
        _kernel(nsa_selected_attention_grad, _SELECTED),
    )
}
