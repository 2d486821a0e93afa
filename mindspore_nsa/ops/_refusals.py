"""Gradients that do not exist: bprops that raise where one is used.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

from typing import Any

from ._refuse import refuse_each


def refuse_gradient_of_nsa_compress_grad(text: str) -> Any:
    """Make the bprop of NsaCompressGrad that raises an error."""

    def bprop(
        output_grad,
        input,
        weight,
        actual_seq_len,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                output_grad,
                input,
                weight,
                actual_seq_len,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_selected_attention_grad(text: str) -> Any:
    """Make the bprop of NsaSelectedAttentionGrad that raises an error."""

    def bprop(
        query,
        key,
        value,
        attention_out,
        attention_out_grad,
        softmax_max,
        softmax_sum,
        topk_indices,
        actual_seq_qlen,
        actual_seq_kvlen,
        q_offset,
        softmax_sum_grad,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query,
                key,
                value,
                attention_out,
                attention_out_grad,
                softmax_max,
                softmax_sum,
                topk_indices,
                actual_seq_qlen,
                actual_seq_kvlen,
                q_offset,
                softmax_sum_grad,
            ),
        )

    return bprop


def refuse_gradient_of_flash_attention_score_grad(text: str) -> Any:
    """Make the bprop of FlashAttentionScoreGrad that raises an error."""

    def bprop(
        query,
        key,
        value,
        dy,
        real_shift,
        drop_mask,
        attn_mask,
        softmax_max,
        softmax_sum,
        attention_in,
        prefix,
        actual_seq_qlen,
        actual_seq_kvlen,
        sink,
        q_offset,
        softmax_sum_grad,
        q_start_idx,
        kv_start_idx,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query,
                key,
                value,
                dy,
                real_shift,
                drop_mask,
                attn_mask,
                softmax_max,
                softmax_sum,
                attention_in,
                prefix,
                actual_seq_qlen,
                actual_seq_kvlen,
                sink,
                q_offset,
                softmax_sum_grad,
                q_start_idx,
                kv_start_idx,
            ),
        )

    return bprop


def refuse_gradient_of_lightning_indexer_grad(text: str) -> Any:
    """Make the bprop of LightningIndexerGrad that raises an error."""

    def bprop(
        query,
        key,
        sparse_values_grad,
        sparse_indices,
        weights,
        actual_seq_lengths_query,
        actual_seq_lengths_key,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query,
                key,
                sparse_values_grad,
                sparse_indices,
                weights,
                actual_seq_lengths_query,
                actual_seq_lengths_key,
            ),
        )

    return bprop


def refuse_gradient_of_sparse_flash_attention_grad(text: str) -> Any:
    """Make the bprop of SparseFlashAttentionGrad that raises an error."""

    def bprop(
        query,
        key,
        value,
        sparse_indices,
        attention_out,
        attention_out_grad,
        query_rope,
        key_rope,
        sinks,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        softmax_sum_grad,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query,
                key,
                value,
                sparse_indices,
                attention_out,
                attention_out_grad,
                query_rope,
                key_rope,
                sinks,
                actual_seq_lengths_query,
                actual_seq_lengths_kv,
                softmax_sum_grad,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_split_heads_grad(text: str) -> Any:
    """Make the bprop of NsaSplitHeadsGrad that raises an error."""

    def bprop(
        query_cmp_grad,
        query_slc_grad,
        query_win_grad,
        key_cmp_grad,
        key_slc_grad,
        key_win_grad,
        value_cmp_grad,
        value_slc_grad,
        value_win_grad,
        cos,
        sin,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query_cmp_grad,
                query_slc_grad,
                query_win_grad,
                key_cmp_grad,
                key_slc_grad,
                key_win_grad,
                value_cmp_grad,
                value_slc_grad,
                value_win_grad,
                cos,
                sin,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_mix_branches_grad(text: str) -> Any:
    """Make the bprop of NsaMixBranchesGrad that raises an error."""

    def bprop(
        mixed_grad,
        logits,
        compressed,
        selected,
        window,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                mixed_grad,
                logits,
                compressed,
                selected,
                window,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_projection_input_grad(text: str) -> Any:
    """Make the bprop of NsaProjectionInputGrad that raises an error."""

    def bprop(
        y_grad,
        y_1_grad,
        y_2_grad,
        weight,
        weight_1,
        weight_2,
        x,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                y_grad,
                y_1_grad,
                y_2_grad,
                weight,
                weight_1,
                weight_2,
                x,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_projection_weight_grad(text: str) -> Any:
    """Make the bprop of NsaProjectionWeightGrad that raises an error."""

    def bprop(
        y_grad,
        y_1_grad,
        y_2_grad,
        weight,
        weight_1,
        weight_2,
        x,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                y_grad,
                y_1_grad,
                y_2_grad,
                weight,
                weight_1,
                weight_2,
                x,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_compress_with_cache(text: str) -> Any:
    """Make the bprop of NsaCompressWithCache that raises an error."""

    def bprop(
        input,
        weight,
        slot_mapping,
        block_table,
        actual_seq_len,
        cache,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                input,
                weight,
                slot_mapping,
                block_table,
                actual_seq_len,
                cache,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_compress_attention_infer(text: str) -> Any:
    """Make the bprop of NsaCompressAttentionInfer that raises an error."""

    def bprop(
        query,
        key,
        value,
        block_table,
        actual_seq_qlen,
        actual_cmp_seq_kvlen,
        actual_sel_seq_kvlen,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query,
                key,
                value,
                block_table,
                actual_seq_qlen,
                actual_cmp_seq_kvlen,
                actual_sel_seq_kvlen,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_selected_attention_infer(text: str) -> Any:
    """Make the bprop of NsaSelectedAttentionInfer that raises an error."""

    def bprop(
        query,
        key,
        value,
        topk_indices,
        block_table,
        actual_seq_qlen,
        actual_seq_kvlen,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query,
                key,
                value,
                topk_indices,
                block_table,
                actual_seq_qlen,
                actual_seq_kvlen,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_cache_step(text: str) -> Any:
    """Make the bprop of NsaCacheStep that raises an error."""

    def bprop(
        query,
        key,
        value,
        selected,
        state,
        actual_seq_len,
        gates,
        weight_k,
        weight_v,
        position_k,
        position_v,
        others,
        angles,
        fine_angles,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query,
                key,
                value,
                selected,
                state,
                actual_seq_len,
                gates,
                weight_k,
                weight_v,
                position_k,
                position_v,
                others,
                angles,
                fine_angles,
            ),
        )

    return bprop


def refuse_gradient_of_nsa_decode(text: str) -> Any:
    """Make the bprop of NsaDecode that raises an error."""

    def bprop(
        query,
        gates,
        key_cmp,
        value_cmp,
        key_slc,
        value_slc,
        key_win,
        value_win,
        block_table,
        cmp_block_table,
        actual_seq_qlen,
        actual_seq_kvlen,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query,
                gates,
                key_cmp,
                value_cmp,
                key_slc,
                value_slc,
                key_win,
                value_win,
                block_table,
                cmp_block_table,
                actual_seq_qlen,
                actual_seq_kvlen,
            ),
        )

    return bprop


def refuse_gradient_of_sparse_flash_attention(text: str) -> Any:
    """Make the bprop of SparseFlashAttention that raises an error."""

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
        return refuse_each(
            text,
            (
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
            ),
        )

    return bprop


def refuse_gradient_of_sparse_lightning_indexer_grad_kl_loss(text: str) -> Any:
    """Make the bprop of SparseLightningIndexerGradKLLoss that raises an error."""

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
        return refuse_each(
            text,
            (
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
            ),
        )

    return bprop


def refuse_gradient_of_dense_lightning_indexer_softmax_lse(text: str) -> Any:
    """Make the bprop of DenseLightningIndexerSoftmaxLse that raises an error."""

    def bprop(
        query_index,
        key_index,
        weights,
        actual_seq_qlen,
        actual_seq_klen,
        out,
        dout,
    ):
        return refuse_each(
            text,
            (
                query_index,
                key_index,
                weights,
                actual_seq_qlen,
                actual_seq_klen,
            ),
        )

    return bprop


def refuse_gradient_of_dense_lightning_indexer_grad_kl_loss(text: str) -> Any:
    """Make the bprop of DenseLightningIndexerGradKLLoss that raises an error."""

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
        return refuse_each(
            text,
            (
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
            ),
        )

    return bprop


REFUSALS: dict[str, Any] = {
    "NsaCompressGrad": refuse_gradient_of_nsa_compress_grad,
    "NsaSelectedAttentionGrad": refuse_gradient_of_nsa_selected_attention_grad,
    "FlashAttentionScoreGrad": refuse_gradient_of_flash_attention_score_grad,
    "LightningIndexerGrad": refuse_gradient_of_lightning_indexer_grad,
    "SparseFlashAttentionGrad": refuse_gradient_of_sparse_flash_attention_grad,
    "NsaSplitHeadsGrad": refuse_gradient_of_nsa_split_heads_grad,
    "NsaMixBranchesGrad": refuse_gradient_of_nsa_mix_branches_grad,
    "NsaProjectionInputGrad": refuse_gradient_of_nsa_projection_input_grad,
    "NsaProjectionWeightGrad": refuse_gradient_of_nsa_projection_weight_grad,
    "NsaCompressWithCache": refuse_gradient_of_nsa_compress_with_cache,
    "NsaCompressAttentionInfer": refuse_gradient_of_nsa_compress_attention_infer,
    "NsaSelectedAttentionInfer": refuse_gradient_of_nsa_selected_attention_infer,
    "NsaCacheStep": refuse_gradient_of_nsa_cache_step,
    "NsaDecode": refuse_gradient_of_nsa_decode,
    "SparseFlashAttention": refuse_gradient_of_sparse_flash_attention,
    "SparseLightningIndexerGradKLLoss": refuse_gradient_of_sparse_lightning_indexer_grad_kl_loss,
    "DenseLightningIndexerSoftmaxLse": refuse_gradient_of_dense_lightning_indexer_softmax_lse,
    "DenseLightningIndexerGradKLLoss": refuse_gradient_of_dense_lightning_indexer_grad_kl_loss,
}
