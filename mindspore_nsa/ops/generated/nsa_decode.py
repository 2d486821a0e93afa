"""Calls of NsaDecode.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._custom import absent
from .._operands import in_dtype, listed, passed


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
    operator: Any, c: NsaDecodeStandIns, query: Tensor, gates: Tensor, key_cmp: Tensor,
    value_cmp: Tensor, key_slc: Tensor, value_slc: Tensor, key_win: Tensor, value_win: Tensor,
    block_table: Any, cmp_block_table: Any, actual_seq_qlen: Any, actual_seq_kvlen: Any,
) -> Any:
    """Call NsaDecode."""
    (
        query_dtype, gates_dtype, key_cmp_dtype, value_cmp_dtype, key_slc_dtype, value_slc_dtype,
        key_win_dtype, value_win_dtype, block_table_stand_in, cmp_block_table_stand_in,
        actual_seq_qlen_stand_in, actual_seq_kvlen_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(gates, gates_dtype),
        in_dtype(key_cmp, key_cmp_dtype), in_dtype(value_cmp, value_cmp_dtype),
        in_dtype(key_slc, key_slc_dtype), in_dtype(value_slc, value_slc_dtype),
        in_dtype(key_win, key_win_dtype), in_dtype(value_win, value_win_dtype),
        passed(block_table, block_table_stand_in),
        passed(cmp_block_table, cmp_block_table_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in),
    )


class NsaDecodeArguments(NamedTuple):
    """Arguments of the aclnn function of NsaDecode that the host knows."""

    block_table_optional: Any
    cmp_block_table_optional: Any
    actual_seq_q_len_optional: Any
    actual_seq_kv_len: Any
    scale_value: Any
    head_num: Any
    compress_block_size: Any
    compress_stride: Any
    select_block_size: Any
    select_block_count: Any
    window_size: Any
    layout: Any
    cache_layout: Any
    init_blocks: Any
    local_blocks: Any
    importance: Any


def aclnn_nsa_decode(custom: Any, c: NsaDecodeArguments) -> Any:
    """Make a function of the inputs of NsaDecode."""

    def call(
        query: Any, gates: Any, key_cmp: Any, value_cmp: Any, key_slc: Any, value_slc: Any,
        key_win: Any, value_win: Any, block_table: Any, cmp_block_table: Any, actual_seq_qlen: Any,
        actual_seq_kvlen: Any,
    ) -> Any:
        out = custom(
            query, gates, key_cmp, value_cmp, key_slc, value_slc, key_win, value_win,
            block_table if c.block_table_optional else None,
            cmp_block_table if c.cmp_block_table_optional else None,
            listed(actual_seq_qlen, c.actual_seq_q_len_optional),
            listed(actual_seq_kvlen, c.actual_seq_kv_len), c.scale_value, c.head_num,
            c.compress_block_size, c.compress_stride, c.select_block_size, c.select_block_count,
            c.window_size, c.layout, c.cache_layout, c.init_blocks, c.local_blocks, c.importance,
        )
        return out

    return call


def aclnn_bprop_of_nsa_decode(bprop: Any, c: NsaDecodeArguments) -> Any:
    """Make the bprop of the aclnn function from that of NsaDecode."""
    placeholder = absent()

    def backward(
        query: Any, gates: Any, key_cmp: Any, value_cmp: Any, key_slc: Any, value_slc: Any,
        key_win: Any, value_win: Any, block_table_optional: Any, cmp_block_table_optional: Any,
        actual_seq_q_len_optional: Any, actual_seq_kv_len: Any, scale_value: Any, head_num: Any,
        compress_block_size: Any, compress_stride: Any, select_block_size: Any,
        select_block_count: Any, window_size: Any, layout: Any, cache_layout: Any, init_blocks: Any,
        local_blocks: Any, importance: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = bprop(
            query, gates, key_cmp, value_cmp, key_slc, value_slc, key_win, value_win,
            block_table_optional if c.block_table_optional else placeholder,
            cmp_block_table_optional if c.cmp_block_table_optional else placeholder,
            actual_seq_q_len_optional if c.actual_seq_q_len_optional is not None else placeholder,
            actual_seq_kv_len if c.actual_seq_kv_len is not None else placeholder, out, dout,
        )
        return (
            gradients[0], gradients[1], gradients[2], gradients[3], gradients[4], gradients[5],
            gradients[6], gradients[7],
            gradients[8] if c.block_table_optional else block_table_optional,
            gradients[9] if c.cmp_block_table_optional else cmp_block_table_optional,
            gradients[10] if c.actual_seq_q_len_optional is not None else actual_seq_q_len_optional,
            gradients[11] if c.actual_seq_kv_len is not None else actual_seq_kv_len, scale_value,
            head_num, compress_block_size, compress_stride, select_block_size, select_block_count,
            window_size, layout, cache_layout, init_blocks, local_blocks, importance,
        )

    return backward


STAND_INS: dict[str, Any] = {
    "NsaDecode": NsaDecodeStandIns,
}
GIVEN: dict[str, Any] = {}
ACLNN: dict[str, tuple[Any, Any, Any]] = {
    "NsaDecode": (NsaDecodeArguments, aclnn_nsa_decode, aclnn_bprop_of_nsa_decode),
}
