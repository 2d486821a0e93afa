"""Calls of NsaCompressAttentionInfer.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._custom import absent
from .._operands import in_dtype, listed, passed


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
    operator: Any, c: NsaCompressAttentionInferStandIns, query: Tensor, key: Tensor, value: Tensor,
    block_table: Any, actual_seq_qlen: Any, actual_cmp_seq_kvlen: Any, actual_sel_seq_kvlen: Any,
) -> Any:
    """Call NsaCompressAttentionInfer."""
    (
        query_dtype, key_dtype, value_dtype, block_table_stand_in, actual_seq_qlen_stand_in,
        actual_cmp_seq_kvlen_stand_in, actual_sel_seq_kvlen_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype), in_dtype(value, value_dtype),
        passed(block_table, block_table_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_cmp_seq_kvlen, actual_cmp_seq_kvlen_stand_in),
        passed(actual_sel_seq_kvlen, actual_sel_seq_kvlen_stand_in),
    )


class NsaCompressAttentionInferArguments(NamedTuple):
    """Arguments of the aclnn function of NsaCompressAttentionInfer that the host knows."""

    block_table_optional: Any
    actual_seq_q_len_optional: Any
    actual_cmp_seq_kv_len: Any
    actual_sel_seq_kv_len_optional: Any
    scale_value: Any
    head_num: Any
    key_value_head_num: Any
    select_block_size: Any
    select_block_count: Any
    page_block_size: Any
    compress_block_size: Any
    compress_stride: Any
    layout: Any
    init_blocks: Any
    local_blocks: Any
    importance: Any


def aclnn_nsa_compress_attention_infer(custom: Any, c: NsaCompressAttentionInferArguments) -> Any:
    """Make a function of the inputs of NsaCompressAttentionInfer."""

    def call(
        query: Any, key: Any, value: Any, block_table: Any, actual_seq_qlen: Any,
        actual_cmp_seq_kvlen: Any, actual_sel_seq_kvlen: Any,
    ) -> Any:
        out = custom(
            query, key, value, block_table if c.block_table_optional else None,
            listed(actual_seq_qlen, c.actual_seq_q_len_optional),
            listed(actual_cmp_seq_kvlen, c.actual_cmp_seq_kv_len),
            listed(actual_sel_seq_kvlen, c.actual_sel_seq_kv_len_optional), c.scale_value,
            c.head_num, c.key_value_head_num, c.select_block_size, c.select_block_count,
            c.page_block_size, c.compress_block_size, c.compress_stride, c.layout, c.init_blocks,
            c.local_blocks, c.importance,
        )
        return (out[0], out[1])

    return call


def aclnn_bprop_of_nsa_compress_attention_infer(
    bprop: Any, c: NsaCompressAttentionInferArguments,
) -> Any:
    """Make the bprop of the aclnn function from that of NsaCompressAttentionInfer."""
    placeholder = absent()

    def backward(
        query: Any, key: Any, value: Any, block_table_optional: Any, actual_seq_q_len_optional: Any,
        actual_cmp_seq_kv_len: Any, actual_sel_seq_kv_len_optional: Any, scale_value: Any,
        head_num: Any, key_value_head_num: Any, select_block_size: Any, select_block_count: Any,
        page_block_size: Any, compress_block_size: Any, compress_stride: Any, layout: Any,
        init_blocks: Any, local_blocks: Any, importance: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            query, key, value, block_table_optional if c.block_table_optional else placeholder,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional is not None else placeholder,
            actual_cmp_seq_kv_len if c.actual_cmp_seq_kv_len is not None else placeholder,
            actual_sel_seq_kv_len_optional if c.actual_sel_seq_kv_len_optional is not None
            else placeholder,
            (out[0], out[1]), (dout[0], dout[1]),
        )
        return (
            gradients[0], gradients[1], gradients[2],
            gradients[3] if c.block_table_optional else block_table_optional,
            gradients[4] if c.actual_seq_q_len_optional is not None else actual_seq_q_len_optional,
            gradients[5] if c.actual_cmp_seq_kv_len is not None else actual_cmp_seq_kv_len,
            gradients[6] if c.actual_sel_seq_kv_len_optional is not None
            else actual_sel_seq_kv_len_optional,
            scale_value, head_num, key_value_head_num, select_block_size, select_block_count,
            page_block_size, compress_block_size, compress_stride, layout, init_blocks,
            local_blocks, importance,
        )

    return backward


STAND_INS: dict[str, Any] = {
    "NsaCompressAttentionInfer": NsaCompressAttentionInferStandIns,
}
GIVEN: dict[str, Any] = {}
ACLNN: dict[str, tuple[Any, Any, Any]] = {
    "NsaCompressAttentionInfer": (
        NsaCompressAttentionInferArguments, aclnn_nsa_compress_attention_infer,
        aclnn_bprop_of_nsa_compress_attention_infer,
    ),
}
