"""The KL loss that trains an indexer, as a loss that can be differentiated."""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import mindspore
from mindspore import ops

from ._by_name import bprop_by_name, call_by_name
from ._custom import CACHE_SIZE, native_operator, planned_target
from ._gradient import second_order_text, without_gradient
from ._indexer_kl_loss import checked_call
from ._plan import Planner, TensorSpec, shown
from .dense_lightning_indexer_softmax_lse import index_log_sum

_FUNCTION = "lightning_indexer_kl_loss"
_SPARSE = "SparseLightningIndexerGradKLLoss"
_DENSE = "DenseLightningIndexerGradKLLoss"
_LOG_SUM = "DenseLightningIndexerSoftmaxLse"
_REDUCTIONS = ("mean", "sum")


# What the loss has no gradient for: what it knows of the attention, and the statistics.
_FIXED = (
    "query", "key", "query_rope", "key_rope", "sparse_indices", "softmax_max", "softmax_sum",
    "softmax_max_index", "softmax_sum_index"
)  # fmt: skip
_INDEXER = ("query_index", "key_index", "weights")


class _Plan(NamedTuple):
    """What a call comes to.

    Attributes:
        statistics: A function of the public function's arguments, in order, that gives those of
            the indexer; None where it picks tokens.
        call: A function of these statistics, or None, and the arguments that gives the operator's
            outputs.
        factor: Of the loss; None if it depends on sizes that only the graph knows.
    """

    statistics: Any
    call: Any
    factor: Any


@lru_cache(maxsize=CACHE_SIZE)
def _operator(op, attrs, tensors, target):
    guard = without_gradient(second_order_text(_FUNCTION))

    def slopes(out, dout):
        """The gradients beside the loss, times that of the loss."""
        # Those of the gradients are zeros, or raise the error of their use where something needs
        # them.
        unused = [ops.sum(ops.cast(x, dout[3].dtype)) for x in dout[:3]]
        by = dout[3] + 0 * (unused[0] + unused[1] + unused[2])
        return (
            ops.cast(guard(out[0]) * by, out[0].dtype),
            ops.cast(guard(out[1]) * by, out[1].dtype),
            guard(out[2]) * by,
        )

    return native_operator(op, attrs, bprop_by_name(op, tensors, slopes, results=_INDEXER))


def _dense_call(given, arguments):
    """The call without picks, and what gives the indexer's statistics for it."""
    log_sum, statistics = checked_call(_LOG_SUM, _FUNCTION, given, arguments)
    more = ("softmax_max_index", "softmax_sum_index")
    for name, (_, shape) in zip(more, statistics, strict=True):
        known = None if list(shape) == [-2] else tuple(shape)
        given[name] = TensorSpec((mindspore.float32, known, None))
    call, _ = checked_call(_DENSE, _FUNCTION, given, arguments)
    around = dict.fromkeys(_INDEXER, ops.stop_gradient)
    return call, call_by_name(call, index_log_sum(log_sum.text()), _LOG_SUM, around=around)


def _plan_call(**given):
    arguments = tuple(given)
    reduction, coeff = given["reduction"], given["coeff"]
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{_FUNCTION}: reduction must be 'mean' or 'sum', got {shown(reduction)}")
    if type(coeff) not in (int, float):
        raise TypeError(f"{_FUNCTION}: coeff must be a float, got {shown(coeff)}")
    statistics, sources = None, {}
    if given["sparse_indices"] is None:
        call, statistics = _dense_call(given, arguments)
        sources = {"softmax_max_index": "statistics[0]", "softmax_sum_index": "statistics[1]"}
    else:
        call, _ = checked_call(_SPARSE, _FUNCTION, given, arguments)
    operator = _operator(call.op, call.text(), call.tensors, planned_target.get())
    factor = None
    if reduction == "sum":
        factor = float(coeff)
    elif given["query"].shape is not None and min(given["query"].shape[:-2]) >= 0:
        factor = float(coeff) / max(math.prod(given["query"].shape[:-2]), 1)
    around = dict.fromkeys(_FIXED, ops.stop_gradient)
    of_call = call_by_name(call, operator, None, sources, ("statistics",), around)
    return _Plan(statistics, of_call, factor)


_plan_kl_loss = Planner(_plan_call, _FUNCTION, op=_SPARSE)


def lightning_indexer_kl_loss(
    query,
    key,
    query_index,
    key_index,
    weights,
    sparse_indices,
    softmax_max,
    softmax_sum,
    scale_value,
    *,
    query_rope=None,
    key_rope=None,
    actual_seq_qlen=None,
    actual_seq_klen=None,
    layout="BSND",
    sparse_mode=3,
    pre_tokens=9223372036854775807,
    next_tokens=9223372036854775807,
    reduction="mean",
    coeff=1.0,
):
    r"""The KL loss that trains an indexer, as a loss that can be differentiated.

    The loss of `sparse_lightning_indexer_grad_kl_loss`, which says what it is: how far the scores
    of an indexer, as probabilities of the tokens that it picked, are from the mean attention of the
    heads; without `sparse_indices` that of `dense_lightning_indexer_grad_kl_loss`, over all keys,
    by which an indexer is trained before anything is picked. Gradients go to `query_index`,
    `key_index` and `weights` alone; the attention is what they are taught by, and gets none. They
    are computed with the loss, and multiplied by the gradient of the loss in the backward pass.

    Args:
        query (Tensor): Of the attention, shape :math:`(B, S_q, N, D)`, or :math:`(T_1, N, D)` with
            layout "TND", dtype float16, bfloat16 or float32. Where the floating inputs have
            different dtypes, they are promoted to the widest.
        key (Tensor): Shape :math:`(B, S_k, N_2, D)` or :math:`(T_2, N_2, D)`.
        query_index (Tensor): Of the indexer, shape :math:`(B, S_q, H, d)` or :math:`(T_1, H, d)`.
        key_index (Tensor): Shape :math:`(B, S_k, g, d)` or :math:`(T_2, g, d)`, where :math:`g`
            divides :math:`N_2` and :math:`H`.
        weights (Tensor): Shape :math:`(B, S_q, H)` or :math:`(T_1, H)`; read as float32.
        sparse_indices (Tensor, optional): int32, shape :math:`(B, S_q, g, k)` or
            :math:`(T_1, g, k)`; None: all keys that a query sees.
        softmax_max (Tensor): float32, shape :math:`(B, N_2, S_q, N / N_2)`, or
            :math:`(N_2, T_1, N / N_2)` with "TND".
        softmax_sum (Tensor): The same.
        scale_value (float): Factor of the scores of the attention.

    Keyword Args:
        query_rope (Tensor, optional): :math:`R` more dimensions of the query. Default: ``None``.
        key_rope (Tensor, optional): The same of the key. Default: ``None``.
        actual_seq_qlen (Union[tuple[int], list[int], Tensor], optional): With "TND" the inclusive
            prefix sums of the segments' queries, which may end before :math:`T_1`; otherwise the
            number of queries of every batch element. Default: ``None``, allowed unless with "TND":
            all of them.
        actual_seq_klen (Union[tuple[int], list[int], Tensor], optional): The same for keys.
            Default: ``None``.
        layout (str, optional): "BSND" or "TND". Default: ``"BSND"``.
        sparse_mode (int, optional): 3: query `i` sees the keys up to :math:`i + S_k - S_q`; 0: all.
            Default: ``3``.
        pre_tokens (int, optional): Reserved. Default: ``9223372036854775807``.
        next_tokens (int, optional): Reserved. Default: ``9223372036854775807``.
        reduction (str, optional): "mean": the sum divided by :math:`B S_q` or :math:`T_1`; "sum".
            Default: ``"mean"``.
        coeff (float, optional): Factor of the loss. Default: ``1.0``.

    Returns:
        Tensor, float32, shape :math:`()`.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a compiled graph runs.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> import mindspore_nsa
        >>> from mindspore import Tensor
        >>> def draw(*shape):
        ...     return Tensor(np.random.randn(*shape).astype(np.float32))
        >>> q, k = draw(1, 64, 8, 32), draw(1, 64, 1, 32)
        >>> q_index, k_index, w = draw(1, 64, 4, 16), draw(1, 64, 1, 16), draw(1, 64, 4)
        >>> picks, _ = mindspore_nsa.lightning_indexer(q_index, k_index, w, sparse_count=16)
        >>> _, top, total = mindspore_nsa.sparse_flash_attention(
        ...     q, k, k, picks, 32**-0.5, return_softmax_lse=True)
        >>> loss = mindspore_nsa.lightning_indexer_kl_loss(
        ...     q, k, q_index, k_index, w, picks, top, total, 32**-0.5)
        >>> print(loss.shape, loss.asnumpy() > 0)
        () True
    """
    arguments = (
        query,
        key,
        query_index,
        key_index,
        weights,
        sparse_indices,
        softmax_max,
        softmax_sum,
        scale_value,
        query_rope,
        key_rope,
        actual_seq_qlen,
        actual_seq_klen,
        layout,
        sparse_mode,
        pre_tokens,
        next_tokens,
        reduction,
        coeff,
    )
    indexer_statistics, call, factor = _plan_kl_loss(*arguments)
    statistics = None
    if indexer_statistics is not None:
        statistics = indexer_statistics(*arguments)
    loss = call(statistics, *arguments)[3]
    if factor is None:  # the number of queries is known only when the graph runs
        # Of the shape: what is counted in the dtype of the weights ends at 65504 in float16.
        sizes = ops.cast(ops.dyn_shape(ops.stop_gradient(weights))[:-1], mindspore.float32)
        factor = coeff / ops.maximum(ops.prod(sizes), 1)
    return ops.reshape(loss, ()) * factor
