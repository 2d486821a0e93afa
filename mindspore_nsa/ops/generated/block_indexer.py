"""Calls of BlockIndexer.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._by_device import zeros_like
from .._operands import in_dtype, passed, zero_gradient


class BlockIndexerStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of BlockIndexer."""

    query_dtype: Any
    key_dtype: Any
    weights_dtype: Any
    weights: Any
    actual_seq_qlen: Any
    actual_seq_kvlen: Any
    q_offset: Any


def call_block_indexer(
    operator: Any, c: BlockIndexerStandIns, query: Tensor, key: Tensor, weights: Any,
    actual_seq_qlen: Any, actual_seq_kvlen: Any, q_offset: Any,
) -> Any:
    """Call BlockIndexer."""
    (
        query_dtype, key_dtype, weights_dtype, weights_stand_in, actual_seq_qlen_stand_in,
        actual_seq_kvlen_stand_in, q_offset_stand_in,
    ) = c
    return operator(
        in_dtype(query, query_dtype), in_dtype(key, key_dtype),
        passed(in_dtype(weights, weights_dtype), weights_stand_in),
        passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_kvlen, actual_seq_kvlen_stand_in), passed(q_offset, q_offset_stand_in),
    )


class BlockIndexerGiven(NamedTuple):
    """Inputs that the bprop of BlockIndexer is given."""

    weights: bool
    actual_seq_qlen: bool
    actual_seq_kvlen: bool
    q_offset: bool


def zero_bprop_of_block_indexer(given: BlockIndexerGiven) -> Any:
    """Make the bprop of BlockIndexer where nothing has a gradient."""

    def bprop(
        query: Any, key: Any, weights: Any, actual_seq_qlen: Any, actual_seq_kvlen: Any,
        q_offset: Any, out: Any, dout: Any,
    ) -> Any:
        return (
            zeros_like(query), zeros_like(key), zero_gradient(weights, given.weights),
            zero_gradient(actual_seq_qlen, given.actual_seq_qlen),
            zero_gradient(actual_seq_kvlen, given.actual_seq_kvlen),
            zero_gradient(q_offset, given.q_offset),
        )

    return bprop


STAND_INS: dict[str, Any] = {
    "BlockIndexer": BlockIndexerStandIns,
}
GIVEN: dict[str, Any] = {
    "BlockIndexer": BlockIndexerGiven,
}
ACLNN: dict[str, tuple[Any, Any, Any]] = {}
