"""Slow, readable float64 NumPy definitions of every operator.

These functions say what the operators compute; tests compare every kernel with them. They import
neither MindSpore nor the native library, take NumPy arrays of any floating dtype (bfloat16 widened
to float32 by the caller) and keep the argument names of the public operators.
"""

from .block_indexer import block_indexer
from .dense_attention import dense_attention, dense_attention_grad
from .dropout import dropout_mask
from .flash_attention_score import flash_attention_score, flash_attention_score_grad
from .lightning_indexer import lightning_indexer, lightning_indexer_grad
from .lightning_indexer_kl_loss import (
    dense_lightning_indexer_grad_kl_loss,
    dense_lightning_indexer_softmax_lse,
    lightning_indexer_kl_loss,
    sparse_lightning_indexer_grad_kl_loss,
)
from .native_sparse_attention import native_sparse_attention, native_sparse_attention_grad
from .nsa_compress import nsa_compress, nsa_compress_grad
from .nsa_compress_attention import nsa_compress_attention, nsa_compress_attention_grad
from .nsa_compress_attention_infer import nsa_compress_attention_infer
from .nsa_compress_with_cache import nsa_compress_with_cache
from .nsa_decode import nsa_decode
from .nsa_selected_attention import nsa_selected_attention, nsa_selected_attention_grad
from .nsa_selected_attention_infer import nsa_selected_attention_infer
from .precision import FLOAT64, Precision
from .segments import compressed_seq_len
from .sparse_flash_attention import sparse_flash_attention, sparse_flash_attention_grad

__all__ = [
    "FLOAT64",
    "Precision",
    "block_indexer",
    "compressed_seq_len",
    "dense_attention",
    "dense_attention_grad",
    "dense_lightning_indexer_grad_kl_loss",
    "dense_lightning_indexer_softmax_lse",
    "dropout_mask",
    "flash_attention_score",
    "flash_attention_score_grad",
    "lightning_indexer",
    "lightning_indexer_grad",
    "lightning_indexer_kl_loss",
    "native_sparse_attention",
    "native_sparse_attention_grad",
    "nsa_compress",
    "nsa_compress_attention",
    "nsa_compress_attention_grad",
    "nsa_compress_attention_infer",
    "nsa_compress_grad",
    "nsa_compress_with_cache",
    "nsa_decode",
    "nsa_selected_attention",
    "nsa_selected_attention_grad",
    "nsa_selected_attention_infer",
    "sparse_flash_attention",
    "sparse_flash_attention_grad",
    "sparse_lightning_indexer_grad_kl_loss",
]
