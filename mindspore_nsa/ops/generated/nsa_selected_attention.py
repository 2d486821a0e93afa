"""Calls of NsaSelectedAttention and NsaSelectedAttentionGrad.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._by_device import zeros_like
from .._custom import absent
from .._operands import host_list, in_dtype, passed, zero_gradient


class NsaSelectedAttentionStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaSelectedAttention."""

    query_dtype: Any
    key_dtype: Any
    value_dtype: Any
    actual_seq_qlen: Any
    actual_seq_kvlen: Any
    q_offset: Any


def call_nsa_selected_attention(
    operator: Any, c: NsaSelectedAttentionStandIns, query: Tensor, key: Tensor, value: Tensor,
    topk_indices: Tensor, actual_seq_qlen: Any, actual_seq_kvlen: Any, q_offset: Any,
) -> Any:
    """Call NsaSelectedAttention."""
    (
        query_dtype, key_dtype, value_dtype, actual_seq_qlen_stand_in, actual_seq_kvlen_stand_in,
        q_offset_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype), in_dtype(value, value_dtype),
        topk_indices, passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in), passed(q_offset, q_offset_stand_in),
    )


class NsaSelectedAttentionGiven(NamedTuple):
    """Inputs that the bprop of NsaSelectedAttention is given."""

    actual_seq_qlen: bool
    actual_seq_kvlen: bool
    q_offset: bool
    softmax_sum_grad: bool


def bprop_of_nsa_selected_attention(gradient: Any, given: NsaSelectedAttentionGiven) -> Any:
    """Make the bprop of NsaSelectedAttention from NsaSelectedAttentionGrad."""
    nothing = absent()

    def bprop(
        query: Any, key: Any, value: Any, topk_indices: Any, actual_seq_qlen: Any,
        actual_seq_kvlen: Any, q_offset: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = gradient(
            query, key, value,
            out[0],  # attention_out
            dout[0],  # attention_out_grad
            out[1],  # softmax_max
            out[2],  # softmax_sum
            topk_indices, actual_seq_qlen, actual_seq_kvlen, q_offset,
            dout[2] if given.softmax_sum_grad else nothing,
        )
        return (
            gradients[0], gradients[1], gradients[2], zeros_like(topk_indices),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_seq_kvlen, given.actual_seq_kvlen),
            zero_gradient(q_offset, given.q_offset),
        )

    return bprop


class NsaSelectedAttentionArguments(NamedTuple):
    """Arguments of the aclnn function of NsaSelectedAttention that the host knows."""

    actual_seq_q_len_optional: Any
    actual_seq_kv_len_optional: Any
    q_offset_optional: Any
    scale_value: Any
    head_num: Any
    sparse_mode: Any
    selected_block_size: Any
    selected_block_count: Any


def aclnn_nsa_selected_attention(custom: Any, c: NsaSelectedAttentionArguments) -> Any:
    """Make a function of the inputs of NsaSelectedAttention."""

    def call(
        query: Any, key: Any, value: Any, topk_indices: Any, actual_seq_qlen: Any,
        actual_seq_kvlen: Any, q_offset: Any,
    ) -> Any:
        out = custom(
            query, key, value, topk_indices,
            None,  # atten_mask_optional
            host_list(actual_seq_qlen, c.actual_seq_q_len_optional),
            host_list(actual_seq_kvlen, c.actual_seq_kv_len_optional),
            host_list(q_offset, c.q_offset_optional), c.scale_value, c.head_num,
            "TND",  # input_layout_optional
            c.sparse_mode, c.selected_block_size, c.selected_block_count,
        )
        return (out[2], out[0], out[1])

    return call


def aclnn_bprop_of_nsa_selected_attention(bprop: Any, c: NsaSelectedAttentionArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaSelectedAttention."""
    placeholder = absent()

    def backward(
        query: Any, key: Any, value: Any, topk_indices: Any, atten_mask_optional: Any,
        actual_seq_q_len_optional: Any, actual_seq_kv_len_optional: Any, q_offset_optional: Any,
        scale_value: Any, head_num: Any, input_layout_optional: Any, sparse_mode: Any,
        selected_block_size: Any, selected_block_count: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            query, key, value, topk_indices,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional else placeholder,
            actual_seq_kv_len_optional if c.actual_seq_kv_len_optional else placeholder,
            q_offset_optional if c.q_offset_optional else placeholder, (out[2], out[0], out[1]),
            (dout[2], dout[0], dout[1]),
        )
        return (
            gradients[0], gradients[1], gradients[2], gradients[3], atten_mask_optional,
            gradients[4] if c.actual_seq_q_len_optional else actual_seq_q_len_optional,
            gradients[5] if c.actual_seq_kv_len_optional else actual_seq_kv_len_optional,
            gradients[6] if c.q_offset_optional else q_offset_optional, scale_value, head_num,
            input_layout_optional, sparse_mode, selected_block_size, selected_block_count,
        )

    return backward


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
    operator: Any, c: NsaSelectedAttentionGradStandIns, query: Tensor, key: Tensor, value: Tensor,
    attention_out: Tensor, attention_out_grad: Tensor, softmax_max: Tensor, softmax_sum: Tensor,
    topk_indices: Tensor, actual_seq_qlen: Any, actual_seq_kvlen: Any, q_offset: Any,
    softmax_sum_grad: Any,
) -> Any:
    """Call NsaSelectedAttentionGrad."""
    (
        query_dtype, key_dtype, value_dtype, attention_out_dtype, attention_out_grad_dtype,
        softmax_max_dtype, softmax_sum_dtype, actual_seq_qlen_stand_in, actual_seq_kvlen_stand_in,
        q_offset_stand_in, softmax_sum_grad_dtype, softmax_sum_grad_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype), in_dtype(value, value_dtype),
        in_dtype(attention_out, attention_out_dtype),
        in_dtype(attention_out_grad, attention_out_grad_dtype),
        in_dtype(softmax_max, softmax_max_dtype), in_dtype(softmax_sum, softmax_sum_dtype),
        topk_indices, passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in), passed(q_offset, q_offset_stand_in),
        passed(in_dtype(softmax_sum_grad, softmax_sum_grad_dtype), softmax_sum_grad_stand_in),
    )


class NsaSelectedAttentionGradArguments(NamedTuple):
    """Arguments of the aclnn function of NsaSelectedAttentionGrad that the host knows."""

    actual_seq_q_len_optional: Any
    actual_seq_kv_len_optional: Any
    q_offset_optional: Any
    softmax_sum_grad_optional: Any
    scale_value: Any
    selected_block_size: Any
    selected_block_count: Any
    head_num: Any
    sparse_mode: Any


def aclnn_nsa_selected_attention_grad(custom: Any, c: NsaSelectedAttentionGradArguments) -> Any:
    """Make a function of the inputs of NsaSelectedAttentionGrad."""

    def call(
        query: Any, key: Any, value: Any, attention_out: Any, attention_out_grad: Any,
        softmax_max: Any, softmax_sum: Any, topk_indices: Any, actual_seq_qlen: Any,
        actual_seq_kvlen: Any, q_offset: Any, softmax_sum_grad: Any,
    ) -> Any:
        out = custom(
            query, key, value, attention_out, attention_out_grad, softmax_max, softmax_sum,
            topk_indices, host_list(actual_seq_qlen, c.actual_seq_q_len_optional),
            host_list(actual_seq_kvlen, c.actual_seq_kv_len_optional),
            None,  # atten_mask_optional
            host_list(q_offset, c.q_offset_optional),
            softmax_sum_grad if c.softmax_sum_grad_optional else None, c.scale_value,
            c.selected_block_size, c.selected_block_count, c.head_num,
            "TND",  # input_layout_optional
            c.sparse_mode,
        )
        return (out[0], out[1], out[2])

    return call


def aclnn_bprop_of_nsa_selected_attention_grad(
    bprop: Any, c: NsaSelectedAttentionGradArguments,
) -> Any:
    """Make the bprop of the aclnn function from that of NsaSelectedAttentionGrad."""
    placeholder = absent()

    def backward(
        query: Any, key: Any, value: Any, attention_out: Any, attention_out_grad: Any,
        softmax_max: Any, softmax_sum: Any, topk_indices: Any, actual_seq_q_len_optional: Any,
        actual_seq_kv_len_optional: Any, atten_mask_optional: Any, q_offset_optional: Any,
        softmax_sum_grad_optional: Any, scale_value: Any, selected_block_size: Any,
        selected_block_count: Any, head_num: Any, input_layout_optional: Any, sparse_mode: Any,
        out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            query, key, value, attention_out, attention_out_grad, softmax_max, softmax_sum,
            topk_indices, actual_seq_q_len_optional if c.actual_seq_q_len_optional else placeholder,
            actual_seq_kv_len_optional if c.actual_seq_kv_len_optional else placeholder,
            q_offset_optional if c.q_offset_optional else placeholder,
            softmax_sum_grad_optional if c.softmax_sum_grad_optional else placeholder,
            (out[0], out[1], out[2]), (dout[0], dout[1], dout[2]),
        )
        return (
            gradients[0], gradients[1], gradients[2], gradients[3], gradients[4], gradients[5],
            gradients[6], gradients[7],
            gradients[8] if c.actual_seq_q_len_optional else actual_seq_q_len_optional,
            gradients[9] if c.actual_seq_kv_len_optional else actual_seq_kv_len_optional,
            atten_mask_optional, gradients[10] if c.q_offset_optional else q_offset_optional,
            gradients[11] if c.softmax_sum_grad_optional else softmax_sum_grad_optional,
            scale_value, selected_block_size, selected_block_count, head_num, input_layout_optional,
            sparse_mode,
        )

    return backward


STAND_INS: dict[str, Any] = {
    "NsaSelectedAttention": NsaSelectedAttentionStandIns,
    "NsaSelectedAttentionGrad": NsaSelectedAttentionGradStandIns,
}
GIVEN: dict[str, Any] = {
    "NsaSelectedAttention": NsaSelectedAttentionGiven,
}
ACLNN: dict[str, tuple[Any, Any, Any]] = {
    "NsaSelectedAttention": (
        NsaSelectedAttentionArguments, aclnn_nsa_selected_attention,
        aclnn_bprop_of_nsa_selected_attention,
    ),
    "NsaSelectedAttentionGrad": (
        NsaSelectedAttentionGradArguments, aclnn_nsa_selected_attention_grad,
        aclnn_bprop_of_nsa_selected_attention_grad,
    ),
}
