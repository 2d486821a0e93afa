"""The gradients of an indexer's KL loss for a teacher that is given."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ._custom import encode_attrs
from ._gradient import gradient_operator
from ._picked import index_scores
from ._plan import NativeCall, Planner, TensorSpec, require_none
from ._segment_rows import (
    INTS,
    check_choice,
    check_int,
    check_tensor,
    checked_values,
    lengths,
    places,
    segments,
    visible,
)
from .lightning_indexer_v2 import check_lists

_FUNCTION = "sparse_lightning_indexer_kl_loss_grad"
_INDEXER, _GRAD = "LightningIndexer", "LightningIndexerGrad"
_LAYOUTS = ("TND", "BSND")
_LISTS = ("actual_seq_lengths_query", "actual_seq_lengths_key")
_NO_GRADIENT = (
    f"{_FUNCTION}: its results are gradients and have none; lightning_indexer_kl_loss is a loss "
    "that can be differentiated"
)
_NOTHING = -3e38


def _check_shapes(given: dict[str, Any], rank: Any) -> None:
    """The rules of query, key and weights are those of the indexer."""
    call = {name: given[name] for name in ("query", "key", "weights")}
    sums = TensorSpec((mindspore.int64, (-1,), None)) if rank == 3 else None
    call.update(dict.fromkeys(_LISTS, sums), block_table=None, compress_residual=None)
    call.update(layout_query=given["layout_q"], layout_key=given["layout_q"], sparse_count=1)
    NativeCall(_INDEXER, call, function=_FUNCTION).infer()
    if given["key"].shape[-2] not in (-1, 1):
        raise ValueError(f"{_FUNCTION}: key must have one head, got shape {given['key'].shape}")
    picks, teacher = given["sparse_indices"].shape, given["attn_softmax_l1_norm"].shape
    want = (*given["query"].shape[:-2], 1)
    for name, shape, expected in (
        ("sparse_indices", picks[:-1], want),
        ("attn_softmax_l1_norm", teacher, picks),
    ):
        if any(-1 not in pair and pair[0] != pair[1] for pair in zip(shape, expected, strict=True)):
            more = " and picks" if name == "sparse_indices" else ", that of sparse_indices"
            raise ValueError(
                f"{_FUNCTION}: {name} must be of shape {expected}{more}, got {given[name].shape}"
            )


def _plan_call(**given: Any) -> Any:
    check_choice(_FUNCTION, given, "layout_q", _LAYOUTS)
    check_choice(_FUNCTION, given, "layout_k", (given["layout_q"],))
    check_choice(_FUNCTION, given, "mask_mode", (0, 3))
    check_int(_FUNCTION, given, "cmp_ratio", 1)
    require_none(_FUNCTION, "metadata", given["metadata"])
    check_lists(_FUNCTION, given)
    rank = 3 if given["layout_q"] == "TND" else 4
    check_tensor(_FUNCTION, given, "weights", rank - 1)
    check_tensor(_FUNCTION, given, "sparse_indices", rank, (mindspore.int32,))
    check_tensor(_FUNCTION, given, "attn_softmax_l1_norm", rank)
    if given["cmp_residual_k"] is not None:
        check_tensor(_FUNCTION, given, "cmp_residual_k", 1, INTS)
    _check_shapes(given, rank)
    layouts = {"layout_query": "TND", "layout_key": "TND"}
    attrs = encode_attrs(_GRAD, layouts, ("weights", *_LISTS))
    return gradient_operator(_GRAD, attrs, _FUNCTION).call


def sparse_lightning_indexer_kl_loss_grad(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    sparse_indices: Tensor,
    attn_softmax_l1_norm: Tensor,
    *,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    seqused_q: Tensor | None = None,
    seqused_k: Tensor | None = None,
    cmp_residual_k: Tensor | None = None,
    metadata: Tensor | None = None,
    layout_q: str = "TND",
    layout_k: str = "TND",
    mask_mode: int = 3,
    cmp_ratio: int = 1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""The gradients of an indexer's KL loss over its picks, for a teacher that is given.

    With the scores :math:`I_s = \sum_h w_h \max(0, q_h \cdot k_s)` of the picks that a query sees,
    :math:`y = softmax(I)` and the teacher `p`, the divergence
    :math:`\sum_s p_s (\log p_s - \log y_s)` has the gradient :math:`dI_s = y_s \sum_t p_t - p_s`,
    which goes on to query, key and weights. `p` need not sum to 1, such as that of
    `sparse_flash_mla`. It is CANN's operator of that name, for any number and size of heads.

    Scores of given picks are a composition: their keys are gathered for some queries at a time, in
    at most 64 MB, in a graph at least for a 32nd of the queries.

    Args:
        query (Tensor): Of the indexer, shape :math:`(T_1, H, d)`, or :math:`(B, S_q, H, d)` with
            layout "BSND", dtype float16, bfloat16 or float32.
        key (Tensor): Shape :math:`(T_2, 1, d)` or :math:`(B, S_k, 1, d)`.
        weights (Tensor): Shape :math:`(T_1, H)` or :math:`(B, S_q, H)`; read as float32.
        sparse_indices (Tensor): int32, shape :math:`(T_1, 1, k)` or :math:`(B, S_q, 1, k)`, numbers
            in the segment; those that a query does not see, and -1, count for nothing.
        attn_softmax_l1_norm (Tensor): The teacher, the shape of `sparse_indices`; read as float32.

    Keyword Args:
        cu_seqlens_q (Tensor, optional): With "TND" prefix sums of the segments' queries with a
            leading 0, shape :math:`(B + 1,)`, int64 or int32. Default: ``None``.
        cu_seqlens_k (Tensor, optional): Those of the keys. Default: ``None``.
        seqused_q (Tensor, optional): With "BSND" the number of queries of every row, shape
            :math:`(B,)`, int64 or int32. Default: ``None``, all.
        seqused_k (Tensor, optional): That of keys. Default: ``None``, all.
        cmp_residual_k (Tensor, optional): Tokens of every segment after those of its last key,
            shape :math:`(B,)`, int64 or int32. Default: ``None``, zeros.
        metadata (Tensor, optional): Reserved. Default: ``None``.
        layout_q (str, optional): "TND" or "BSND". Default: ``"TND"``.
        layout_k (str, optional): That of the query. Default: ``"TND"``.
        mask_mode (int, optional): 3: query `i` sees the first
            :math:`(i + 1 + S_k r + residual - S_q) / r` keys, rounded down; 0: all.
            Default: ``3``.
        cmp_ratio (int, optional): Tokens that a key stands for, `r`, at least 1. Default: ``1``.

    Returns:
        Tuple of four Tensors, which have no gradients.

        - **d_query**, **d_key**, **d_weights** - Of the sum over all queries, with the shapes and
          dtypes of query, key and weights.
        - **softmax_out** - `y`, float32, the shape of `sparse_indices`; 0 for picks that count for
          nothing.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a compiled graph runs.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa import ops
        >>> q = Tensor(np.random.randn(1, 64, 8, 32).astype(np.float32))
        >>> k = Tensor(np.random.randn(1, 64, 1, 32).astype(np.float32))
        >>> w = Tensor(np.random.randn(1, 64, 8).astype(np.float32))
        >>> picks, _ = ops.lightning_indexer_v2(q, k, w, 4, mask_mode=3)
        >>> teacher = Tensor(np.full((1, 64, 1, 4), 0.25, np.float32))
        >>> dq, dk, dw, y = ops.sparse_lightning_indexer_kl_loss_grad(
        ...     q, k, w, picks, teacher, layout_q="BSND", layout_k="BSND")
        >>> print(dq.shape, y.shape)
        (1, 64, 8, 32) (1, 64, 1, 4)
    """
    gradient = _plan_kl_loss_grad(
        query, key, weights, sparse_indices, attn_softmax_l1_norm, cu_seqlens_q, cu_seqlens_k,
        seqused_q, seqused_k, cmp_residual_k, metadata, layout_q, layout_k, mask_mode, cmp_ratio,
    )  # fmt: skip
    shapes = ops.shape(query), ops.shape(key), ops.shape(weights), ops.shape(sparse_indices)
    ends, q = segments(_FUNCTION, "query", query, "cu_seqlens_q", cu_seqlens_q)
    key_ends, k = segments(_FUNCTION, "key", key, "cu_seqlens_k", cu_seqlens_k)
    q, k = ops.cast(q, mindspore.float32), ops.cast(k, mindspore.float32)
    w = ops.reshape(ops.cast(weights, mindspore.float32), (q.shape[0], -1))
    segment, place = places(ends, q.shape[0])
    queries, keys = lengths(ends, segment), lengths(key_ends, segment)
    if seqused_q is not None:
        used = checked_values(_FUNCTION, "seqused_q", "query", seqused_q, query)
        queries = ops.gather(ops.cast(used, mindspore.int32), segment, 0)
    if seqused_k is not None:
        used = checked_values(_FUNCTION, "seqused_k", "key", seqused_k, key)
        keys = ops.gather(ops.cast(used, mindspore.int32), segment, 0)
    count = keys
    if mask_mode == 3:
        count = visible(keys, queries, place, cmp_ratio, cmp_residual_k, segment)
    count = ops.expand_dims(ops.where(place < queries, count, ops.zeros_like(count)), 1)
    picks = ops.reshape(sparse_indices, (q.shape[0], -1))
    there = ops.logical_and(picks >= 0, picks < count)
    picks = ops.where(there, picks, ops.full_like(picks, -1))
    rows = picks + ops.expand_dims(ops.gather(key_ends, segment, 0), 1)
    scores = index_scores(q, k[:, 0], w, ops.where(there, rows, picks), _NO_GRADIENT)
    scores = ops.where(there, scores, ops.full_like(scores, _NOTHING))
    weight = ops.exp(scores - ops.max(scores, 1, True)[0])
    weight = ops.where(there, weight, ops.zeros_like(weight))
    total = ops.sum(weight, 1, True)
    y = weight / ops.where(total > 0, total, ops.ones_like(total))
    p = ops.reshape(ops.cast(attn_softmax_l1_norm, mindspore.float32), ops.shape(y))
    p = ops.where(there, p, ops.zeros_like(p))
    slope = y * ops.sum(p, 1, True) - p
    dq, dk, dw = gradient(
        q, k, ops.expand_dims(slope, 1), ops.expand_dims(picks, 1), w,
        ops.cast(ends[1:], mindspore.int64), ops.cast(key_ends[1:], mindspore.int64),
    )  # fmt: skip
    return (
        ops.cast(ops.reshape(dq, shapes[0]), query.dtype),
        ops.cast(ops.reshape(dk, shapes[1]), key.dtype),
        ops.cast(ops.reshape(dw, shapes[2]), weights.dtype),
        ops.reshape(y, shapes[3]),
    )


_plan_kl_loss_grad = Planner(
    _plan_call,
    sparse_lightning_indexer_kl_loss_grad,
    lists=("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k"),
)
