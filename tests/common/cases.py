"""Cases for testing the native operators: a random one per seed, and how to judge it.

`make_case(seed)` draws a call; `run_reference` and `run_plain` give its expected outputs in native
order, `compare` asserts that outputs are right. Named cases are in parity.py.
"""

from mindspore_nsa.testing.case import (
    INPUTS,
    OUTPUTS,
    Case,
    compare,
    output_dtypes,
    run_plain,
    run_reference,
)

from . import decode_cases, flash_cases, indexer_cases, nsa_cases
from .draw import Draw
from .parity import odd_size_cases, parity_cases, share_cases

GENERATORS = {
    "NsaCompress": nsa_cases.nsa_compress,
    "NsaCompressGrad": nsa_cases.nsa_compress_grad,
    "NsaCompressAttention": nsa_cases.nsa_compress_attention,
    "NsaSelectedAttention": nsa_cases.nsa_selected_attention,
    "NsaSelectedAttentionGrad": nsa_cases.nsa_selected_attention_grad,
    "FlashAttentionScore": flash_cases.flash_attention_score,
    "FlashAttentionScoreGrad": flash_cases.flash_attention_score_grad,
    "NsaCompressWithCache": decode_cases.nsa_compress_with_cache,
    "NsaCompressAttentionInfer": decode_cases.nsa_compress_attention_infer,
    "NsaSelectedAttentionInfer": decode_cases.nsa_selected_attention_infer,
    "NsaDecode": decode_cases.nsa_decode,
    "NsaDropoutMask": nsa_cases.nsa_dropout_mask,
    "BlockIndexer": indexer_cases.block_indexer,
    "LightningIndexer": indexer_cases.lightning_indexer,
    "LightningIndexerGrad": indexer_cases.lightning_indexer_grad,
    "SparseFlashAttention": indexer_cases.sparse_flash_attention,
    "SparseFlashAttentionGrad": indexer_cases.sparse_flash_attention_grad,
    "SparseLightningIndexerGradKLLoss": indexer_cases.sparse_kl_loss,
    "DenseLightningIndexerSoftmaxLse": indexer_cases.dense_softmax_lse,
    "DenseLightningIndexerGradKLLoss": indexer_cases.dense_kl_loss,
}

# How often an operator comes up when none is asked for.
_WEIGHTS = {
    "NsaCompress": 2,
    "NsaCompressGrad": 2,
    "NsaCompressAttention": 4,
    "NsaSelectedAttention": 4,
    "NsaSelectedAttentionGrad": 4,
    "FlashAttentionScore": 6,
    "FlashAttentionScoreGrad": 6,
    "NsaCompressWithCache": 1,
    "NsaCompressAttentionInfer": 3,
    "NsaSelectedAttentionInfer": 3,
    "NsaDecode": 4,
    "NsaDropoutMask": 1,
    "BlockIndexer": 2,
    "LightningIndexer": 2,
    "LightningIndexerGrad": 2,
    "SparseFlashAttention": 2,
    "SparseFlashAttentionGrad": 2,
    "SparseLightningIndexerGradKLLoss": 2,
    "DenseLightningIndexerSoftmaxLse": 1,
    "DenseLightningIndexerGradKLLoss": 2,
}
_OPS = [op for op, weight in _WEIGHTS.items() for _ in range(weight)]


def make_case(seed, op=None, dtype=None):
    """The case of that seed, of the given operator and dtype where asked for."""
    draw = Draw(seed, dtype)
    if op is None:
        op = draw.pick(_OPS)
    case = GENERATORS[op](draw)
    case.name = f"seed {seed}"
    return case


__all__ = [
    "GENERATORS",
    "INPUTS",
    "OUTPUTS",
    "Case",
    "compare",
    "make_case",
    "odd_size_cases",
    "output_dtypes",
    "parity_cases",
    "run_plain",
    "run_reference",
    "share_cases",
]
