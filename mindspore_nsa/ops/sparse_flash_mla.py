"""One softmax over a window of keys, over compressed keys, and a sink: a composition."""

import math
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops

from ._custom import constant
from ._picked import attention_mass
from ._plan import Planner, fail_type, shown
from ._segment_rows import (
    INTS,
    check_choice,
    check_int,
    check_sums,
    check_tensor,
    lengths,
    places,
    rows_of,
    segments,
    visible,
)
from .sparse_flash_attention import sparse_flash_attention

_FUNCTION = "sparse_flash_mla"
_LAYOUTS = ("BSND", "TND")
_BAND, _ALL, _CAUSAL = 4, 0, 3
# Prefix sums, and the tensor that they divide.
_LISTS = {
    "cu_seqlens_q": "query",
    "cu_seqlens_ori_kv": "ori_kv",
    "cu_seqlens_cmp_kv": "cmp_kv",
}
_MOST_ROWS = 2**31 - 1
_NO_GRADIENT = f"{_FUNCTION}: cmp_softmax_l1_norm has no gradient"
_NOT_ASKED = constant(np.zeros(0, np.float32))


def _plan_call(**given: Any) -> bool:
    check_choice(_FUNCTION, given, "layout_q", _LAYOUTS)
    check_choice(_FUNCTION, given, "layout_kv", (given["layout_q"],))
    check_choice(_FUNCTION, given, "ori_mask_mode", (_BAND,))
    check_choice(_FUNCTION, given, "cmp_mask_mode", (_ALL, _CAUSAL))
    for name, least in (("ori_win_left", 0), ("ori_win_right", 0), ("cmp_ratio", 1)):
        check_int(_FUNCTION, given, name, least)
    rank = 3 if given["layout_q"] == "TND" else 4
    compressed = given["cmp_kv"] is not None
    keys = ("ori_kv", "cmp_kv") if compressed else ("ori_kv",)
    for name in ("query", *keys):
        check_tensor(_FUNCTION, given, name, rank)
    for name in keys:
        if given[name].shape[-2] not in (-1, 1):
            raise ValueError(
                f"{_FUNCTION}: {name} must have one head, got shape {given[name].shape}"
            )
    if given["cmp_sparse_indices"] is not None:
        check_tensor(_FUNCTION, given, "cmp_sparse_indices", rank, (mindspore.int32,))
    _check_lists(given, compressed, rank == 3)
    _check_optional(given, compressed)
    rows = [math.prod(given[name].shape[:-2]) for name in keys]
    if min(rows) >= 0 and sum(rows) > _MOST_ROWS:
        raise ValueError(
            f"{_FUNCTION}: ori_kv and cmp_kv must have at most {_MOST_ROWS} keys together, which "
            f"an int32 numbers, got {sum(rows)}"
        )
    return True


def _check_lists(given: dict[str, Any], compressed: Tensor, packed: Any) -> None:
    for name, x in _LISTS.items():
        if packed and (compressed or x != "cmp_kv"):
            check_sums(_FUNCTION, given, name, x)
        elif given[name] is not None:
            expected = "None with layout 'BSND'" if not packed else "None without cmp_kv"
            raise ValueError(f"{_FUNCTION}: {name} must be {expected}, got {shown(given[name])}")


def _check_optional(given: dict[str, Any], compressed: Tensor) -> None:
    for name in ("cmp_sparse_indices", "cmp_residual_kv"):
        if given[name] is not None and not compressed:
            raise ValueError(
                f"{_FUNCTION}: {name} must be None without cmp_kv, got {shown(given[name])}"
            )
    if given["cmp_residual_kv"] is not None:
        check_tensor(_FUNCTION, given, "cmp_residual_kv", 1, INTS)
    if type(given["return_softmax_l1"]) is not bool:
        fail_type(_FUNCTION, "return_softmax_l1", "a bool", given["return_softmax_l1"])
    if given["return_softmax_l1"] and given["cmp_sparse_indices"] is None:
        raise ValueError(
            f"{_FUNCTION}: return_softmax_l1 must be False without cmp_sparse_indices, got True"
        )


def sparse_flash_mla(
    query: Tensor,
    *,
    ori_kv: Tensor,
    cmp_kv: Tensor | None = None,
    cmp_sparse_indices: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_ori_kv: Tensor | None = None,
    cu_seqlens_cmp_kv: Tensor | None = None,
    cmp_residual_kv: Tensor | None = None,
    sinks: Tensor | None = None,
    softmax_scale: float = 1.0,
    cmp_ratio: int = 1,
    ori_mask_mode: int = 4,
    cmp_mask_mode: int = 3,
    ori_win_left: int = 127,
    ori_win_right: int = 0,
    layout_q: str = "BSND",
    layout_kv: str = "BSND",
    return_softmax_lse: bool = False,
    return_softmax_l1: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Attention over a window of keys and over compressed keys, in one softmax with a sink.

    The attention of DeepSeek V4, by the names of CANN's operator. A key is the value, too. Query
    `i` of a segment stands at position :math:`p = i + S_{ori} - S_q`. It sees the keys
    :math:`p - left .. p + right`, and of the compressed keys, each of which stands for `r` tokens,
    the first :math:`n = (i + 1 + S_{cmp} r + residual - S_q) / r`, rounded down: all of them (HCA),
    or those of `cmp_sparse_indices` (CSA). Without `cmp_kv` there is the window alone.

    It is a composition: a list of rows for every query, one copy of all keys, and
    `sparse_flash_attention`. The list has :math:`4 (left + right + 1 + K)` bytes for a query, where
    `K` are its picks, or all compressed keys: with a window of 128 and 512 picks 168 MB for 65536
    tokens and 2.7 GB for 1M; with all entries of 128 tokens 0.6 GB for 128K and 35 GB for 1M, where
    it ends in practice. The last row that it can number is :math:`2^{31} - 1`.

    Args:
        query (Tensor): Shape :math:`(B, S_q, N, D)`, or :math:`(T_1, N, D)` with layout "TND",
            dtype float16, bfloat16 or float32.

    Keyword Args:
        ori_kv (Tensor): Keys and values, shape :math:`(B, S_{ori}, 1, D)` or :math:`(T_2, 1, D)`.
        cmp_kv (Tensor, optional): Compressed ones, shape :math:`(B, S_{cmp}, 1, D)` or
            :math:`(T_3, 1, D)`. Default: ``None``.
        cmp_sparse_indices (Tensor, optional): int32, shape :math:`(B, S_q, 1, K)` or
            :math:`(T_1, 1, K)`, numbers in the segment; -1 and later ones than `n` count for
            nothing. Default: ``None``, all.
        cu_seqlens_q (Tensor, optional): With "TND" prefix sums of the segments' queries with a
            leading 0, shape :math:`(B + 1,)`, int64 or int32. Default: ``None``.
        cu_seqlens_ori_kv (Tensor, optional): The same of `ori_kv`. Default: ``None``.
        cu_seqlens_cmp_kv (Tensor, optional): The same of `cmp_kv`. Default: ``None``.
        cmp_residual_kv (Tensor, optional): Tokens of every segment after those of its last
            compressed key, shape :math:`(B,)`, int64 or int32. Default: ``None``, zeros.
        sinks (Tensor, optional): A logit without a value for each head, float32, shape
            :math:`(N,)`. Default: ``None``.
        softmax_scale (float, optional): Factor of the scores. Default: ``1.0``.
        cmp_ratio (int, optional): `r`, at least 1. Default: ``1``.
        ori_mask_mode (int, optional): 4, the band. Default: ``4``.
        cmp_mask_mode (int, optional): 3: compressed keys up to `n`; 0: all. Default: ``3``.
        ori_win_left (int, optional): Keys before its position that a query sees.
            Default: ``127``.
        ori_win_right (int, optional): Keys after it. Default: ``0``.
        layout_q (str, optional): "BSND" or "TND". Default: ``"BSND"``.
        layout_kv (str, optional): That of the query. Default: ``"BSND"``.
        return_softmax_lse (bool, optional): Whether the log-sum-exp is asked for.
            Default: ``False``.
        return_softmax_l1 (bool, optional): Whether the probabilities of the picks are asked for,
            with `cmp_sparse_indices` only. Default: ``False``.

    Returns:
        Tuple of three Tensors. The first two are differentiable by query, ori_kv, cmp_kv and sinks.

        - **attention_out** - The shape of the query; 0 in rows that belong to no segment.
        - **softmax_lse** - float32, shape :math:`(B, 1, S_q, N)` or :math:`(1, T_1, N)`: the
          logarithm of the softmax's sum, sinks included; :math:`(0,)` without `return_softmax_lse`.
        - **cmp_softmax_l1_norm** - float32, shape of `cmp_sparse_indices`: the mean over the heads
          of the probability of every pick. The window and the sink are in the sum of the softmax,
          so these need not sum to 1. 0 for picks that count for nothing. It has no gradient;
          :math:`(0,)` without `return_softmax_l1`. Picked keys are gathered for some queries at a
          time, in at most 64 MB, in a graph at least for a 32nd of them.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a compiled graph runs.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.ops import sparse_flash_mla
        >>> q = Tensor(np.random.randn(1, 64, 8, 32).astype(np.float32))
        >>> kv = Tensor(np.random.randn(1, 64, 1, 32).astype(np.float32))
        >>> entries = Tensor(np.random.randn(1, 16, 1, 32).astype(np.float32))
        >>> out, _, _ = sparse_flash_mla(
        ...     q, ori_kv=kv, cmp_kv=entries, cmp_ratio=4, ori_win_left=15, softmax_scale=32**-0.5)
        >>> print(out.shape)
        (1, 64, 8, 32)
    """
    _plan_sparse_flash_mla(
        query, ori_kv, cmp_kv, cmp_sparse_indices, cu_seqlens_q, cu_seqlens_ori_kv,
        cu_seqlens_cmp_kv, cmp_residual_kv, sinks, softmax_scale, cmp_ratio, ori_mask_mode,
        cmp_mask_mode, ori_win_left, ori_win_right, layout_q, layout_kv, return_softmax_lse,
        return_softmax_l1,
    )  # fmt: skip
    shape = ops.shape(query)
    ends, query = segments(_FUNCTION, "query", query, "cu_seqlens_q", cu_seqlens_q)
    ori_ends, rows = segments(_FUNCTION, "ori_kv", ori_kv, "cu_seqlens_ori_kv", cu_seqlens_ori_kv)
    segment, place = places(ends, query.shape[0])
    queries, keys = lengths(ends, segment), lengths(ori_ends, segment)
    width = min(ori_win_left + ori_win_right + 1, rows.shape[0])
    last = ops.expand_dims(place + ori_win_right + keys - queries, 1)
    seen = last - ops.cast(ops.arange(width), mindspore.int32)
    indices = rows_of(seen, ops.expand_dims(keys, 1), ori_ends, segment)
    # Queries after the last segment see nothing.
    inside = ops.expand_dims(ops.cast(ops.arange(query.shape[0]), mindspore.int32) < ends[-1], 1)
    indices = ops.where(inside, indices, ops.full_like(indices, -1))
    picks = None
    if cmp_kv is not None:
        cmp_ends, entries = segments(
            _FUNCTION, "cmp_kv", cmp_kv, "cu_seqlens_cmp_kv", cu_seqlens_cmp_kv
        )
        count = lengths(cmp_ends, segment)
        if cmp_mask_mode == _CAUSAL:
            count = visible(count, queries, place, cmp_ratio, cmp_residual_kv, segment)
        if cmp_sparse_indices is None:
            longest = cmp_kv.shape[0] if layout_q == "TND" else cmp_kv.shape[1]
            picks = ops.expand_dims(ops.cast(ops.arange(longest), mindspore.int32), 0)
        else:
            picks = ops.reshape(cmp_sparse_indices, (query.shape[0], -1))
        stop = ops.expand_dims(count, 1)
        picks = rows_of(picks, stop, cmp_ends, segment, rows.shape[0])
        picks = ops.where(inside, picks, ops.full_like(picks, -1))
        indices = ops.concat((indices, picks), 1)
        rows = ops.concat((rows, entries))
    statistics = return_softmax_lse or return_softmax_l1
    out, top, total = sparse_flash_attention(
        query, rows, rows, ops.expand_dims(indices, 1), softmax_scale,
        actual_seq_lengths_query=(query.shape[0],), actual_seq_lengths_kv=(rows.shape[0],),
        layout_query="TND", layout_kv="TND", sparse_mode=0, sinks=sinks,
        return_softmax_lse=statistics,
    )  # fmt: skip
    lse, mass = top, _NOT_ASKED
    if statistics:
        lse = top + ops.log(total)
    if return_softmax_l1:
        mass = attention_mass(query, rows[:, 0], picks, lse[0], softmax_scale, _NO_GRADIENT)
        mass = ops.reshape(mass, ops.shape(cmp_sparse_indices))
    if not return_softmax_lse:
        lse = _NOT_ASKED
    elif layout_q == "BSND":
        lse = ops.expand_dims(ops.reshape(lse, shape[:3]), 1)
    return ops.reshape(out, shape), lse, mass


_plan_sparse_flash_mla = Planner(_plan_call, sparse_flash_mla, lists=tuple(_LISTS))
