"""Gradients of the native operators.

`gradient` is the operator that computes them, or a function of `out` and `dout`.
`given` says which lists and optional inputs are arguments of the call. An input
without a gradient has zeros. One that is a constant of the plan stands for its own
gradient, which goes nowhere.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

from typing import Any, NamedTuple

from mindspore.ops import zeros_like

from ._custom import absent
from ._operands import zero_gradient


class NsaCompressGiven(NamedTuple):
    """What the bprop of NsaCompress is given."""

    actual_seq_len: bool


def bprop_of_nsa_compress(gradient: Any, given: NsaCompressGiven) -> Any:
    """Make the bprop of NsaCompress from NsaCompressGrad."""

    def bprop(
        input,
        weight,
        actual_seq_len,
        out,
        dout,
    ):
        gradients = gradient(
            dout,  # output_grad
            input,
            weight,
            actual_seq_len,
        )
        return (
            gradients[0],
            gradients[1],
            zero_gradient(actual_seq_len, given.actual_seq_len),
        )

    return bprop


class NsaCompressAttentionGiven(NamedTuple):
    """What the bprop of NsaCompressAttention is given."""

    topk_mask: bool
    atten_mask: bool
    actual_seq_qlen: bool
    actual_cmp_seq_kvlen: bool
    actual_sel_seq_kvlen: bool
    q_offset: bool
    softmax_sum_grad: bool


def bprop_of_nsa_compress_attention(gradient: Any, given: NsaCompressAttentionGiven) -> Any:
    """Make the bprop of NsaCompressAttention from FlashAttentionScoreGrad."""
    nothing = absent()
    no_list = absent("int64")

    def bprop(
        query,
        key,
        value,
        topk_mask,
        atten_mask,
        actual_seq_qlen,
        actual_cmp_seq_kvlen,
        actual_sel_seq_kvlen,
        q_offset,
        out,
        dout,
    ):
        gradients = gradient(
            query,
            key,
            value,
            dout[0],  # dy
            nothing,  # real_shift
            nothing,  # drop_mask
            atten_mask,  # attn_mask
            out[2],  # softmax_max
            out[3],  # softmax_sum
            out[0],  # attention_in
            no_list,  # prefix
            actual_seq_qlen,
            actual_cmp_seq_kvlen,  # actual_seq_kvlen
            nothing,  # sink
            q_offset,
            dout[3] if given.softmax_sum_grad else nothing,  # softmax_sum_grad
            no_list,  # q_start_idx
            no_list,  # kv_start_idx
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            zero_gradient(topk_mask, given.topk_mask),
            zero_gradient(atten_mask, given.atten_mask),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_cmp_seq_kvlen, given.actual_cmp_seq_kvlen),
            zero_gradient(actual_sel_seq_kvlen, given.actual_sel_seq_kvlen),
            zero_gradient(q_offset, given.q_offset),
        )

    return bprop


class NsaSelectedAttentionGiven(NamedTuple):
    """What the bprop of NsaSelectedAttention is given."""

    actual_seq_qlen: bool
    actual_seq_kvlen: bool
    q_offset: bool
    softmax_sum_grad: bool


def bprop_of_nsa_selected_attention(gradient: Any, given: NsaSelectedAttentionGiven) -> Any:
    """Make the bprop of NsaSelectedAttention from NsaSelectedAttentionGrad."""
    nothing = absent()

    def bprop(
        query,
        key,
        value,
        topk_indices,
        actual_seq_qlen,
        actual_seq_kvlen,
        q_offset,
        out,
        dout,
    ):
        gradients = gradient(
            query,
            key,
            value,
            out[0],  # attention_out
            dout[0],  # attention_out_grad
            out[1],  # softmax_max
            out[2],  # softmax_sum
            topk_indices,
            actual_seq_qlen,
            actual_seq_kvlen,
            q_offset,
            dout[2] if given.softmax_sum_grad else nothing,  # softmax_sum_grad
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            zeros_like(topk_indices),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_seq_kvlen, given.actual_seq_kvlen),
            zero_gradient(q_offset, given.q_offset),
        )

    return bprop


class FlashAttentionScoreGiven(NamedTuple):
    """What the bprop of FlashAttentionScore is given."""

    real_shift: bool
    drop_mask: bool
    attn_mask: bool
    prefix: bool
    actual_seq_qlen: bool
    actual_seq_kvlen: bool
    sink: bool
    q_start_idx: bool
    kv_start_idx: bool
    softmax_sum_grad: bool
    real_shift_grad: bool


def bprop_of_flash_attention_score(
    gradient: Any, given: FlashAttentionScoreGiven, real_shift_gradient: Any
) -> Any:
    """Make the bprop of FlashAttentionScore from FlashAttentionScoreGrad.

    `real_shift_gradient` is None, or another one, for real_shift alone, which does not
    run where that gradient is not used.
    """
    nothing = absent()
    no_list = absent("int64")

    def bprop(
        query,
        key,
        value,
        real_shift,
        drop_mask,
        attn_mask,
        prefix,
        actual_seq_qlen,
        actual_seq_kvlen,
        sink,
        q_start_idx,
        kv_start_idx,
        out,
        dout,
    ):
        gradients = gradient(
            query,
            key,
            value,
            dout[0],  # dy
            real_shift,
            drop_mask,
            attn_mask,
            out[1],  # softmax_max
            out[2],  # softmax_sum
            out[0],  # attention_in
            prefix,
            actual_seq_qlen,
            actual_seq_kvlen,
            sink,
            no_list,  # q_offset
            dout[2] if given.softmax_sum_grad else nothing,  # softmax_sum_grad
            q_start_idx,
            kv_start_idx,
        )
        if real_shift_gradient is None:
            real_shift_grad = gradients[3]
        else:
            real_shift_grad = real_shift_gradient(
                query,
                key,
                value,
                dout[0],  # dy
                real_shift,
                drop_mask,
                attn_mask,
                out[1],  # softmax_max
                out[2],  # softmax_sum
                out[0],  # attention_in
                prefix,
                actual_seq_qlen,
                actual_seq_kvlen,
                sink,
                no_list,  # q_offset
                dout[2] if given.softmax_sum_grad else nothing,  # softmax_sum_grad
                q_start_idx,
                kv_start_idx,
            )[3]
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            real_shift_grad
            if given.real_shift_grad
            else zero_gradient(real_shift, given.real_shift),
            zero_gradient(drop_mask, given.drop_mask),
            zero_gradient(attn_mask, given.attn_mask),
            zero_gradient(prefix, given.prefix),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_seq_kvlen, given.actual_seq_kvlen),
            gradients[4] if given.sink else sink,
            zero_gradient(q_start_idx, given.q_start_idx),
            zero_gradient(kv_start_idx, given.kv_start_idx),
        )

    return bprop


class BlockIndexerGiven(NamedTuple):
    """What the bprop of BlockIndexer is given."""

    weights: bool
    actual_seq_qlen: bool
    actual_seq_kvlen: bool
    q_offset: bool


def zero_bprop_of_block_indexer(given: BlockIndexerGiven) -> Any:
    """Make the bprop of BlockIndexer where nothing has a gradient."""

    def bprop(
        query,
        key,
        weights,
        actual_seq_qlen,
        actual_seq_kvlen,
        q_offset,
        out,
        dout,
    ):
        return (
            zeros_like(query),
            zeros_like(key),
            zero_gradient(weights, given.weights),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_seq_kvlen, given.actual_seq_kvlen),
            zero_gradient(q_offset, given.q_offset),
        )

    return bprop


class LightningIndexerGiven(NamedTuple):
    """What the bprop of LightningIndexer is given."""

    weights: bool
    actual_seq_lengths_query: bool
    actual_seq_lengths_key: bool
    compress_residual: bool
    block_table: bool


def bprop_of_lightning_indexer(gradient: Any, given: LightningIndexerGiven) -> Any:
    """Make the bprop of LightningIndexer from LightningIndexerGrad."""

    def bprop(
        query,
        key,
        weights,
        actual_seq_lengths_query,
        actual_seq_lengths_key,
        compress_residual,
        block_table,
        out,
        dout,
    ):
        gradients = gradient(
            query,
            key,
            dout[1],  # sparse_values_grad
            out[0],  # sparse_indices
            weights,
            actual_seq_lengths_query,
            actual_seq_lengths_key,
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2] if given.weights else weights,
            zero_gradient(actual_seq_lengths_query, given.actual_seq_lengths_query),
            zero_gradient(actual_seq_lengths_key, given.actual_seq_lengths_key),
            zero_gradient(compress_residual, given.compress_residual),
            zero_gradient(block_table, given.block_table),
        )

    return bprop


def zero_bprop_of_lightning_indexer(given: LightningIndexerGiven) -> Any:
    """Make the bprop of LightningIndexer where nothing has a gradient."""

    def bprop(
        query,
        key,
        weights,
        actual_seq_lengths_query,
        actual_seq_lengths_key,
        compress_residual,
        block_table,
        out,
        dout,
    ):
        return (
            zeros_like(query),
            zeros_like(key),
            zero_gradient(weights, given.weights),
            zero_gradient(actual_seq_lengths_query, given.actual_seq_lengths_query),
            zero_gradient(actual_seq_lengths_key, given.actual_seq_lengths_key),
            zero_gradient(compress_residual, given.compress_residual),
            zero_gradient(block_table, given.block_table),
        )

    return bprop


class SparseFlashAttentionGiven(NamedTuple):
    """What the bprop of SparseFlashAttention is given."""

    query_rope: bool
    key_rope: bool
    sinks: bool
    actual_seq_lengths_query: bool
    actual_seq_lengths_kv: bool
    block_table: bool
    softmax_sum_grad: bool


def bprop_of_sparse_flash_attention(gradient: Any, given: SparseFlashAttentionGiven) -> Any:
    """Make the bprop of SparseFlashAttention from SparseFlashAttentionGrad."""
    nothing = absent()

    def bprop(
        query,
        key,
        value,
        sparse_indices,
        query_rope,
        key_rope,
        sinks,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        block_table,
        out,
        dout,
    ):
        gradients = gradient(
            query,
            key,
            value,
            sparse_indices,
            out[0],  # attention_out
            dout[0],  # attention_out_grad
            query_rope,
            key_rope,
            sinks,
            actual_seq_lengths_query,
            actual_seq_lengths_kv,
            dout[2] if given.softmax_sum_grad else nothing,  # softmax_sum_grad
        )
        return (
            gradients[0],
            gradients[1],
            gradients[2],
            zeros_like(sparse_indices),
            gradients[3] if given.query_rope else query_rope,
            gradients[4] if given.key_rope else key_rope,
            gradients[5] if given.sinks else sinks,
            zero_gradient(actual_seq_lengths_query, given.actual_seq_lengths_query),
            zero_gradient(actual_seq_lengths_kv, given.actual_seq_lengths_kv),
            zero_gradient(block_table, given.block_table),
        )

    return bprop


class SparseLightningIndexerGradKLLossGiven(NamedTuple):
    """What the bprop of SparseLightningIndexerGradKLLoss is given."""

    query_rope: bool
    key_rope: bool
    actual_seq_qlen: bool
    actual_seq_klen: bool


def bprop_of_sparse_lightning_indexer_grad_kl_loss(
    gradient: Any, given: SparseLightningIndexerGradKLLossGiven
) -> Any:
    """Make the bprop of SparseLightningIndexerGradKLLoss."""

    def bprop(
        query,
        key,
        query_index,
        key_index,
        weights,
        sparse_indices,
        softmax_max,
        softmax_sum,
        query_rope,
        key_rope,
        actual_seq_qlen,
        actual_seq_klen,
        out,
        dout,
    ):
        gradients = gradient(out, dout)
        return (
            zeros_like(query),
            zeros_like(key),
            gradients[0],
            gradients[1],
            gradients[2],
            zeros_like(sparse_indices),
            zeros_like(softmax_max),
            zeros_like(softmax_sum),
            zero_gradient(query_rope, given.query_rope),
            zero_gradient(key_rope, given.key_rope),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_seq_klen, given.actual_seq_klen),
        )

    return bprop


class DenseLightningIndexerGradKLLossGiven(NamedTuple):
    """What the bprop of DenseLightningIndexerGradKLLoss is given."""

    query_rope: bool
    key_rope: bool
    actual_seq_qlen: bool
    actual_seq_klen: bool


def bprop_of_dense_lightning_indexer_grad_kl_loss(
    gradient: Any, given: DenseLightningIndexerGradKLLossGiven
) -> Any:
    """Make the bprop of DenseLightningIndexerGradKLLoss."""

    def bprop(
        query,
        key,
        query_index,
        key_index,
        weights,
        softmax_max,
        softmax_sum,
        softmax_max_index,
        softmax_sum_index,
        query_rope,
        key_rope,
        actual_seq_qlen,
        actual_seq_klen,
        out,
        dout,
    ):
        gradients = gradient(out, dout)
        return (
            zeros_like(query),
            zeros_like(key),
            gradients[0],
            gradients[1],
            gradients[2],
            zeros_like(softmax_max),
            zeros_like(softmax_sum),
            zeros_like(softmax_max_index),
            zeros_like(softmax_sum_index),
            zero_gradient(query_rope, given.query_rope),
            zero_gradient(key_rope, given.key_rope),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_seq_klen, given.actual_seq_klen),
        )

    return bprop


GIVEN: dict[str, Any] = {
    "NsaCompress": NsaCompressGiven,
    "NsaCompressAttention": NsaCompressAttentionGiven,
    "NsaSelectedAttention": NsaSelectedAttentionGiven,
    "FlashAttentionScore": FlashAttentionScoreGiven,
    "BlockIndexer": BlockIndexerGiven,
    "LightningIndexer": LightningIndexerGiven,
    "SparseFlashAttention": SparseFlashAttentionGiven,
    "SparseLightningIndexerGradKLLoss": SparseLightningIndexerGradKLLossGiven,
    "DenseLightningIndexerGradKLLoss": DenseLightningIndexerGradKLLossGiven,
}
