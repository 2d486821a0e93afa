"""Calls of the native operators by the names of their inputs.

`c` has what a plan knows of a call: the dtype that an input is cast to, and what
is passed for a list or an optional input; None: the argument as it is.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

from typing import Any, NamedTuple

from mindspore import Tensor

from ._operands import in_dtype, passed


class NsaCompressStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaCompress."""

    input_dtype: Any
    weight_dtype: Any
    actual_seq_len: Any


def call_nsa_compress(
    operator: Any,
    c: NsaCompressStandIns,
    input: Tensor,
    weight: Tensor,
    actual_seq_len: Any,
) -> Any:
    """Call NsaCompress."""
    return operator(
        in_dtype(input, c.input_dtype),
        in_dtype(weight, c.weight_dtype),
        passed(actual_seq_len, c.actual_seq_len),
    )


class NsaCompressAttentionStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaCompressAttention."""

    query_dtype: Any
    key_dtype: Any
    value_dtype: Any
    topk_mask: Any
    atten_mask: Any
    actual_seq_qlen: Any
    actual_cmp_seq_kvlen: Any
    actual_sel_seq_kvlen: Any
    q_offset: Any


def call_nsa_compress_attention(
    operator: Any,
    c: NsaCompressAttentionStandIns,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_mask: Any,
    atten_mask: Any,
    actual_seq_qlen: Any,
    actual_cmp_seq_kvlen: Any,
    actual_sel_seq_kvlen: Any,
    q_offset: Any,
) -> Any:
    """Call NsaCompressAttention."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        in_dtype(value, c.value_dtype),
        passed(topk_mask, c.topk_mask),
        passed(atten_mask, c.atten_mask),
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_cmp_seq_kvlen, c.actual_cmp_seq_kvlen),
        passed(actual_sel_seq_kvlen, c.actual_sel_seq_kvlen),
        passed(q_offset, c.q_offset),
    )


class NsaSelectedAttentionStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaSelectedAttention."""

    query_dtype: Any
    key_dtype: Any
    value_dtype: Any
    actual_seq_qlen: Any
    actual_seq_kvlen: Any
    q_offset: Any


def call_nsa_selected_attention(
    operator: Any,
    c: NsaSelectedAttentionStandIns,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    actual_seq_qlen: Any,
    actual_seq_kvlen: Any,
    q_offset: Any,
) -> Any:
    """Call NsaSelectedAttention."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        in_dtype(value, c.value_dtype),
        topk_indices,
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_seq_kvlen, c.actual_seq_kvlen),
        passed(q_offset, c.q_offset),
    )


class NsaSelectedAttentionGradStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaSelectedAttentionGrad."""

    query_dtype: Any
    key_dtype: Any
    value_dtype: Any
    attention_out_dtype: Any
    attention_out_grad_dtype: Any
    softmax_max_dtype: Any
    softmax_sum_dtype: Any
    actual_seq_qlen: Any
    actual_seq_kvlen: Any
    q_offset: Any
    softmax_sum_grad_dtype: Any
    softmax_sum_grad: Any


def call_nsa_selected_attention_grad(
    operator: Any,
    c: NsaSelectedAttentionGradStandIns,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_out: Tensor,
    attention_out_grad: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    topk_indices: Tensor,
    actual_seq_qlen: Any,
    actual_seq_kvlen: Any,
    q_offset: Any,
    softmax_sum_grad: Any,
) -> Any:
    """Call NsaSelectedAttentionGrad."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        in_dtype(value, c.value_dtype),
        in_dtype(attention_out, c.attention_out_dtype),
        in_dtype(attention_out_grad, c.attention_out_grad_dtype),
        in_dtype(softmax_max, c.softmax_max_dtype),
        in_dtype(softmax_sum, c.softmax_sum_dtype),
        topk_indices,
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_seq_kvlen, c.actual_seq_kvlen),
        passed(q_offset, c.q_offset),
        passed(in_dtype(softmax_sum_grad, c.softmax_sum_grad_dtype), c.softmax_sum_grad),
    )


class FlashAttentionScoreStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of FlashAttentionScore."""

    query_dtype: Any
    key_dtype: Any
    value_dtype: Any
    real_shift_dtype: Any
    real_shift: Any
    drop_mask: Any
    attn_mask: Any
    prefix: Any
    actual_seq_qlen: Any
    actual_seq_kvlen: Any
    sink_dtype: Any
    sink: Any
    q_start_idx: Any
    kv_start_idx: Any


def call_flash_attention_score(
    operator: Any,
    c: FlashAttentionScoreStandIns,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    real_shift: Any,
    drop_mask: Any,
    attn_mask: Any,
    prefix: Any,
    actual_seq_qlen: Any,
    actual_seq_kvlen: Any,
    sink: Any,
    q_start_idx: Any,
    kv_start_idx: Any,
) -> Any:
    """Call FlashAttentionScore."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        in_dtype(value, c.value_dtype),
        passed(in_dtype(real_shift, c.real_shift_dtype), c.real_shift),
        passed(drop_mask, c.drop_mask),
        passed(attn_mask, c.attn_mask),
        passed(prefix, c.prefix),
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_seq_kvlen, c.actual_seq_kvlen),
        passed(in_dtype(sink, c.sink_dtype), c.sink),
        passed(q_start_idx, c.q_start_idx),
        passed(kv_start_idx, c.kv_start_idx),
    )


class NsaCompressWithCacheStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaCompressWithCache."""

    slot_mapping: Any
    block_table: Any
    actual_seq_len: Any


def call_nsa_compress_with_cache(
    operator: Any,
    c: NsaCompressWithCacheStandIns,
    input: Tensor,
    weight: Tensor,
    slot_mapping: Any,
    block_table: Any,
    actual_seq_len: Any,
    cache: Tensor,
) -> Any:
    """Call NsaCompressWithCache."""
    return operator(
        input,
        weight,
        passed(slot_mapping, c.slot_mapping),
        passed(block_table, c.block_table),
        passed(actual_seq_len, c.actual_seq_len),
        cache,
    )


class NsaCompressAttentionInferStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaCompressAttentionInfer."""

    query_dtype: Any
    key_dtype: Any
    value_dtype: Any
    block_table: Any
    actual_seq_qlen: Any
    actual_cmp_seq_kvlen: Any
    actual_sel_seq_kvlen: Any


def call_nsa_compress_attention_infer(
    operator: Any,
    c: NsaCompressAttentionInferStandIns,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_table: Any,
    actual_seq_qlen: Any,
    actual_cmp_seq_kvlen: Any,
    actual_sel_seq_kvlen: Any,
) -> Any:
    """Call NsaCompressAttentionInfer."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        in_dtype(value, c.value_dtype),
        passed(block_table, c.block_table),
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_cmp_seq_kvlen, c.actual_cmp_seq_kvlen),
        passed(actual_sel_seq_kvlen, c.actual_sel_seq_kvlen),
    )


class NsaSelectedAttentionInferStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaSelectedAttentionInfer."""

    query_dtype: Any
    key_dtype: Any
    value_dtype: Any
    block_table: Any
    actual_seq_qlen: Any
    actual_seq_kvlen: Any


def call_nsa_selected_attention_infer(
    operator: Any,
    c: NsaSelectedAttentionInferStandIns,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    block_table: Any,
    actual_seq_qlen: Any,
    actual_seq_kvlen: Any,
) -> Any:
    """Call NsaSelectedAttentionInfer."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        in_dtype(value, c.value_dtype),
        topk_indices,
        passed(block_table, c.block_table),
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_seq_kvlen, c.actual_seq_kvlen),
    )


class NsaCacheStepStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaCacheStep."""

    actual_seq_len: Any
    gates: Any
    weight_k: Any
    weight_v: Any
    position_k: Any
    position_v: Any
    others: Any
    angles: Any
    fine_angles: Any


def call_nsa_cache_step(
    operator: Any,
    c: NsaCacheStepStandIns,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    selected: Tensor,
    state: Tensor,
    actual_seq_len: Any,
    gates: Any,
    weight_k: Any,
    weight_v: Any,
    position_k: Any,
    position_v: Any,
    others: Any,
    angles: Any,
    fine_angles: Any,
) -> Any:
    """Call NsaCacheStep."""
    return operator(
        query,
        key,
        value,
        selected,
        state,
        passed(actual_seq_len, c.actual_seq_len),
        passed(gates, c.gates),
        passed(weight_k, c.weight_k),
        passed(weight_v, c.weight_v),
        passed(position_k, c.position_k),
        passed(position_v, c.position_v),
        passed(others, c.others),
        passed(angles, c.angles),
        passed(fine_angles, c.fine_angles),
    )


class NsaDecodeStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaDecode."""

    query_dtype: Any
    gates_dtype: Any
    key_cmp_dtype: Any
    value_cmp_dtype: Any
    key_slc_dtype: Any
    value_slc_dtype: Any
    key_win_dtype: Any
    value_win_dtype: Any
    block_table: Any
    cmp_block_table: Any
    actual_seq_qlen: Any
    actual_seq_kvlen: Any


def call_nsa_decode(
    operator: Any,
    c: NsaDecodeStandIns,
    query: Tensor,
    gates: Tensor,
    key_cmp: Tensor,
    value_cmp: Tensor,
    key_slc: Tensor,
    value_slc: Tensor,
    key_win: Tensor,
    value_win: Tensor,
    block_table: Any,
    cmp_block_table: Any,
    actual_seq_qlen: Any,
    actual_seq_kvlen: Any,
) -> Any:
    """Call NsaDecode."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(gates, c.gates_dtype),
        in_dtype(key_cmp, c.key_cmp_dtype),
        in_dtype(value_cmp, c.value_cmp_dtype),
        in_dtype(key_slc, c.key_slc_dtype),
        in_dtype(value_slc, c.value_slc_dtype),
        in_dtype(key_win, c.key_win_dtype),
        in_dtype(value_win, c.value_win_dtype),
        passed(block_table, c.block_table),
        passed(cmp_block_table, c.cmp_block_table),
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_seq_kvlen, c.actual_seq_kvlen),
    )


class BlockIndexerStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of BlockIndexer."""

    query_dtype: Any
    key_dtype: Any
    weights_dtype: Any
    weights: Any
    actual_seq_qlen: Any
    actual_seq_kvlen: Any
    q_offset: Any


def call_block_indexer(
    operator: Any,
    c: BlockIndexerStandIns,
    query: Tensor,
    key: Tensor,
    weights: Any,
    actual_seq_qlen: Any,
    actual_seq_kvlen: Any,
    q_offset: Any,
) -> Any:
    """Call BlockIndexer."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        passed(in_dtype(weights, c.weights_dtype), c.weights),
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_seq_kvlen, c.actual_seq_kvlen),
        passed(q_offset, c.q_offset),
    )


class LightningIndexerStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of LightningIndexer."""

    query_dtype: Any
    key_dtype: Any
    weights_dtype: Any
    weights: Any
    actual_seq_lengths_query: Any
    actual_seq_lengths_key: Any
    compress_residual: Any
    block_table: Any


def call_lightning_indexer(
    operator: Any,
    c: LightningIndexerStandIns,
    query: Tensor,
    key: Tensor,
    weights: Any,
    actual_seq_lengths_query: Any,
    actual_seq_lengths_key: Any,
    compress_residual: Any,
    block_table: Any,
) -> Any:
    """Call LightningIndexer."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        passed(in_dtype(weights, c.weights_dtype), c.weights),
        passed(actual_seq_lengths_query, c.actual_seq_lengths_query),
        passed(actual_seq_lengths_key, c.actual_seq_lengths_key),
        passed(compress_residual, c.compress_residual),
        passed(block_table, c.block_table),
    )


class SparseFlashAttentionStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of SparseFlashAttention."""

    query_dtype: Any
    key_dtype: Any
    value_dtype: Any
    query_rope_dtype: Any
    query_rope: Any
    key_rope_dtype: Any
    key_rope: Any
    sinks_dtype: Any
    sinks: Any
    actual_seq_lengths_query: Any
    actual_seq_lengths_kv: Any
    block_table: Any


def call_sparse_flash_attention(
    operator: Any,
    c: SparseFlashAttentionStandIns,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    query_rope: Any,
    key_rope: Any,
    sinks: Any,
    actual_seq_lengths_query: Any,
    actual_seq_lengths_kv: Any,
    block_table: Any,
) -> Any:
    """Call SparseFlashAttention."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        in_dtype(value, c.value_dtype),
        sparse_indices,
        passed(in_dtype(query_rope, c.query_rope_dtype), c.query_rope),
        passed(in_dtype(key_rope, c.key_rope_dtype), c.key_rope),
        passed(in_dtype(sinks, c.sinks_dtype), c.sinks),
        passed(actual_seq_lengths_query, c.actual_seq_lengths_query),
        passed(actual_seq_lengths_kv, c.actual_seq_lengths_kv),
        passed(block_table, c.block_table),
    )


class SparseLightningIndexerGradKLLossStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of SparseLightningIndexerGradKLLoss."""

    query_dtype: Any
    key_dtype: Any
    query_index_dtype: Any
    key_index_dtype: Any
    weights_dtype: Any
    softmax_max_dtype: Any
    softmax_sum_dtype: Any
    query_rope_dtype: Any
    query_rope: Any
    key_rope_dtype: Any
    key_rope: Any
    actual_seq_qlen: Any
    actual_seq_klen: Any


def call_sparse_lightning_indexer_grad_kl_loss(
    operator: Any,
    c: SparseLightningIndexerGradKLLossStandIns,
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    sparse_indices: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    query_rope: Any,
    key_rope: Any,
    actual_seq_qlen: Any,
    actual_seq_klen: Any,
) -> Any:
    """Call SparseLightningIndexerGradKLLoss."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        in_dtype(query_index, c.query_index_dtype),
        in_dtype(key_index, c.key_index_dtype),
        in_dtype(weights, c.weights_dtype),
        sparse_indices,
        in_dtype(softmax_max, c.softmax_max_dtype),
        in_dtype(softmax_sum, c.softmax_sum_dtype),
        passed(in_dtype(query_rope, c.query_rope_dtype), c.query_rope),
        passed(in_dtype(key_rope, c.key_rope_dtype), c.key_rope),
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_seq_klen, c.actual_seq_klen),
    )


class DenseLightningIndexerSoftmaxLseStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of DenseLightningIndexerSoftmaxLse."""

    query_index_dtype: Any
    key_index_dtype: Any
    weights_dtype: Any
    actual_seq_qlen: Any
    actual_seq_klen: Any


def call_dense_lightning_indexer_softmax_lse(
    operator: Any,
    c: DenseLightningIndexerSoftmaxLseStandIns,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    actual_seq_qlen: Any,
    actual_seq_klen: Any,
) -> Any:
    """Call DenseLightningIndexerSoftmaxLse."""
    return operator(
        in_dtype(query_index, c.query_index_dtype),
        in_dtype(key_index, c.key_index_dtype),
        in_dtype(weights, c.weights_dtype),
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_seq_klen, c.actual_seq_klen),
    )


class DenseLightningIndexerGradKLLossStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of DenseLightningIndexerGradKLLoss."""

    query_dtype: Any
    key_dtype: Any
    query_index_dtype: Any
    key_index_dtype: Any
    weights_dtype: Any
    softmax_max_dtype: Any
    softmax_sum_dtype: Any
    softmax_max_index_dtype: Any
    softmax_sum_index_dtype: Any
    query_rope_dtype: Any
    query_rope: Any
    key_rope_dtype: Any
    key_rope: Any
    actual_seq_qlen: Any
    actual_seq_klen: Any


def call_dense_lightning_indexer_grad_kl_loss(
    operator: Any,
    c: DenseLightningIndexerGradKLLossStandIns,
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    softmax_max_index: Tensor,
    softmax_sum_index: Tensor,
    query_rope: Any,
    key_rope: Any,
    actual_seq_qlen: Any,
    actual_seq_klen: Any,
) -> Any:
    """Call DenseLightningIndexerGradKLLoss."""
    return operator(
        in_dtype(query, c.query_dtype),
        in_dtype(key, c.key_dtype),
        in_dtype(query_index, c.query_index_dtype),
        in_dtype(key_index, c.key_index_dtype),
        in_dtype(weights, c.weights_dtype),
        in_dtype(softmax_max, c.softmax_max_dtype),
        in_dtype(softmax_sum, c.softmax_sum_dtype),
        in_dtype(softmax_max_index, c.softmax_max_index_dtype),
        in_dtype(softmax_sum_index, c.softmax_sum_index_dtype),
        passed(in_dtype(query_rope, c.query_rope_dtype), c.query_rope),
        passed(in_dtype(key_rope, c.key_rope_dtype), c.key_rope),
        passed(actual_seq_qlen, c.actual_seq_qlen),
        passed(actual_seq_klen, c.actual_seq_klen),
    )


STAND_INS: dict[str, Any] = {
    "NsaCompress": NsaCompressStandIns,
    "NsaCompressAttention": NsaCompressAttentionStandIns,
    "NsaSelectedAttention": NsaSelectedAttentionStandIns,
    "NsaSelectedAttentionGrad": NsaSelectedAttentionGradStandIns,
    "FlashAttentionScore": FlashAttentionScoreStandIns,
    "NsaCompressWithCache": NsaCompressWithCacheStandIns,
    "NsaCompressAttentionInfer": NsaCompressAttentionInferStandIns,
    "NsaSelectedAttentionInfer": NsaSelectedAttentionInferStandIns,
    "NsaCacheStep": NsaCacheStepStandIns,
    "NsaDecode": NsaDecodeStandIns,
    "BlockIndexer": BlockIndexerStandIns,
    "LightningIndexer": LightningIndexerStandIns,
    "SparseFlashAttention": SparseFlashAttentionStandIns,
    "SparseLightningIndexerGradKLLoss": SparseLightningIndexerGradKLLossStandIns,
    "DenseLightningIndexerSoftmaxLse": DenseLightningIndexerSoftmaxLseStandIns,
    "DenseLightningIndexerGradKLLoss": DenseLightningIndexerGradKLLossStandIns,
}
