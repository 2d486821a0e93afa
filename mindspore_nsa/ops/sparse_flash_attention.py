"""Attention of every query over the tokens that were picked for it."""

from functools import lru_cache
from typing import Any, NamedTuple

import mindspore
import numpy as np
from mindspore import Tensor, ops

from .. import _native
from ._custom import (
    CACHE_SIZE,
    constant,
    encode_attrs,
    native_operator,
    planned_target,
    schema,
)
from ._gradient import gradient_operator, refusing_bprop
from ._operands import int32_list
from ._pages import check_pages
from ._plan import NativeCall, Planner, shown
from ._types import IntList
from .generated.sparse_flash_attention import (
    SparseFlashAttentionGiven,
    bprop_of_sparse_flash_attention,
    call_sparse_flash_attention,
)

_OP = "SparseFlashAttention"
_GRAD = "SparseFlashAttentionGrad"
_FUNCTION = "sparse_flash_attention"
_ALL_TOKENS = 2**63 - 1
_LISTS = ("actual_seq_lengths_query", "actual_seq_lengths_kv")
_NO_PAGES = f"{_FUNCTION}: it has no gradient where keys are in pages"
# MindSpore's own operator, which runs on Ascend; an older MindSpore has none.
_built_in: Any = getattr(ops, "sparse_flash_attention", None)


class _Plan(NamedTuple):
    """Plan of a call.

    Attributes:
        operator: What is called; None: MindSpore's own operator.
        c: The stand-ins of its call.
        dtype: To which floating inputs are cast for that operator, or None.
        lists: The lists that it takes, None for the argument itself.
    """

    operator: Any
    c: Any = None
    dtype: Any = None
    lists: Any = None


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs: Any, gradient_attrs: str, given: SparseFlashAttentionGiven) -> Any:
    """`gradient_attrs` is None where keys are in pages."""
    if gradient_attrs is None:
        return native_operator(_OP, attrs, refusing_bprop(_OP, _NO_PAGES))
    gradient = gradient_operator(_GRAD, gradient_attrs, _FUNCTION)
    return native_operator(_OP, attrs, bprop_of_sparse_flash_attention(gradient.call, given))


def _built_in_lists(call: Any, given: dict[str, Any]) -> dict[Any, Any]:
    """The lists as MindSpore's operator takes them, where it takes the call."""
    _native.infer(_OP, list(call.inputs.values()), call.attrs, "ascend")
    if given["sinks"] is not None:
        raise ValueError(f"{_FUNCTION}: sinks must be None on Ascend, got {given['sinks']}")
    if _built_in is None:
        raise ValueError(
            f"{_FUNCTION}: target 'ascend' needs MindSpore's own operator, which begins with 2.10, "
            f"got MindSpore {mindspore.__version__}"
        )
    return {
        name: constant(np.asarray(given[name], np.int32)) if name in call.lists else None
        for name in _LISTS
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
    if given["layout_kv"] != "PA_BSND":
        inputs = {spec["name"] for spec in schema(_GRAD)["inputs"]}
        present = [name for name in call.given if name in inputs]
        present += ["softmax_sum_grad"] if given["return_softmax_lse"] else []
        gradient_attrs = encode_attrs(_GRAD, call.attrs, present)
    told = call.bprop_given(softmax_sum_grad=bool(given["return_softmax_lse"]))
    operator = _operator(call.text(), gradient_attrs, told)
    return _Plan(operator.call, call.stand_ins())


def sparse_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
    *,
    block_table: Tensor | None = None,
    actual_seq_lengths_query: IntList | None = None,
    actual_seq_lengths_kv: IntList | None = None,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    sparse_block_size: int = 1,
    layout_query: str = "BSND",
    layout_kv: str = "BSND",
    sparse_mode: int = 3,
    pre_tokens: int = 9223372036854775807,
    next_tokens: int = 9223372036854775807,
    attention_mode: int = 0,
    return_softmax_lse: bool = False,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Attention of every query over the tokens that were picked for it.

    The attention of DeepSeek Sparse Attention over the picks of `lightning_indexer`: for each index
    `t` of a query and key head the tokens :math:`[t b, (t+1) b)` that the query sees are gathered,
    where `b` is `sparse_block_size`, and :math:`softmax(scale (q k^T + q_{rope} k_{rope}^T)) v` is
    taken over them. An index that is -1 or past the last token contributes nothing, wherever it
    stands; one that stands twice counts twice. The order of a query's indices changes no bit. It is
    MindSpore's `ops.sparse_flash_attention`, which has an Ascend kernel only, with its shapes and
    layouts, for any number of heads and any head sizes.

    Args:
        query (Tensor): Shape :math:`(B, S_q, N, D)`, or :math:`(T_1, N, D)` with layout "TND",
            dtype float16, bfloat16 or float32. Where the floating inputs have different dtypes, all
            are promoted to the widest.
        key (Tensor): Shape :math:`(B, S_k, N_2, D)`, :math:`(T_2, N_2, D)` with layout "TND", or
            :math:`(pages, page, N_2, D)` with "PA_BSND"; :math:`N` is a multiple of :math:`N_2`.
        value (Tensor): The same with :math:`D_v`; the key itself where values are latents.
        sparse_indices (Tensor): int32, shape :math:`(B, S_q, N_2, k)` or :math:`(T_1, N_2, k)`.
        scale_value (float): Factor of the scores.

    Keyword Args:
        block_table (Tensor, optional): Pages of every batch element, int32, shape
            :math:`(B, places)`, with "PA_BSND" only. Default: ``None``.
        actual_seq_lengths_query (Union[tuple[int], list[int], Tensor], optional): With "TND" the
            inclusive prefix sums of the segments' queries, which may end before :math:`T_1`;
            otherwise the number of queries of every batch element. A Tensor has shape :math:`(B,)`
            and dtype int64 or int32, and its values may change without a new graph; so for the
            other list. Default: ``None``, allowed unless with "TND": all of them.
        actual_seq_lengths_kv (Union[tuple[int], list[int], Tensor], optional): The same for keys;
            lengths with "PA_BSND", where they must be given. Default: ``None``.
        query_rope (Tensor, optional): :math:`R` more dimensions of the query, with `attention_mode`
            2. Default: ``None``.
        key_rope (Tensor, optional): The same of the key. Default: ``None``.
        sparse_block_size (int, optional): Tokens that an index stands for, `b`; it divides a page.
            Default: ``1``.
        layout_query (str, optional): "BSND" or "TND". Default: ``"BSND"``.
        layout_kv (str, optional): That of the query, or "PA_BSND". Default: ``"BSND"``.
        sparse_mode (int, optional): 3: query `i` sees the keys up to :math:`i + S_k - S_q`; 0: all.
            Default: ``3``.
        pre_tokens (int, optional): Reserved. Default: ``9223372036854775807``.
        next_tokens (int, optional): Reserved. Default: ``9223372036854775807``.
        attention_mode (int, optional): 2: with ropes; 0: without. Default: ``0``.
        return_softmax_lse (bool, optional): Whether the statistics are asked for.
            Default: ``False``.
        sinks (Tensor, optional): Logits without a value, one for each head, float32, shape
            :math:`(N,)`. Default: ``None``.

    Returns:
        Tuple of three Tensors. The first, and functions of `softmax_max + log(softmax_sum)`, are
        differentiable by query, key, value, the ropes and sinks.

        - **attention_out** - Shape :math:`(B, S_q, N, D_v)` or :math:`(T_1, N, D_v)`; 0 where a
          query sees nothing, and in rows that belong to no segment.
        - **softmax_max**, **softmax_sum** - float32, shape :math:`(B, N_2, S_q, N / N_2)`, or
          :math:`(N_2, T_1, N / N_2)` with "TND"; :math:`(0,)` without `return_softmax_lse`. The
          gradient of softmax_sum takes softmax_max for a constant, which has none of its own.

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
        >>> q = Tensor(np.random.randn(1, 64, 8, 32).astype(np.float32))
        >>> k = Tensor(np.random.randn(1, 64, 1, 32).astype(np.float32))
        >>> w = Tensor(np.random.randn(1, 64, 8).astype(np.float32))
        >>> picks, _ = mindspore_nsa.lightning_indexer(q, k, w, sparse_count=16)
        >>> out, _, _ = mindspore_nsa.sparse_flash_attention(q, k, k, picks, 32**-0.5)
        >>> print(out.shape)
        (1, 64, 8, 32)
    """
    operator, c, dtype, lists = _plan_sparse_flash_attention(
        query,
        key,
        value,
        sparse_indices,
        scale_value,
        block_table,
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        query_rope,
        key_rope,
        sparse_block_size,
        layout_query,
        layout_kv,
        sparse_mode,
        pre_tokens,
        next_tokens,
        attention_mode,
        return_softmax_lse,
        sinks,
    )
    check_pages("sparse_flash_attention", "block_table", block_table, actual_seq_lengths_kv, key)
    if operator is None:
        if dtype is not None:
            query = ops.cast(query, dtype)
            key = ops.cast(key, dtype)
            value = ops.cast(value, dtype)
            if query_rope is not None:
                query_rope = ops.cast(query_rope, dtype)
                key_rope = ops.cast(key_rope, dtype)
        return _built_in(
            query,
            key,
            value,
            sparse_indices,
            scale_value,
            block_table=block_table,
            actual_seq_lengths_query=int32_list(
                actual_seq_lengths_query, lists["actual_seq_lengths_query"]
            ),
            actual_seq_lengths_kv=int32_list(actual_seq_lengths_kv, lists["actual_seq_lengths_kv"]),
            query_rope=query_rope,
            key_rope=key_rope,
            sparse_block_size=sparse_block_size,
            layout_query=layout_query,
            layout_kv=layout_kv,
            sparse_mode=sparse_mode,
            attention_mode=attention_mode,
            return_softmax_lse=return_softmax_lse,
        )
    return call_sparse_flash_attention(
        operator,
        c,
        query=query,
        key=key,
        value=value,
        sparse_indices=ops.stop_gradient(sparse_indices),
        query_rope=query_rope,
        key_rope=key_rope,
        sinks=sinks,
        actual_seq_lengths_query=actual_seq_lengths_query,
        actual_seq_lengths_kv=actual_seq_lengths_kv,
        block_table=block_table,
    )


_plan_sparse_flash_attention = Planner(_plan_call, sparse_flash_attention, op=_OP)
