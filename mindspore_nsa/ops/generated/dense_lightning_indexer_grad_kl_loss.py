"""Calls of DenseLightningIndexerGradKLLoss.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._by_device import zeros_like
from .._operands import in_dtype, passed, zero_gradient


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
    operator: Any, c: DenseLightningIndexerGradKLLossStandIns, query: Tensor, key: Tensor,
    query_index: Tensor, key_index: Tensor, weights: Tensor, softmax_max: Tensor,
    softmax_sum: Tensor, softmax_max_index: Tensor, softmax_sum_index: Tensor, query_rope: Any,
    key_rope: Any, actual_seq_qlen: Any, actual_seq_klen: Any,
) -> Any:
    """Call DenseLightningIndexerGradKLLoss."""
    (
        query_dtype, key_dtype, query_index_dtype, key_index_dtype, weights_dtype,
        softmax_max_dtype, softmax_sum_dtype, softmax_max_index_dtype, softmax_sum_index_dtype,
        query_rope_dtype, query_rope_stand_in, key_rope_dtype, key_rope_stand_in,
        actual_seq_qlen_stand_in, actual_seq_klen_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype),
        in_dtype(query_index, query_index_dtype), in_dtype(key_index, key_index_dtype),
        in_dtype(weights, weights_dtype), in_dtype(softmax_max, softmax_max_dtype),
        in_dtype(softmax_sum, softmax_sum_dtype),
        in_dtype(softmax_max_index, softmax_max_index_dtype),
        in_dtype(softmax_sum_index, softmax_sum_index_dtype),
        passed(in_dtype(query_rope, query_rope_dtype), query_rope_stand_in),
        passed(in_dtype(key_rope, key_rope_dtype), key_rope_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_klen, actual_seq_klen_stand_in),
    )


class DenseLightningIndexerGradKLLossGiven(NamedTuple):
    """Inputs that the bprop of DenseLightningIndexerGradKLLoss is given."""

    query_rope: bool
    key_rope: bool
    actual_seq_qlen: bool
    actual_seq_klen: bool


def bprop_of_dense_lightning_indexer_grad_kl_loss(
    gradient: Any, given: DenseLightningIndexerGradKLLossGiven,
) -> Any:
    """Make the bprop of DenseLightningIndexerGradKLLoss."""

    def bprop(
        query: Any, key: Any, query_index: Any, key_index: Any, weights: Any, softmax_max: Any,
        softmax_sum: Any, softmax_max_index: Any, softmax_sum_index: Any, query_rope: Any,
        key_rope: Any, actual_seq_qlen: Any, actual_seq_klen: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = gradient(out, dout)
        return (
            zeros_like(query), zeros_like(key), gradients[0], gradients[1], gradients[2],
            zeros_like(softmax_max), zeros_like(softmax_sum), zeros_like(softmax_max_index),
            zeros_like(softmax_sum_index), zero_gradient(query_rope, given.query_rope),
            zero_gradient(key_rope, given.key_rope),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_seq_klen, given.actual_seq_klen),
        )

    return bprop


STAND_INS: dict[str, Any] = {
    "DenseLightningIndexerGradKLLoss": DenseLightningIndexerGradKLLossStandIns,
}
GIVEN: dict[str, Any] = {
    "DenseLightningIndexerGradKLLoss": DenseLightningIndexerGradKLLossGiven,
}
ACLNN: dict[str, tuple[Any, Any, Any]] = {}
