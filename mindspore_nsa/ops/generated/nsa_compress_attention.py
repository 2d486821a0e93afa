"""Calls of NsaCompressAttention.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._custom import absent
from .._operands import host_list, in_dtype, passed, zero_gradient


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
    operator: Any, c: NsaCompressAttentionStandIns, query: Tensor, key: Tensor, value: Tensor,
    topk_mask: Any, atten_mask: Any, actual_seq_qlen: Any, actual_cmp_seq_kvlen: Any,
    actual_sel_seq_kvlen: Any, q_offset: Any,
) -> Any:
    """Call NsaCompressAttention."""
    (
        query_dtype, key_dtype, value_dtype, topk_mask_stand_in, atten_mask_stand_in,
        actual_seq_qlen_stand_in, actual_cmp_seq_kvlen_stand_in, actual_sel_seq_kvlen_stand_in,
        q_offset_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype), in_dtype(value, value_dtype),
        passed(topk_mask, topk_mask_stand_in), passed(atten_mask, atten_mask_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_cmp_seq_kvlen, actual_cmp_seq_kvlen_stand_in),
        passed(actual_sel_seq_kvlen, actual_sel_seq_kvlen_stand_in),
        passed(q_offset, q_offset_stand_in),
    )


class NsaCompressAttentionGiven(NamedTuple):
    """Inputs that the bprop of NsaCompressAttention is given."""

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
        query: Any, key: Any, value: Any, topk_mask: Any, atten_mask: Any, actual_seq_qlen: Any,
        actual_cmp_seq_kvlen: Any, actual_sel_seq_kvlen: Any, q_offset: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = gradient(
            query, key, value,
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
            q_offset, dout[3] if given.softmax_sum_grad else nothing,
            no_list,  # q_start_idx
            no_list,  # kv_start_idx
        )
        return (
            gradients[0], gradients[1], gradients[2], zero_gradient(topk_mask, given.topk_mask),
            zero_gradient(atten_mask, given.atten_mask),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_cmp_seq_kvlen, given.actual_cmp_seq_kvlen),
            zero_gradient(actual_sel_seq_kvlen, given.actual_sel_seq_kvlen),
            zero_gradient(q_offset, given.q_offset),
        )

    return bprop


class NsaCompressAttentionArguments(NamedTuple):
    """Arguments of the aclnn function of NsaCompressAttention that the host knows."""

    atten_mask_optional: Any
    topk_mask_optional: Any
    actual_seq_q_len_optional: Any
    actual_cmp_seq_kv_len_optional: Any
    actual_sel_seq_kv_len_optional: Any
    q_offset_optional: Any
    scale_value: Any
    head_num: Any
    compress_block_size: Any
    compress_stride: Any
    select_block_size: Any
    select_block_count: Any
    causal: Any
    init_blocks: Any
    local_blocks: Any
    importance: Any


def aclnn_nsa_compress_attention(custom: Any, c: NsaCompressAttentionArguments) -> Any:
    """Make a function of the inputs of NsaCompressAttention."""

    def call(
        query: Any, key: Any, value: Any, topk_mask: Any, atten_mask: Any, actual_seq_qlen: Any,
        actual_cmp_seq_kvlen: Any, actual_sel_seq_kvlen: Any, q_offset: Any,
    ) -> Any:
        out = custom(
            query, key, value, atten_mask if c.atten_mask_optional else None,
            topk_mask if c.topk_mask_optional else None,
            host_list(actual_seq_qlen, c.actual_seq_q_len_optional),
            host_list(actual_cmp_seq_kvlen, c.actual_cmp_seq_kv_len_optional),
            host_list(actual_sel_seq_kvlen, c.actual_sel_seq_kv_len_optional),
            host_list(q_offset, c.q_offset_optional), c.scale_value, c.head_num,
            "TND",  # input_layout_optional
            0,  # sparse_mode
            c.compress_block_size, c.compress_stride, c.select_block_size, c.select_block_count,
            c.causal, c.init_blocks, c.local_blocks, c.importance,
        )
        return (out[2], out[3], out[0], out[1])

    return call


def aclnn_bprop_of_nsa_compress_attention(bprop: Any, c: NsaCompressAttentionArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompressAttention."""
    placeholder = absent()

    def backward(
        query: Any, key: Any, value: Any, atten_mask_optional: Any, topk_mask_optional: Any,
        actual_seq_q_len_optional: Any, actual_cmp_seq_kv_len_optional: Any,
        actual_sel_seq_kv_len_optional: Any, q_offset_optional: Any, scale_value: Any,
        head_num: Any, input_layout_optional: Any, sparse_mode: Any, compress_block_size: Any,
        compress_stride: Any, select_block_size: Any, select_block_count: Any, causal: Any,
        init_blocks: Any, local_blocks: Any, importance: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            query, key, value, topk_mask_optional if c.topk_mask_optional else placeholder,
            atten_mask_optional if c.atten_mask_optional else placeholder,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional else placeholder,
            actual_cmp_seq_kv_len_optional if c.actual_cmp_seq_kv_len_optional else placeholder,
            actual_sel_seq_kv_len_optional if c.actual_sel_seq_kv_len_optional else placeholder,
            q_offset_optional if c.q_offset_optional else placeholder,
            (out[2], out[3], out[0], out[1]), (dout[2], dout[3], dout[0], dout[1]),
        )
        return (
            gradients[0], gradients[1], gradients[2],
            gradients[4] if c.atten_mask_optional else atten_mask_optional,
            gradients[3] if c.topk_mask_optional else topk_mask_optional,
            gradients[5] if c.actual_seq_q_len_optional else actual_seq_q_len_optional,
            gradients[6] if c.actual_cmp_seq_kv_len_optional else actual_cmp_seq_kv_len_optional,
            gradients[7] if c.actual_sel_seq_kv_len_optional else actual_sel_seq_kv_len_optional,
            gradients[8] if c.q_offset_optional else q_offset_optional, scale_value, head_num,
            input_layout_optional, sparse_mode, compress_block_size, compress_stride,
            select_block_size, select_block_count, causal, init_blocks, local_blocks, importance,
        )

    return backward


STAND_INS: dict[str, Any] = {
    "NsaCompressAttention": NsaCompressAttentionStandIns,
}
GIVEN: dict[str, Any] = {
    "NsaCompressAttention": NsaCompressAttentionGiven,
}
ACLNN: dict[str, tuple[Any, Any, Any]] = {
    "NsaCompressAttention": (
        NsaCompressAttentionArguments, aclnn_nsa_compress_attention,
        aclnn_bprop_of_nsa_compress_attention,
    ),
}
