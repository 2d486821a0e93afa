"""Calls of NsaSelectedAttentionInfer.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._custom import absent
from .._operands import in_dtype, listed, passed


class NsaSelectedAttentionInferStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of NsaSelectedAttentionInfer."""

    query_dtype: Any
    key_dtype: Any
    value_dtype: Any
    block_table: Any
    actual_seq_qlen: Any
    actual_seq_kvlen: Any


def call_nsa_selected_attention_infer(
    operator: Any, c: NsaSelectedAttentionInferStandIns, query: Tensor, key: Tensor, value: Tensor,
    topk_indices: Tensor, block_table: Any, actual_seq_qlen: Any, actual_seq_kvlen: Any,
) -> Any:
    """Call NsaSelectedAttentionInfer."""
    (
        query_dtype, key_dtype, value_dtype, block_table_stand_in, actual_seq_qlen_stand_in,
        actual_seq_kvlen_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype), in_dtype(value, value_dtype),
        topk_indices, passed(block_table, block_table_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in),
    )


class NsaSelectedAttentionInferArguments(NamedTuple):
    """Arguments of the aclnn function of NsaSelectedAttentionInfer that the host knows."""

    block_table_optional: Any
    actual_seq_q_len_optional: Any
    actual_seq_kv_len: Any
    scale_value: Any
    head_num: Any
    key_value_head_num: Any
    select_block_size: Any
    select_block_count: Any
    page_block_size: Any
    layout: Any


def aclnn_nsa_selected_attention_infer(custom: Any, c: NsaSelectedAttentionInferArguments) -> Any:
    """Make a function of the inputs of NsaSelectedAttentionInfer."""

    def call(
        query: Any, key: Any, value: Any, topk_indices: Any, block_table: Any, actual_seq_qlen: Any,
        actual_seq_kvlen: Any,
    ) -> Any:
        out = custom(
            query, key, value, topk_indices, block_table if c.block_table_optional else None,
            listed(actual_seq_qlen, c.actual_seq_q_len_optional),
            listed(actual_seq_kvlen, c.actual_seq_kv_len), c.scale_value, c.head_num,
            c.key_value_head_num, c.select_block_size, c.select_block_count, c.page_block_size,
            c.layout,
        )
        return out

    return call


def aclnn_bprop_of_nsa_selected_attention_infer(
    bprop: Any, c: NsaSelectedAttentionInferArguments,
) -> Any:
    """Make the bprop of the aclnn function from that of NsaSelectedAttentionInfer."""
    placeholder = absent()

    def backward(
        query: Any, key: Any, value: Any, topk_indices: Any, block_table_optional: Any,
        actual_seq_q_len_optional: Any, actual_seq_kv_len: Any, scale_value: Any, head_num: Any,
        key_value_head_num: Any, select_block_size: Any, select_block_count: Any,
        page_block_size: Any, layout: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            query, key, value, topk_indices,
            block_table_optional if c.block_table_optional else placeholder,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional is not None else placeholder,
            actual_seq_kv_len if c.actual_seq_kv_len is not None else placeholder, out, dout,
        )
        return (
            gradients[0], gradients[1], gradients[2], gradients[3],
            gradients[4] if c.block_table_optional else block_table_optional,
            gradients[5] if c.actual_seq_q_len_optional is not None else actual_seq_q_len_optional,
            gradients[6] if c.actual_seq_kv_len is not None else actual_seq_kv_len, scale_value,
            head_num, key_value_head_num, select_block_size, select_block_count, page_block_size,
            layout,
        )

    return backward


STAND_INS: dict[str, Any] = {
    "NsaSelectedAttentionInfer": NsaSelectedAttentionInferStandIns,
}
GIVEN: dict[str, Any] = {}
ACLNN: dict[str, tuple[Any, Any, Any]] = {
    "NsaSelectedAttentionInfer": (
        NsaSelectedAttentionInferArguments, aclnn_nsa_selected_attention_infer,
        aclnn_bprop_of_nsa_selected_attention_infer,
    ),
}
