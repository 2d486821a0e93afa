"""Native Sparse Attention for MindSpore.

``import mindspore_nsa`` does not import MindSpore; the first use of an operator does.
"""

import importlib

from ._ascend_package import announce as _announce
from ._config import set_target, show_config, target
from ._version import __version__

_OPERATORS = (
    "block_indexer",
    "compressed_seq_len",
    "dense_lightning_indexer_grad_kl_loss",
    "dense_lightning_indexer_softmax_lse",
    "dropout_mask",
    "flash_attention_score",
    "lightning_indexer",
    "lightning_indexer_kl_loss",
    "nsa_compress",
    "nsa_compress_attention",
    "nsa_compress_attention_infer",
    "nsa_compress_with_cache",
    "nsa_decode",
    "nsa_select_attention",
    "nsa_selected_attention",
    "nsa_selected_attention_infer",
    "sparse_flash_attention",
    "sparse_lightning_indexer_grad_kl_loss",
)
_SUBPACKAGES = ("integrations", "models", "nn", "ops", "reference", "testing", "twin")

_announce()

__all__ = [*_OPERATORS, "__version__", "set_target", "show_config", "target"]


def __getattr__(name: str) -> object:
    if name in _OPERATORS:
        value = getattr(importlib.import_module(".ops", __name__), name)
    elif name in _SUBPACKAGES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBPACKAGES})
