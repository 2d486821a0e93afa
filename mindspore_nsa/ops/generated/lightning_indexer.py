"""Calls of LightningIndexer.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._by_device import zeros_like
from .._operands import in_dtype, passed, zero_gradient


class LightningIndexerStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of LightningIndexer."""

    query_dtype: Any
    key_dtype: Any
    weights_dtype: Any
    weights: Any
    actual_seq_lengths_query: Any
    actual_seq_lengths_key: Any
    compress_residual: Any
    block_table: Any


def call_lightning_indexer(
    operator: Any, c: LightningIndexerStandIns, query: Tensor, key: Tensor, weights: Any,
    actual_seq_lengths_query: Any, actual_seq_lengths_key: Any, compress_residual: Any,
    block_table: Any,
) -> Any:
    """Call LightningIndexer."""
    (
        query_dtype, key_dtype, weights_dtype, weights_stand_in, actual_seq_lengths_query_stand_in,
        actual_seq_lengths_key_stand_in, compress_residual_stand_in, block_table_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype),
        passed(in_dtype(weights, weights_dtype), weights_stand_in),
        passed(actual_seq_lengths_query, actual_seq_lengths_query_stand_in),
        passed(actual_seq_lengths_key, actual_seq_lengths_key_stand_in),
        passed(compress_residual, compress_residual_stand_in),
        passed(block_table, block_table_stand_in),
    )


class LightningIndexerGiven(NamedTuple):
    """Inputs that the bprop of LightningIndexer is given."""

    weights: bool
    actual_seq_lengths_query: bool
    actual_seq_lengths_key: bool
    compress_residual: bool
    block_table: bool


def bprop_of_lightning_indexer(gradient: Any, given: LightningIndexerGiven) -> Any:
    """Make the bprop of LightningIndexer from LightningIndexerGrad."""

    def bprop(
        query: Any, key: Any, weights: Any, actual_seq_lengths_query: Any,
        actual_seq_lengths_key: Any, compress_residual: Any, block_table: Any, out: Any, dout: Any,
    ) -> Any:
        gradients = gradient(
            query, key,
            dout[1],  # sparse_values_grad
            out[0],  # sparse_indices
            weights, actual_seq_lengths_query, actual_seq_lengths_key,
        )
        return (
            gradients[0], gradients[1], gradients[2] if given.weights else weights,
            zero_gradient(actual_seq_lengths_query, given.actual_seq_lengths_query),
            zero_gradient(actual_seq_lengths_key, given.actual_seq_lengths_key),
            zero_gradient(compress_residual, given.compress_residual),
            zero_gradient(block_table, given.block_table),
        )

    return bprop


def zero_bprop_of_lightning_indexer(given: LightningIndexerGiven) -> Any:
    """Make the bprop of LightningIndexer where nothing has a gradient."""

    def bprop(
        query: Any, key: Any, weights: Any, actual_seq_lengths_query: Any,
        actual_seq_lengths_key: Any, compress_residual: Any, block_table: Any, out: Any, dout: Any,
    ) -> Any:
        return (
            zeros_like(query), zeros_like(key), zero_gradient(weights, given.weights),
            zero_gradient(actual_seq_lengths_query, given.actual_seq_lengths_query),
            zero_gradient(actual_seq_lengths_key, given.actual_seq_lengths_key),
            zero_gradient(compress_residual, given.compress_residual),
            zero_gradient(block_table, given.block_table),
        )

    return bprop


STAND_INS: dict[str, Any] = {
    "LightningIndexer": LightningIndexerStandIns,
}
GIVEN: dict[str, Any] = {
    "LightningIndexer": LightningIndexerGiven,
}
ACLNN: dict[str, tuple[Any, Any, Any]] = {}
