"""The keys that a learned indexer picks, by the names of CANN's second operator."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ._plan import Planner, fail_type, require_none, shown
from ._segment_rows import (
    check_choice,
    check_int,
    check_lengths,
    check_sums,
    check_tensor,
    checked_values,
)
from .lightning_indexer import lightning_indexer

_FUNCTION = "lightning_indexer_v2"
_LAYOUTS = ("BSND", "TND")
_PAGES = "PA_BSND"
_RESERVED = ("output_idx_offset", "metadata")
# Prefix sums, lengths, the tensor that they divide, and its layout.
_LISTS = (
    ("cu_seqlens_q", "seqused_q", "query", "layout_q"),
    ("cu_seqlens_k", "seqused_k", "key", "layout_k"),
)


def check_lists(function: str, given: dict[str, Any]) -> None:
    """The rules of prefix sums and lengths of layouts "TND" and "BSND"."""
    for sums, used, x, layout in _LISTS:
        if given[layout] == _PAGES:
            if given[sums] is not None:
                raise ValueError(f"{function}: {sums} must be None with layout {_PAGES!r}")
            check_tensor(function, given, used, 1, (mindspore.int64, mindspore.int32))
            continue
        packed = given[layout] == "TND"
        check_tensor(function, given, x, 3 if packed else 4)
        unused = used if packed else sums
        if given[unused] is not None:
            raise ValueError(
                f"{function}: {unused} must be None with layout {given[layout]!r}, got "
                f"{shown(given[unused])}"
            )
        if packed:
            check_sums(function, given, sums, x)
        elif given[used] is not None:
            check_lengths(function, given, used, x)


def _plan_call(**given: Any) -> bool:
    check_choice(_FUNCTION, given, "layout_q", _LAYOUTS)
    check_choice(_FUNCTION, given, "layout_k", (given["layout_q"], _PAGES))
    check_choice(_FUNCTION, given, "mask_mode", (0, 3))
    if type(given["return_value"]) is not bool:
        fail_type(_FUNCTION, "return_value", "a bool", given["return_value"])
    for name in ("topk", "cmp_ratio"):
        check_int(_FUNCTION, given, name, 1)
    for name in _RESERVED:
        require_none(_FUNCTION, name, given[name])
    check_choice(_FUNCTION, given, "max_seqlen_q", (-1,))
    check_lists(_FUNCTION, given)
    return True


def lightning_indexer_v2(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    topk: int,
    *,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    seqused_q: Tensor | None = None,
    seqused_k: Tensor | None = None,
    cmp_residual_k: Tensor | None = None,
    block_table: Tensor | None = None,
    output_idx_offset: Tensor | None = None,
    metadata: Tensor | None = None,
    max_seqlen_q: int = -1,
    layout_q: str = "BSND",
    layout_k: str = "BSND",
    mask_mode: int = 0,
    cmp_ratio: int = 1,
    return_value: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""The keys of largest score for every query, by the names of CANN's second indexer.

    It is `lightning_indexer`, called as the operator of DeepSeek V4 is: prefix sums begin with 0,
    nothing is masked unless asked for, and scores are float32 for inputs of 16 bits, too.

    Args:
        query (Tensor): Shape :math:`(B, S_q, H, d)`, or :math:`(T_1, H, d)` with layout "TND",
            dtype float16, bfloat16 or float32.
        key (Tensor): Shape :math:`(B, S_k, N_2, d)`, :math:`(T_2, N_2, d)` with layout "TND", or
            :math:`(pages, page, N_2, d)` with "PA_BSND".
        weights (Tensor): Shape :math:`(B, S_q, H)` or :math:`(T_1, H)`; read as float32.
        topk (int): Picks of a query, at least 1.

    Keyword Args:
        cu_seqlens_q (Tensor, optional): With "TND" prefix sums of the segments' queries with a
            leading 0, shape :math:`(B + 1,)`, int64 or int32. Default: ``None``.
        cu_seqlens_k (Tensor, optional): Those of the keys. Default: ``None``.
        seqused_q (Tensor, optional): With "BSND" the number of queries of every row, shape
            :math:`(B,)`, int64 or int32. Default: ``None``, all.
        seqused_k (Tensor, optional): That of keys; it must be given with "PA_BSND".
            Default: ``None``.
        cmp_residual_k (Tensor, optional): Tokens of every segment after those of its last key,
            each in :math:`[0, r)`, shape :math:`(B,)`, int64 or int32. Default: ``None``, zeros.
        block_table (Tensor, optional): Pages of every row, int32, with "PA_BSND" only.
            Default: ``None``.
        output_idx_offset (Tensor, optional): Reserved. Default: ``None``.
        metadata (Tensor, optional): Reserved. Default: ``None``.
        max_seqlen_q (int, optional): Reserved. Default: ``-1``.
        layout_q (str, optional): "BSND" or "TND". Default: ``"BSND"``.
        layout_k (str, optional): That of the query, or "PA_BSND". Default: ``"BSND"``.
        mask_mode (int, optional): 0: every query sees all keys; 3: query `i` the first
            :math:`(i + 1 + S_k r + residual - S_q) / r`, rounded down. Default: ``0``.
        cmp_ratio (int, optional): Tokens that a key stands for, `r`, at least 1. Default: ``1``.
        return_value (bool, optional): Whether the scores are asked for; not with "PA_BSND".
            Default: ``False``.

    Returns:
        Tuple of two Tensors, as those of `lightning_indexer`.

        - **sparse_indices** - int32, shape :math:`(B, S_q, N_2, k)` or :math:`(T_1, N_2, k)`, -1
          where there are no more.
        - **sparse_values** - float32 scores, -inf beside -1, with gradients for query, key and
          weights; of shape :math:`(0,)` without `return_value`.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a compiled graph runs.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.ops import lightning_indexer_v2
        >>> q = Tensor(np.random.randn(1, 64, 8, 32).astype(np.float16))
        >>> k = Tensor(np.random.randn(1, 16, 1, 32).astype(np.float16))
        >>> w = Tensor(np.random.randn(1, 64, 8).astype(np.float32))
        >>> indices, values = lightning_indexer_v2(
        ...     q, k, w, 4, mask_mode=3, cmp_ratio=4, return_value=True)
        >>> print(indices.shape, values.dtype)
        (1, 64, 1, 4) Float32
    """
    _plan_lightning_indexer_v2(
        query, key, weights, topk, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k,
        cmp_residual_k, block_table, output_idx_offset, metadata, max_seqlen_q, layout_q, layout_k,
        mask_mode, cmp_ratio, return_value,
    )  # fmt: skip
    ends, key_ends = seqused_q, seqused_k
    if cu_seqlens_q is not None:
        ends = checked_values(_FUNCTION, "cu_seqlens_q", "query", cu_seqlens_q, query)[1:]
    if cu_seqlens_k is not None:
        key_ends = checked_values(_FUNCTION, "cu_seqlens_k", "key", cu_seqlens_k, key)[1:]
    if return_value:
        query, key = ops.cast(query, mindspore.float32), ops.cast(key, mindspore.float32)
    return lightning_indexer(
        query,
        key,
        weights,
        actual_seq_lengths_query=ends,
        actual_seq_lengths_key=key_ends,
        block_table=block_table,
        layout_query=layout_q,
        layout_key=layout_k,
        sparse_count=topk,
        sparse_mode=mask_mode,
        return_value=return_value,
        compress_ratio=cmp_ratio,
        compress_residual=cmp_residual_k,
    )


_plan_lightning_indexer_v2 = Planner(
    _plan_call, lightning_indexer_v2, lists=[name for names in _LISTS for name in names[:2]]
)
