"""Calls of FlashAttentionScore and FlashAttentionScoreGrad.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._custom import absent
from .._operands import host_list, in_dtype, passed, zero_gradient


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
    operator: Any, c: FlashAttentionScoreStandIns, query: Tensor, key: Tensor, value: Tensor,
    real_shift: Any, drop_mask: Any, attn_mask: Any, prefix: Any, actual_seq_qlen: Any,
    actual_seq_kvlen: Any, sink: Any, q_start_idx: Any, kv_start_idx: Any,
) -> Any:
    """Call FlashAttentionScore."""
    (
        query_dtype, key_dtype, value_dtype, real_shift_dtype, real_shift_stand_in,
        drop_mask_stand_in, attn_mask_stand_in, prefix_stand_in, actual_seq_qlen_stand_in,
        actual_seq_kvlen_stand_in, sink_dtype, sink_stand_in, q_start_idx_stand_in,
        kv_start_idx_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype), in_dtype(value, value_dtype),
        passed(in_dtype(real_shift, real_shift_dtype), real_shift_stand_in),
        passed(drop_mask, drop_mask_stand_in), passed(attn_mask, attn_mask_stand_in),
        passed(prefix, prefix_stand_in), passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in),
        passed(in_dtype(sink, sink_dtype), sink_stand_in),
        passed(q_start_idx, q_start_idx_stand_in), passed(kv_start_idx, kv_start_idx_stand_in),
    )


class FlashAttentionScoreGiven(NamedTuple):
    """Inputs that the bprop of FlashAttentionScore is given."""

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
    gradient: Any, given: FlashAttentionScoreGiven, real_shift_gradient: Any,
) -> Any:
    """Make the bprop of FlashAttentionScore from FlashAttentionScoreGrad.

    `real_shift_gradient` is None, or another one, for real_shift alone, which does not
    run where that gradient is not used.
    """
    nothing = absent()
    no_list = absent("int64")

    def bprop(
        query: Any, key: Any, value: Any, real_shift: Any, drop_mask: Any, attn_mask: Any,
        prefix: Any, actual_seq_qlen: Any, actual_seq_kvlen: Any, sink: Any, q_start_idx: Any,
        kv_start_idx: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = gradient(
            query, key, value,
            dout[0],  # dy
            real_shift, drop_mask, attn_mask,
            out[1],  # softmax_max
            out[2],  # softmax_sum
            out[0],  # attention_in
            prefix, actual_seq_qlen, actual_seq_kvlen, sink,
            no_list,  # q_offset
            dout[2] if given.softmax_sum_grad else nothing, q_start_idx, kv_start_idx,
        )
        if real_shift_gradient is None:
            real_shift_grad = gradients[3]
        else:
            real_shift_grad = real_shift_gradient(
                query, key, value,
                dout[0],  # dy
                real_shift, drop_mask, attn_mask,
                out[1],  # softmax_max
                out[2],  # softmax_sum
                out[0],  # attention_in
                prefix, actual_seq_qlen, actual_seq_kvlen, sink,
                no_list,  # q_offset
                dout[2] if given.softmax_sum_grad else nothing, q_start_idx, kv_start_idx,
            )[3]
        return (
            gradients[0], gradients[1], gradients[2],
            real_shift_grad if given.real_shift_grad
            else zero_gradient(real_shift, given.real_shift),
            zero_gradient(drop_mask, given.drop_mask), zero_gradient(attn_mask, given.attn_mask),
            zero_gradient(prefix, given.prefix),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_seq_kvlen, given.actual_seq_kvlen),
            gradients[4] if given.sink else sink, zero_gradient(q_start_idx, given.q_start_idx),
            zero_gradient(kv_start_idx, given.kv_start_idx),
        )

    return bprop


class FlashAttentionScoreArguments(NamedTuple):
    """Arguments of the aclnn function of FlashAttentionScore that the host knows."""

    real_shift_optional: Any
    drop_mask_optional: Any
    atten_mask_optional: Any
    prefix_optional: Any
    actual_seq_q_len_optional: Any
    actual_seq_kv_len_optional: Any
    q_start_idx_optional: Any
    kv_start_idx_optional: Any
    sink_optional: Any
    scale_value: Any
    keep_prob: Any
    pre_tokens: Any
    next_tokens: Any
    head_num: Any
    input_layout: Any
    sparse_mode: Any
    pse_type: Any


def aclnn_flash_attention_score(custom: Any, c: FlashAttentionScoreArguments) -> Any:
    """Make a function of the inputs of FlashAttentionScore."""

    def call(
        query: Any, key: Any, value: Any, real_shift: Any, drop_mask: Any, attn_mask: Any,
        prefix: Any, actual_seq_qlen: Any, actual_seq_kvlen: Any, sink: Any, q_start_idx: Any,
        kv_start_idx: Any,
    ) -> Any:
        out = custom(
            query, key, value, real_shift if c.real_shift_optional else None,
            drop_mask if c.drop_mask_optional else None,
            None,  # padding_mask_optional
            attn_mask if c.atten_mask_optional else None, host_list(prefix, c.prefix_optional),
            host_list(actual_seq_qlen, c.actual_seq_q_len_optional),
            host_list(actual_seq_kvlen, c.actual_seq_kv_len_optional),
            host_list(q_start_idx, c.q_start_idx_optional),
            host_list(kv_start_idx, c.kv_start_idx_optional), sink if c.sink_optional else None,
            c.scale_value, c.keep_prob, c.pre_tokens, c.next_tokens, c.head_num, c.input_layout,
            0,  # inner_precise
            c.sparse_mode, c.pse_type,
        )
        return (out[3], out[0], out[1])

    return call


def aclnn_bprop_of_flash_attention_score(bprop: Any, c: FlashAttentionScoreArguments) -> Any:
    """Make the bprop of the aclnn function from that of FlashAttentionScore."""
    placeholder = absent()

    def backward(
        query: Any, key: Any, value: Any, real_shift_optional: Any, drop_mask_optional: Any,
        padding_mask_optional: Any, atten_mask_optional: Any, prefix_optional: Any,
        actual_seq_q_len_optional: Any, actual_seq_kv_len_optional: Any, q_start_idx_optional: Any,
        kv_start_idx_optional: Any, sink_optional: Any, scale_value: Any, keep_prob: Any,
        pre_tokens: Any, next_tokens: Any, head_num: Any, input_layout: Any, inner_precise: Any,
        sparse_mode: Any, pse_type: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            query, key, value, real_shift_optional if c.real_shift_optional else placeholder,
            drop_mask_optional if c.drop_mask_optional else placeholder,
            atten_mask_optional if c.atten_mask_optional else placeholder,
            prefix_optional if c.prefix_optional else placeholder,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional else placeholder,
            actual_seq_kv_len_optional if c.actual_seq_kv_len_optional else placeholder,
            sink_optional if c.sink_optional else placeholder,
            q_start_idx_optional if c.q_start_idx_optional else placeholder,
            kv_start_idx_optional if c.kv_start_idx_optional else placeholder,
            (out[3], out[0], out[1]), (dout[3], dout[0], dout[1]),
        )
        return (
            gradients[0], gradients[1], gradients[2],
            gradients[3] if c.real_shift_optional else real_shift_optional,
            gradients[4] if c.drop_mask_optional else drop_mask_optional, padding_mask_optional,
            gradients[5] if c.atten_mask_optional else atten_mask_optional,
            gradients[6] if c.prefix_optional else prefix_optional,
            gradients[7] if c.actual_seq_q_len_optional else actual_seq_q_len_optional,
            gradients[8] if c.actual_seq_kv_len_optional else actual_seq_kv_len_optional,
            gradients[10] if c.q_start_idx_optional else q_start_idx_optional,
            gradients[11] if c.kv_start_idx_optional else kv_start_idx_optional,
            gradients[9] if c.sink_optional else sink_optional, scale_value, keep_prob, pre_tokens,
            next_tokens, head_num, input_layout, inner_precise, sparse_mode, pse_type,
        )

    return backward


class FlashAttentionScoreGradArguments(NamedTuple):
    """Arguments of the aclnn function of FlashAttentionScoreGrad that the host knows."""

    pse_shift_optional: Any
    drop_mask_optional: Any
    atten_mask_optional: Any
    prefix_optional: Any
    actual_seq_q_len_optional: Any
    actual_seq_kv_len_optional: Any
    q_start_idx_optional: Any
    kv_start_idx_optional: Any
    sink_optional: Any
    q_offset_optional: Any
    softmax_sum_grad_optional: Any
    scale_value: Any
    keep_prob: Any
    pre_tokens: Any
    next_tokens: Any
    head_num: Any
    input_layout: Any
    sparse_mode: Any
    pse_type: Any
    compress_block_size: Any
    compress_stride: Any
    pse_grad: Any


def aclnn_flash_attention_score_grad(custom: Any, c: FlashAttentionScoreGradArguments) -> Any:
    """Make a function of the inputs of FlashAttentionScoreGrad."""

    def call(
        query: Any, key: Any, value: Any, dy: Any, real_shift: Any, drop_mask: Any, attn_mask: Any,
        softmax_max: Any, softmax_sum: Any, attention_in: Any, prefix: Any, actual_seq_qlen: Any,
        actual_seq_kvlen: Any, sink: Any, q_offset: Any, softmax_sum_grad: Any, q_start_idx: Any,
        kv_start_idx: Any,
    ) -> Any:
        out = custom(
            query,
            key,  # key_in
            value, dy, real_shift if c.pse_shift_optional else None,
            drop_mask if c.drop_mask_optional else None,
            None,  # padding_mask_optional
            attn_mask if c.atten_mask_optional else None,
            softmax_max,  # softmax_max_optional
            softmax_sum,  # softmax_sum_optional
            None,  # softmax_in_optional
            attention_in,  # attention_in_optional
            host_list(prefix, c.prefix_optional),
            host_list(actual_seq_qlen, c.actual_seq_q_len_optional),
            host_list(actual_seq_kvlen, c.actual_seq_kv_len_optional),
            host_list(q_start_idx, c.q_start_idx_optional),
            host_list(kv_start_idx, c.kv_start_idx_optional), sink if c.sink_optional else None,
            host_list(q_offset, c.q_offset_optional),
            softmax_sum_grad if c.softmax_sum_grad_optional else None, c.scale_value, c.keep_prob,
            c.pre_tokens, c.next_tokens, c.head_num, c.input_layout,
            0,  # inner_precise
            c.sparse_mode, c.pse_type, c.compress_block_size, c.compress_stride, c.pse_grad,
        )
        return (out[0], out[1], out[2], out[3], out[4])

    return call


def aclnn_bprop_of_flash_attention_score_grad(
    bprop: Any, c: FlashAttentionScoreGradArguments,
) -> Any:
    """Make the bprop of the aclnn function from that of FlashAttentionScoreGrad."""
    placeholder = absent()

    def backward(
        query: Any, key_in: Any, value: Any, dy: Any, pse_shift_optional: Any,
        drop_mask_optional: Any, padding_mask_optional: Any, atten_mask_optional: Any,
        softmax_max_optional: Any, softmax_sum_optional: Any, softmax_in_optional: Any,
        attention_in_optional: Any, prefix_optional: Any, actual_seq_q_len_optional: Any,
        actual_seq_kv_len_optional: Any, q_start_idx_optional: Any, kv_start_idx_optional: Any,
        sink_optional: Any, q_offset_optional: Any, softmax_sum_grad_optional: Any,
        scale_value: Any, keep_prob: Any, pre_tokens: Any, next_tokens: Any, head_num: Any,
        input_layout: Any, inner_precise: Any, sparse_mode: Any, pse_type: Any,
        compress_block_size: Any, compress_stride: Any, pse_grad: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            query, key_in, value, dy, pse_shift_optional if c.pse_shift_optional else placeholder,
            drop_mask_optional if c.drop_mask_optional else placeholder,
            atten_mask_optional if c.atten_mask_optional else placeholder, softmax_max_optional,
            softmax_sum_optional, attention_in_optional,
            prefix_optional if c.prefix_optional else placeholder,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional else placeholder,
            actual_seq_kv_len_optional if c.actual_seq_kv_len_optional else placeholder,
            sink_optional if c.sink_optional else placeholder,
            q_offset_optional if c.q_offset_optional else placeholder,
            softmax_sum_grad_optional if c.softmax_sum_grad_optional else placeholder,
            q_start_idx_optional if c.q_start_idx_optional else placeholder,
            kv_start_idx_optional if c.kv_start_idx_optional else placeholder,
            (out[0], out[1], out[2], out[3], out[4]), (dout[0], dout[1], dout[2], dout[3], dout[4]),
        )
        return (
            gradients[0], gradients[1], gradients[2], gradients[3],
            gradients[4] if c.pse_shift_optional else pse_shift_optional,
            gradients[5] if c.drop_mask_optional else drop_mask_optional, padding_mask_optional,
            gradients[6] if c.atten_mask_optional else atten_mask_optional, gradients[7],
            gradients[8], softmax_in_optional, gradients[9],
            gradients[10] if c.prefix_optional else prefix_optional,
            gradients[11] if c.actual_seq_q_len_optional else actual_seq_q_len_optional,
            gradients[12] if c.actual_seq_kv_len_optional else actual_seq_kv_len_optional,
            gradients[16] if c.q_start_idx_optional else q_start_idx_optional,
            gradients[17] if c.kv_start_idx_optional else kv_start_idx_optional,
            gradients[13] if c.sink_optional else sink_optional,
            gradients[14] if c.q_offset_optional else q_offset_optional,
            gradients[15] if c.softmax_sum_grad_optional else softmax_sum_grad_optional,
            scale_value, keep_prob, pre_tokens, next_tokens, head_num, input_layout, inner_precise,
            sparse_mode, pse_type, compress_block_size, compress_stride, pse_grad,
        )

    return backward


STAND_INS: dict[str, Any] = {
    "FlashAttentionScore": FlashAttentionScoreStandIns,
}
GIVEN: dict[str, Any] = {
    "FlashAttentionScore": FlashAttentionScoreGiven,
}
ACLNN: dict[str, tuple[Any, Any, Any]] = {
    "FlashAttentionScore": (
        FlashAttentionScoreArguments, aclnn_flash_attention_score,
        aclnn_bprop_of_flash_attention_score,
    ),
    "FlashAttentionScoreGrad": (
        FlashAttentionScoreGradArguments, aclnn_flash_attention_score_grad,
        aclnn_bprop_of_flash_attention_score_grad,
    ),
}
