"""Calls of the native operators by the names of their inputs.

`c` has what a plan knows of a call: the dtype that an input is cast to, and what
is passed for a list or an optional input; None: the argument as it is. A graph of a
bprop takes `c` for a tuple without names, so it is unpacked.

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
    input_dtype, weight_dtype, actual_seq_len_stand_in = c
    return operator(
        in_dtype(input, input_dtype),
        in_dtype(weight, weight_dtype),
        passed(actual_seq_len, actual_seq_len_stand_in),
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
    (
        query_dtype,
        key_dtype,
        value_dtype,
        topk_mask_stand_in,
        atten_mask_stand_in,
        actual_seq_qlen_stand_in,
        actual_cmp_seq_kvlen_stand_in,
        actual_sel_seq_kvlen_stand_in,
        q_offset_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        in_dtype(value, value_dtype),
        passed(topk_mask, topk_mask_stand_in),
        passed(atten_mask, atten_mask_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_cmp_seq_kvlen, actual_cmp_seq_kvlen_stand_in),
        passed(actual_sel_seq_kvlen, actual_sel_seq_kvlen_stand_in),
        passed(q_offset, q_offset_stand_in),
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
    (
        query_dtype,
        key_dtype,
        value_dtype,
        actual_seq_qlen_stand_in,
        actual_seq_kvlen_stand_in,
        q_offset_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        in_dtype(value, value_dtype),
        topk_indices,
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in),
        passed(q_offset, q_offset_stand_in),
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
    (
        query_dtype,
        key_dtype,
        value_dtype,
        attention_out_dtype,
        attention_out_grad_dtype,
        softmax_max_dtype,
        softmax_sum_dtype,
        actual_seq_qlen_stand_in,
        actual_seq_kvlen_stand_in,
        q_offset_stand_in,
        softmax_sum_grad_dtype,
        softmax_sum_grad_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        in_dtype(value, value_dtype),
        in_dtype(attention_out, attention_out_dtype),
        in_dtype(attention_out_grad, attention_out_grad_dtype),
        in_dtype(softmax_max, softmax_max_dtype),
        in_dtype(softmax_sum, softmax_sum_dtype),
        topk_indices,
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in),
        passed(q_offset, q_offset_stand_in),
        passed(in_dtype(softmax_sum_grad, softmax_sum_grad_dtype), softmax_sum_grad_stand_in),
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
    (
        query_dtype,
        key_dtype,
        value_dtype,
        real_shift_dtype,
        real_shift_stand_in,
        drop_mask_stand_in,
        attn_mask_stand_in,
        prefix_stand_in,
        actual_seq_qlen_stand_in,
        actual_seq_kvlen_stand_in,
        sink_dtype,
        sink_stand_in,
        q_start_idx_stand_in,
        kv_start_idx_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        in_dtype(value, value_dtype),
        passed(in_dtype(real_shift, real_shift_dtype), real_shift_stand_in),
        passed(drop_mask, drop_mask_stand_in),
        passed(attn_mask, attn_mask_stand_in),
        passed(prefix, prefix_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in),
        passed(in_dtype(sink, sink_dtype), sink_stand_in),
        passed(q_start_idx, q_start_idx_stand_in),
        passed(kv_start_idx, kv_start_idx_stand_in),
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
    slot_mapping_stand_in, block_table_stand_in, actual_seq_len_stand_in = c
    return operator(
        input,
        weight,
        passed(slot_mapping, slot_mapping_stand_in),
        passed(block_table, block_table_stand_in),
        passed(actual_seq_len, actual_seq_len_stand_in),
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
    (
        query_dtype,
        key_dtype,
        value_dtype,
        block_table_stand_in,
        actual_seq_qlen_stand_in,
        actual_cmp_seq_kvlen_stand_in,
        actual_sel_seq_kvlen_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        in_dtype(value, value_dtype),
        passed(block_table, block_table_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_cmp_seq_kvlen, actual_cmp_seq_kvlen_stand_in),
        passed(actual_sel_seq_kvlen, actual_sel_seq_kvlen_stand_in),
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
    (
        query_dtype,
        key_dtype,
        value_dtype,
        block_table_stand_in,
        actual_seq_qlen_stand_in,
        actual_seq_kvlen_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        in_dtype(value, value_dtype),
        topk_indices,
        passed(block_table, block_table_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in),
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
    (
        actual_seq_len_stand_in,
        gates_stand_in,
        weight_k_stand_in,
        weight_v_stand_in,
        position_k_stand_in,
        position_v_stand_in,
        others_stand_in,
        angles_stand_in,
        fine_angles_stand_in,
    ) = c
    return operator(
        query,
        key,
        value,
        selected,
        state,
        passed(actual_seq_len, actual_seq_len_stand_in),
        passed(gates, gates_stand_in),
        passed(weight_k, weight_k_stand_in),
        passed(weight_v, weight_v_stand_in),
        passed(position_k, position_k_stand_in),
        passed(position_v, position_v_stand_in),
        passed(others, others_stand_in),
        passed(angles, angles_stand_in),
        passed(fine_angles, fine_angles_stand_in),
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
    (
        query_dtype,
        gates_dtype,
        key_cmp_dtype,
        value_cmp_dtype,
        key_slc_dtype,
        value_slc_dtype,
        key_win_dtype,
        value_win_dtype,
        block_table_stand_in,
        cmp_block_table_stand_in,
        actual_seq_qlen_stand_in,
        actual_seq_kvlen_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(gates, gates_dtype),
        in_dtype(key_cmp, key_cmp_dtype),
        in_dtype(value_cmp, value_cmp_dtype),
        in_dtype(key_slc, key_slc_dtype),
        in_dtype(value_slc, value_slc_dtype),
        in_dtype(key_win, key_win_dtype),
        in_dtype(value_win, value_win_dtype),
        passed(block_table, block_table_stand_in),
        passed(cmp_block_table, cmp_block_table_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in),
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
    (
        query_dtype,
        key_dtype,
        weights_dtype,
        weights_stand_in,
        actual_seq_qlen_stand_in,
        actual_seq_kvlen_stand_in,
        q_offset_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        passed(in_dtype(weights, weights_dtype), weights_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in),
        passed(q_offset, q_offset_stand_in),
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
    (
        query_dtype,
        key_dtype,
        weights_dtype,
        weights_stand_in,
        actual_seq_lengths_query_stand_in,
        actual_seq_lengths_key_stand_in,
        compress_residual_stand_in,
        block_table_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        passed(in_dtype(weights, weights_dtype), weights_stand_in),
        passed(actual_seq_lengths_query, actual_seq_lengths_query_stand_in),
        passed(actual_seq_lengths_key, actual_seq_lengths_key_stand_in),
        passed(compress_residual, compress_residual_stand_in),
        passed(block_table, block_table_stand_in),
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
    (
        query_dtype,
        key_dtype,
        value_dtype,
        query_rope_dtype,
        query_rope_stand_in,
        key_rope_dtype,
        key_rope_stand_in,
        sinks_dtype,
        sinks_stand_in,
        actual_seq_lengths_query_stand_in,
        actual_seq_lengths_kv_stand_in,
        block_table_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        in_dtype(value, value_dtype),
        sparse_indices,
        passed(in_dtype(query_rope, query_rope_dtype), query_rope_stand_in),
        passed(in_dtype(key_rope, key_rope_dtype), key_rope_stand_in),
        passed(in_dtype(sinks, sinks_dtype), sinks_stand_in),
        passed(actual_seq_lengths_query, actual_seq_lengths_query_stand_in),
        passed(actual_seq_lengths_kv, actual_seq_lengths_kv_stand_in),
        passed(block_table, block_table_stand_in),
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
    (
        query_dtype,
        key_dtype,
        query_index_dtype,
        key_index_dtype,
        weights_dtype,
        softmax_max_dtype,
        softmax_sum_dtype,
        query_rope_dtype,
        query_rope_stand_in,
        key_rope_dtype,
        key_rope_stand_in,
        actual_seq_qlen_stand_in,
        actual_seq_klen_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        in_dtype(query_index, query_index_dtype),
        in_dtype(key_index, key_index_dtype),
        in_dtype(weights, weights_dtype),
        sparse_indices,
        in_dtype(softmax_max, softmax_max_dtype),
        in_dtype(softmax_sum, softmax_sum_dtype),
        passed(in_dtype(query_rope, query_rope_dtype), query_rope_stand_in),
        passed(in_dtype(key_rope, key_rope_dtype), key_rope_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_klen, actual_seq_klen_stand_in),
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
    (
        query_index_dtype,
        key_index_dtype,
        weights_dtype,
        actual_seq_qlen_stand_in,
        actual_seq_klen_stand_in,
    ) = c
    return operator(
        in_dtype(query_index, query_index_dtype),
        in_dtype(key_index, key_index_dtype),
        in_dtype(weights, weights_dtype),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_klen, actual_seq_klen_stand_in),
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
    (
        query_dtype,
        key_dtype,
        query_index_dtype,
        key_index_dtype,
        weights_dtype,
        softmax_max_dtype,
        softmax_sum_dtype,
        softmax_max_index_dtype,
        softmax_sum_index_dtype,
        query_rope_dtype,
        query_rope_stand_in,
        key_rope_dtype,
        key_rope_stand_in,
        actual_seq_qlen_stand_in,
        actual_seq_klen_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype),
        in_dtype(key, key_dtype),
        in_dtype(query_index, query_index_dtype),
        in_dtype(key_index, key_index_dtype),
        in_dtype(weights, weights_dtype),
        in_dtype(softmax_max, softmax_max_dtype),
        in_dtype(softmax_sum, softmax_sum_dtype),
        in_dtype(softmax_max_index, softmax_max_index_dtype),
        in_dtype(softmax_sum_index, softmax_sum_index_dtype),
        passed(in_dtype(query_rope, query_rope_dtype), query_rope_stand_in),
        passed(in_dtype(key_rope, key_rope_dtype), key_rope_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_klen, actual_seq_klen_stand_in),
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
