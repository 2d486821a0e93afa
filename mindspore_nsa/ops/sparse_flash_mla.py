"""One softmax over a window of keys, over compressed keys, and a sink: a composition."""

import mindspore
from mindspore import ops

from ._plan import Planner, TensorSpec, fail_type, shown
from .sparse_flash_attention import sparse_flash_attention

_FUNCTION = "sparse_flash_mla"
_LAYOUTS = ("BSND", "TND")
_BAND, _ALL, _CAUSAL = 4, 0, 3


def _int(given, name, least):
    value = given[name]
    if type(value) is not int:
        raise TypeError(f"{_FUNCTION}: {name} must be an int, got {shown(value)}")
    if value < least:
        raise ValueError(f"{_FUNCTION}: {name} must be >= {least}, got {value}")


def _tensor(given, name, rank, dtypes=None):
    spec = given[name]
    if not isinstance(spec, TensorSpec):
        fail_type(_FUNCTION, name, "a Tensor", spec)
    if dtypes is not None and spec.dtype not in dtypes:
        expected = " or ".join(str(dtype).lower() for dtype in dtypes)
        raise TypeError(f"{_FUNCTION}: {name} must be of dtype {expected}, got {spec.native()[0]}")
    if spec.shape is None or len(spec.shape) != rank:
        raise ValueError(f"{_FUNCTION}: {name} must be of rank {rank}, got shape {spec.shape}")


def _choice(given, name, known):
    if given[name] not in known:
        words = " or ".join(map(repr, known))
        raise ValueError(f"{_FUNCTION}: {name} must be {words}, got {shown(given[name])}")


def _plan_call(**given):
    _choice(given, "layout_q", _LAYOUTS)
    _choice(given, "layout_kv", (given["layout_q"],))
    _choice(given, "ori_mask_mode", (_BAND,))
    _choice(given, "cmp_mask_mode", (_ALL, _CAUSAL))
    for name, least in (("ori_win_left", 0), ("ori_win_right", 0), ("cmp_ratio", 1)):
        _int(given, name, least)
    rank, packed = (3, True) if given["layout_q"] == "TND" else (4, False)
    compressed, ints = given["cmp_kv"] is not None, (mindspore.int64, mindspore.int32)
    for name in ("query", "ori_kv", *(["cmp_kv"] if compressed else [])):
        _tensor(given, name, rank)
    if given["ori_kv"].shape[-2] != 1:
        raise ValueError(
            f"{_FUNCTION}: ori_kv must have one head, got shape {given['ori_kv'].shape}"
        )
    if given["cmp_sparse_indices"] is not None:
        _tensor(given, "cmp_sparse_indices", rank, (mindspore.int32,))
    for name in ("cu_seqlens_q", "cu_seqlens_ori_kv", "cu_seqlens_cmp_kv"):
        wanted = packed and (compressed or name != "cu_seqlens_cmp_kv")
        if wanted:
            _tensor(given, name, 1, ints)
        elif given[name] is not None:
            expected = "None with layout 'BSND'" if not packed else "None without cmp_kv"
            raise ValueError(f"{_FUNCTION}: {name} must be {expected}, got {shown(given[name])}")
    for name in ("cmp_sparse_indices", "cmp_residual_kv"):
        if given[name] is not None and not compressed:
            raise ValueError(
                f"{_FUNCTION}: {name} must be None without cmp_kv, got {shown(given[name])}"
            )
    if given["cmp_residual_kv"] is not None:
        _tensor(given, "cmp_residual_kv", 1, ints)
    return True


_plan_sparse_flash_mla = Planner(_plan_call, _FUNCTION)


def sparse_flash_mla(
    query,
    *,
    ori_kv,
    cmp_kv=None,
    cmp_sparse_indices=None,
    cu_seqlens_q=None,
    cu_seqlens_ori_kv=None,
    cu_seqlens_cmp_kv=None,
    cmp_residual_kv=None,
    sinks=None,
    softmax_scale=1.0,
    cmp_ratio=1,
    ori_mask_mode=4,
    cmp_mask_mode=3,
    ori_win_left=127,
    ori_win_right=0,
    layout_q="BSND",
    layout_kv="BSND",
    return_softmax_lse=False,
):
    r"""Attention over a window of keys and over compressed keys, in one softmax with a sink.

    The attention of DeepSeek V4, by the names of CANN's operator. A key is the value, too. Query
    `i` of a segment stands at position :math:`p = i + S_{ori} - S_q`. It sees the keys
    :math:`p - left .. p + right`, and of the compressed keys, each of which stands for `r` tokens,
    the first :math:`n = (i + 1 + S_{cmp} r + residual - S_q) / r`, rounded down: all of them (HCA),
    or those of `cmp_sparse_indices` (CSA). Without `cmp_kv` there is the window alone.

    It is a composition: a list of rows for every query, and `sparse_flash_attention`. The list has
    :math:`4 (left + right + 1 + K)` bytes for a query, where `K` are its picks, or all compressed
    keys: 168 MB with 65536 queries, a window of 128 and 512 picks, 2.7 GB with 1M.

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

    Returns:
        Tuple of two Tensors. The first is differentiable by query, ori_kv, cmp_kv and sinks.

        - **attention_out** - The shape of the query; 0 in rows that belong to no segment.
        - **softmax_lse** - float32, shape :math:`(B, 1, S_q, N)` or :math:`(1, T_1, N)`;
          :math:`(0,)` without `return_softmax_lse`.

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
        >>> out, _ = sparse_flash_mla(
        ...     q, ori_kv=kv, cmp_kv=entries, cmp_ratio=4, ori_win_left=15, softmax_scale=32**-0.5)
        >>> print(out.shape)
        (1, 64, 8, 32)
    """
    _plan_sparse_flash_mla(
        query, ori_kv, cmp_kv, cmp_sparse_indices, cu_seqlens_q, cu_seqlens_ori_kv,
        cu_seqlens_cmp_kv, cmp_residual_kv, sinks, softmax_scale, cmp_ratio, ori_mask_mode,
        cmp_mask_mode, ori_win_left, ori_win_right, layout_q, layout_kv, return_softmax_lse,
    )  # fmt: skip
    shape = ops.shape(query)
    ends, query = _segments(query, cu_seqlens_q)
    ori_ends, rows = _segments(ori_kv, cu_seqlens_ori_kv)
    token = ops.arange(query.shape[0])
    segment = ops.searchsorted(ends[1:], token, right=True)
    segment = ops.minimum(segment, ends.shape[0] - 2)
    place = token - ops.gather(ends, segment, 0)
    width = min(ori_win_left + ori_win_right + 1, rows.shape[0])
    last = place + ori_win_right + _of(ori_ends, segment) - _of(ends, segment)
    seen = ops.expand_dims(last, 1) - ops.arange(width)
    indices = _rows(seen, ops.expand_dims(_of(ori_ends, segment), 1), ori_ends, segment, 0)
    if cmp_kv is not None:
        cmp_ends, entries = _segments(cmp_kv, cu_seqlens_cmp_kv)
        count = _of(cmp_ends, segment)
        if cmp_mask_mode == _CAUSAL:
            total = count * cmp_ratio + place + 1 - _of(ends, segment)
            if cmp_residual_kv is not None:
                residual = ops.cast(cmp_residual_kv, mindspore.int64)
                total = total + ops.gather(residual, segment, 0)
            count = ops.minimum(count, ops.floor_divide(total, cmp_ratio))
        if cmp_sparse_indices is None:
            longest = cmp_kv.shape[0] if layout_q == "TND" else cmp_kv.shape[1]
            picks = ops.expand_dims(ops.arange(longest), 0)
        else:
            picks = ops.reshape(cmp_sparse_indices, (query.shape[0], -1))
            picks = ops.cast(picks, mindspore.int64)
        picks = _rows(picks, ops.expand_dims(count, 1), cmp_ends, segment, rows.shape[0])
        indices = ops.concat((indices, picks), 1)
        rows = ops.concat((rows, entries))
    # Queries after the last segment see nothing.
    inside = ops.expand_dims(token < ends[-1], 1)
    indices = ops.where(inside, indices, ops.full_like(indices, -1))
    out, top, total = sparse_flash_attention(
        query, rows, rows, ops.expand_dims(ops.cast(indices, mindspore.int32), 1), softmax_scale,
        actual_seq_lengths_query=(query.shape[0],), actual_seq_lengths_kv=(rows.shape[0],),
        layout_query="TND", layout_kv="TND", sparse_mode=0, sinks=sinks,
        return_softmax_lse=return_softmax_lse,
    )  # fmt: skip
    if return_softmax_lse:
        top = top + ops.log(total)
        if layout_q == "BSND":
            top = ops.expand_dims(ops.reshape(top, shape[:3]), 1)
    return ops.reshape(out, shape), top


def _segments(x, cu_seqlens):
    """Prefix sums of segments with a leading 0, int64, and x as packed rows [T, heads, D]."""
    if cu_seqlens is not None:
        return ops.cast(cu_seqlens, mindspore.int64), x
    rows, length, heads, dim = ops.shape(x)
    return ops.arange(rows + 1) * length, ops.reshape(x, (rows * length, heads, dim))


def _of(ends, segment):
    """Length of each of the segments."""
    return ops.gather(ends[1:] - ends[:-1], segment, 0)


def _rows(places, stop, ends, segment, offset):
    """Rows [T, n] of places in [0, stop) of segments, -1 for others."""
    rows = places + ops.expand_dims(ops.gather(ends, segment, 0) + offset, 1)
    there = ops.logical_and(places >= 0, places < stop)
    return ops.where(there, rows, ops.full_like(rows, -1))
