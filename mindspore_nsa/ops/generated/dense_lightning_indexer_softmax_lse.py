"""Calls of DenseLightningIndexerSoftmaxLse.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any, NamedTuple

from mindspore import Tensor

from .._operands import in_dtype, passed


class DenseLightningIndexerSoftmaxLseStandIns(NamedTuple):
    """Dtypes and stand-ins for a call of DenseLightningIndexerSoftmaxLse."""

    query_index_dtype: Any
    key_index_dtype: Any
    weights_dtype: Any
    actual_seq_qlen: Any
    actual_seq_klen: Any


def call_dense_lightning_indexer_softmax_lse(
    operator: Any, c: DenseLightningIndexerSoftmaxLseStandIns, query_index: Tensor,
    key_index: Tensor, weights: Tensor, actual_seq_qlen: Any, actual_seq_klen: Any,
) -> Any:
    """Call DenseLightningIndexerSoftmaxLse."""
    (
        query_index_dtype, key_index_dtype, weights_dtype, actual_seq_qlen_stand_in,
        actual_seq_klen_stand_in,
    ) = c
    return operator(
        in_dtype(query_index, query_index_dtype), in_dtype(key_index, key_index_dtype),
        in_dtype(weights, weights_dtype), passed(actual_seq_qlen, actual_seq_qlen_stand_in),
        passed(actual_seq_klen, actual_seq_klen_stand_in),
    )


STAND_INS: dict[str, Any] = {
    "DenseLightningIndexerSoftmaxLse": DenseLightningIndexerSoftmaxLseStandIns,
}
GIVEN: dict[str, Any] = {}
ACLNN: dict[str, tuple[Any, Any, Any]] = {}
