"""The keys that a learned indexer's scores pick for every query."""

from functools import lru_cache
from typing import Any, NamedTuple

import mindspore
import numpy as np
from mindspore import Tensor, ops

from .. import _native
from ._custom import CACHE_SIZE, constant, encode_attrs, native_operator, planned_target
from ._gradient import gradient_operator
from ._operands import int32_list
from ._pages import check_pages
from ._plan import NativeCall, Planner, shown
from ._types import IntList
from .generated.lightning_indexer import (
    LightningIndexerGiven,
    bprop_of_lightning_indexer,
    call_lightning_indexer,
    zero_bprop_of_lightning_indexer,
)

_OP = "LightningIndexer"
_GRAD = "LightningIndexerGrad"
_FUNCTION = "lightning_indexer"
_ALL_TOKENS = 2**63 - 1
# MindSpore's own operator, which runs on Ascend; an older MindSpore has none.
_built_in: Any = getattr(ops, "lightning_indexer", None)


class _Plan(NamedTuple):
    """Plan of a call.

    Attributes:
        operator: What is called; None: MindSpore's own operator.
        c: The stand-ins of its call.
        dtype: To which query and key are cast for that operator, or None.
        lists: The lists that it takes, None for the argument itself.
    """

    operator: Any
    c: Any = None
    dtype: Any = None
    lists: Any = None


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs: Any, gradient_attrs: str, given: LightningIndexerGiven) -> Any:
    """`gradient_attrs` is None where no values are asked for, or keys are in pages."""
    if gradient_attrs is None:
        return native_operator(_OP, attrs, zero_bprop_of_lightning_indexer(given))
    gradient = gradient_operator(_GRAD, gradient_attrs, _FUNCTION)
    return native_operator(_OP, attrs, bprop_of_lightning_indexer(gradient.call, given))


def _built_in_lists(call: Any, given: dict[str, Any]) -> dict[Any, Any]:
    """The lists as MindSpore's operator takes them, where it takes the call."""
    _native.infer(_OP, list(call.inputs.values()), call.attrs, "ascend")
    if _built_in is None:
        raise ValueError(
            f"{_FUNCTION}: target 'ascend' needs MindSpore's own operator, which begins with 2.10, "
            f"got MindSpore {mindspore.__version__}"
        )
    return {
        name: constant(np.asarray(given[name], np.int32)) if name in call.lists else None
        for name in ("actual_seq_lengths_query", "actual_seq_lengths_key")
    }


def _plan_call(**given: Any) -> Any:
    for name in ("pre_tokens", "next_tokens"):
        if type(given[name]) is not int:
            raise TypeError(f"{_FUNCTION}: {name} must be an int, got {shown(given[name])}")
        if given[name] != _ALL_TOKENS:
            raise ValueError(f"{_FUNCTION}: {name} must be 2**63 - 1, got {given[name]}")
    call = NativeCall(_OP, given)
    if planned_target.get() == "ascend":
        return _Plan(None, None, call.casts["query"], _built_in_lists(call, given))
    call.infer()
    gradient_attrs = None
    if given["return_value"]:
        layouts = {name: given[name] for name in ("layout_query", "layout_key")}
        of_gradient = ("weights", "actual_seq_lengths_query", "actual_seq_lengths_key")
        present = [name for name in call.given if name in of_gradient]
        gradient_attrs = encode_attrs(_GRAD, layouts, present)
    operator = _operator(call.text(), gradient_attrs, call.bprop_given())
    return _Plan(operator.call, call.stand_ins())


def lightning_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    *,
    actual_seq_lengths_query: IntList | None = None,
    actual_seq_lengths_key: IntList | None = None,
    block_table: Tensor | None = None,
    layout_query: str = "BSND",
    layout_key: str = "BSND",
    sparse_count: int = 2048,
    sparse_mode: int = 3,
    pre_tokens: int = 9223372036854775807,
    next_tokens: int = 9223372036854775807,
    return_value: bool = False,
    compress_ratio: int = 1,
    compress_residual: IntList | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The keys of largest score for every query: the indexer of DeepSeek Sparse Attention.

    The score of key `s` is :math:`I[s] = \sum_h w[h] \max(0, q[h] \cdot k[s])`, in float32; a query
    picks the `sparse_count` best of the keys that it sees, larger scores first, equal ones by
    index. It is MindSpore's `ops.lightning_indexer`, which has an Ascend kernel only, with its
    shapes and layouts, for any number of heads and picks and any head size. Nothing of size
    :math:`S_q \times S_k` is stored.

    Args:
        query (Tensor): Shape :math:`(B, S_q, H, d)`, or :math:`(T_1, H, d)` with layout "TND",
            dtype float16, bfloat16 or float32. Where the dtypes of query and key differ, both are
            promoted to the widest.
        key (Tensor): Shape :math:`(B, S_k, N_2, d)`, :math:`(T_2, N_2, d)` with layout "TND", or
            :math:`(pages, page, N_2, d)` with "PA_BSND"; :math:`H` is a multiple of :math:`N_2`,
            and the heads of a key head pick together.
        weights (Tensor): :math:`w`, shape :math:`(B, S_q, H)` or :math:`(T_1, H)`, float16,
            bfloat16 or float32; ``None``: ones. A factor of the scores belongs in here.

    Keyword Args:
        actual_seq_lengths_query (Union[tuple[int], list[int], Tensor], optional): With "TND" the
            inclusive prefix sums of the segments' queries, which may end before :math:`T_1`;
            otherwise the number of queries of every batch element. A Tensor has shape :math:`(B,)`
            and dtype int64 or int32, and its values may change without a new graph; so for the
            other lists. Default: ``None``, allowed unless with "TND": all of them.
        actual_seq_lengths_key (Union[tuple[int], list[int], Tensor], optional): The same for keys;
            lengths with "PA_BSND", where they must be given. Default: ``None``.
        block_table (Tensor, optional): Pages of every batch element, int32, shape
            :math:`(B, places)`, with "PA_BSND" only. Default: ``None``.
        layout_query (str, optional): "BSND" or "TND". Default: ``"BSND"``.
        layout_key (str, optional): That of the query, or "PA_BSND". Default: ``"BSND"``.
        sparse_count (int, optional): Picks of a query, `k`, at least 1. Default: ``2048``.
        sparse_mode (int, optional): 3: query `i` sees the first
            :math:`(i + 1 + S_k r + residual - S_q) / r` keys, rounded down, so that the last query
            sees all; 0: every query sees all. Default: ``3``.
        pre_tokens (int, optional): Reserved. Default: ``9223372036854775807``.
        next_tokens (int, optional): Reserved. Default: ``9223372036854775807``.
        return_value (bool, optional): Whether the scores of the picks are asked for; not with
            "PA_BSND". Default: ``False``.
        compress_ratio (int, optional): Tokens that one key stands for, `r`, at least 1.
            Default: ``1``.
        compress_residual (Union[tuple[int], list[int], Tensor], optional): Tokens of every batch
            element after those of its last key, each in :math:`[0, r)`. Default: ``None``, zeros.

    Returns:
        Tuple of two Tensors.

        - **sparse_indices** - int32, shape :math:`(B, S_q, N_2, k)` or :math:`(T_1, N_2, k)`:
          positions in the segment, then -1 where there are no more; -1 in rows that belong to no
          segment. NaN scores come last.
        - **sparse_values** - Their scores in the dtype of the query, -inf beside -1; of shape
          :math:`(0,)` without `return_value`. They have gradients for query, key and weights, of
          the picked keys alone; at :math:`q \cdot k = 0` that of ReLU is 0.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a compiled graph runs, as it is for the
            contents of a table.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import numpy as np
        >>> import mindspore_nsa
        >>> from mindspore import Tensor
        >>> q = Tensor(np.random.randn(1, 256, 8, 64).astype(np.float32))
        >>> k = Tensor(np.random.randn(1, 256, 1, 64).astype(np.float32))
        >>> w = Tensor(np.random.randn(1, 256, 8).astype(np.float32))
        >>> indices, values = mindspore_nsa.lightning_indexer(
        ...     q, k, w, sparse_count=16, return_value=True)
        >>> print(indices.shape, values.shape)
        (1, 256, 1, 16) (1, 256, 1, 16)
        >>> print(indices[0, 1, 0, 2:5])
        [-1 -1 -1]
    """
    operator, c, dtype, lists = _plan_lightning_indexer(
        query,
        key,
        weights,
        actual_seq_lengths_query,
        actual_seq_lengths_key,
        block_table,
        layout_query,
        layout_key,
        sparse_count,
        sparse_mode,
        pre_tokens,
        next_tokens,
        return_value,
        compress_ratio,
        compress_residual,
    )
    check_pages("lightning_indexer", "block_table", block_table, actual_seq_lengths_key, key)
    if operator is None:
        if dtype is not None:
            query = ops.cast(query, dtype)
            key = ops.cast(key, dtype)
        return _built_in(
            query,
            key,
            ops.cast(weights, query.dtype),
            actual_seq_lengths_query=int32_list(
                actual_seq_lengths_query, lists["actual_seq_lengths_query"]
            ),
            actual_seq_lengths_key=int32_list(
                actual_seq_lengths_key, lists["actual_seq_lengths_key"]
            ),
            block_table=block_table,
            layout_query=layout_query,
            layout_key=layout_key,
            sparse_count=sparse_count,
            sparse_mode=sparse_mode,
            return_value=return_value,
        )
    indices, values = call_lightning_indexer(
        operator,
        c,
        query=query,
        key=key,
        weights=weights,
        actual_seq_lengths_query=actual_seq_lengths_query,
        actual_seq_lengths_key=actual_seq_lengths_key,
        compress_residual=compress_residual,
        block_table=block_table,
    )
    return ops.stop_gradient(indices), values


_plan_lightning_indexer = Planner(_plan_call, lightning_indexer, op=_OP)
