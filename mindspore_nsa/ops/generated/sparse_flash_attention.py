"""Calls of SparseFlashAttention.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._by_device import zeros_like
from .._custom import absent
from .._operands import in_dtype, passed, zero_gradient


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
    operator: Any, c: SparseFlashAttentionStandIns, query: Tensor, key: Tensor, value: Tensor,
    sparse_indices: Tensor, query_rope: Any, key_rope: Any, sinks: Any,
    actual_seq_lengths_query: Any, actual_seq_lengths_kv: Any, block_table: Any,
) -> Any:
    """Call SparseFlashAttention."""
    (
        query_dtype, key_dtype, value_dtype, query_rope_dtype, query_rope_stand_in, key_rope_dtype,
        key_rope_stand_in, sinks_dtype, sinks_stand_in, actual_seq_lengths_query_stand_in,
        actual_seq_lengths_kv_stand_in, block_table_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype), in_dtype(value, value_dtype),
        sparse_indices, passed(in_dtype(query_rope, query_rope_dtype), query_rope_stand_in),
        passed(in_dtype(key_rope, key_rope_dtype), key_rope_stand_in),
        passed(in_dtype(sinks, sinks_dtype), sinks_stand_in),
        passed(actual_seq_lengths_query, actual_seq_lengths_query_stand_in),
        passed(actual_seq_lengths_kv, actual_seq_lengths_kv_stand_in),
        passed(block_table, block_table_stand_in),
    )


class SparseFlashAttentionGiven(NamedTuple):
    """Inputs that the bprop of SparseFlashAttention is given."""

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
        query: Any, key: Any, value: Any, sparse_indices: Any, query_rope: Any, key_rope: Any,
        sinks: Any, actual_seq_lengths_query: Any, actual_seq_lengths_kv: Any, block_table: Any,
        out: Any, dout: Any,
    ) -> Any:
        gradients = gradient(
            query, key, value, sparse_indices,
            out[0],  # attention_out
            dout[0],  # attention_out_grad
            query_rope, key_rope, sinks, actual_seq_lengths_query, actual_seq_lengths_kv,
            dout[2] if given.softmax_sum_grad else nothing,
        )
        return (
            gradients[0], gradients[1], gradients[2], zeros_like(sparse_indices),
            gradients[3] if given.query_rope else query_rope,
            gradients[4] if given.key_rope else key_rope, gradients[5] if given.sinks else sinks,
            zero_gradient(actual_seq_lengths_query, given.actual_seq_lengths_query),
            zero_gradient(actual_seq_lengths_kv, given.actual_seq_lengths_kv),
            zero_gradient(block_table, given.block_table),
        )

    return bprop


STAND_INS: dict[str, Any] = {
    "SparseFlashAttention": SparseFlashAttentionStandIns,
}
GIVEN: dict[str, Any] = {
    "SparseFlashAttention": SparseFlashAttentionGiven,
}
ACLNN: dict[str, tuple[Any, Any, Any]] = {}
