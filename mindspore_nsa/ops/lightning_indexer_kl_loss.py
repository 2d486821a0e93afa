"""The KL loss that trains an indexer, as a loss that can be differentiated."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import mindspore
from mindspore import Tensor, ops

from ._custom import CACHE_SIZE, native_operator, planned_target
from ._gradient import second_order_text, without_gradient
from ._indexer_kl_loss import checked_call
from ._operands import used_with
from ._plan import Planner, TensorSpec, shown
from ._types import IntList
from .dense_lightning_indexer_softmax_lse import index_log_sum
from .generated.dense_lightning_indexer_grad_kl_loss import (
    bprop_of_dense_lightning_indexer_grad_kl_loss,
    call_dense_lightning_indexer_grad_kl_loss,
)
from .generated.dense_lightning_indexer_softmax_lse import call_dense_lightning_indexer_softmax_lse
from .generated.sparse_lightning_indexer_grad_kl_loss import (
    bprop_of_sparse_lightning_indexer_grad_kl_loss,
    call_sparse_lightning_indexer_grad_kl_loss,
)

_FUNCTION = "lightning_indexer_kl_loss"
_SPARSE = "SparseLightningIndexerGradKLLoss"
_DENSE = "DenseLightningIndexerGradKLLoss"
_LOG_SUM = "DenseLightningIndexerSoftmaxLse"
_REDUCTIONS = ("mean", "sum")
_BPROPS: dict[str, Callable[..., Any]] = {
    _SPARSE: bprop_of_sparse_lightning_indexer_grad_kl_loss,
    _DENSE: bprop_of_dense_lightning_indexer_grad_kl_loss,
}


class _Plan(NamedTuple):
    """Plan of a call.

    Attributes:
        operator: What gives the loss.
        c: The stand-ins of its call.
        log_sum: What gives the indexer's statistics; None where it picks tokens.
        log_sum_c: The stand-ins of its call.
        factor: Of the loss; None if it depends on sizes that only the graph knows.
    """

    operator: Any
    c: Any
    log_sum: Any
    log_sum_c: Any
    factor: Any


@lru_cache(maxsize=CACHE_SIZE)
def _operator(op: str, attrs: Any, given: Any, target: str) -> Any:
    guard = without_gradient(second_order_text(_FUNCTION))

    def slopes(out: Any, dout: Any) -> tuple[Any, ...]:
        """The gradients beside the loss, times that of the loss."""
        by = used_with(dout[3], dout[0], dout[1], dout[2])
        return (
            ops.cast(guard(out[0]) * by, out[0].dtype),
            ops.cast(guard(out[1]) * by, out[1].dtype),
            guard(out[2]) * by,
        )

    return native_operator(op, attrs, _BPROPS[op](slopes, given))


def _dense_calls(given: dict[str, Any]) -> tuple[Any, ...]:
    """The call of what gives the indexer's statistics, and that of the loss over all keys."""
    log_sum, statistics = checked_call(_LOG_SUM, _FUNCTION, given)
    more = ("softmax_max_index", "softmax_sum_index")
    for name, (_, shape) in zip(more, statistics, strict=True):
        known = None if list(shape) == [-2] else tuple(shape)
        given[name] = TensorSpec((mindspore.float32, known, None))
    call, _ = checked_call(_DENSE, _FUNCTION, given)
    return log_sum, call


def _fixed(x: Tensor) -> Any:
    """A Tensor or None to which no gradient goes."""
    return x if x is None else ops.stop_gradient(x)


def _plan_call(**given: Any) -> Any:
    reduction, coeff = given["reduction"], given["coeff"]
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{_FUNCTION}: reduction must be 'mean' or 'sum', got {shown(reduction)}")
    if type(coeff) not in (int, float):
        raise TypeError(f"{_FUNCTION}: coeff must be a float, got {shown(coeff)}")
    log_sum = log_sum_c = None
    if given["sparse_indices"] is None:
        statistics, call = _dense_calls(given)
        log_sum, log_sum_c = index_log_sum(statistics.text()).call, statistics.stand_ins()
    else:
        call, _ = checked_call(_SPARSE, _FUNCTION, given)
    operator = _operator(call.op, call.text(), call.bprop_given(), planned_target.get())
    factor = None
    if reduction == "sum":
        factor = float(coeff)
    elif given["query"].shape is not None and min(given["query"].shape[:-2]) >= 0:
        factor = float(coeff) / max(math.prod(given["query"].shape[:-2]), 1)
    return _Plan(operator.call, call.stand_ins(), log_sum, log_sum_c, factor)


def lightning_indexer_kl_loss(
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    sparse_indices: Tensor | None,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    scale_value: float,
    *,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    actual_seq_qlen: IntList | None = None,
    actual_seq_klen: IntList | None = None,
    layout: str = "BSND",
    sparse_mode: int = 3,
    pre_tokens: int = 9223372036854775807,
    next_tokens: int = 9223372036854775807,
    reduction: str = "mean",
    coeff: float = 1.0,
) -> Tensor:
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
    operator, c, log_sum, log_sum_c, factor = _plan_kl_loss(
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
    if log_sum is None:
        out = call_sparse_lightning_indexer_grad_kl_loss(
            operator,
            c,
            query=ops.stop_gradient(query),
            key=ops.stop_gradient(key),
            query_index=query_index,
            key_index=key_index,
            weights=weights,
            sparse_indices=ops.stop_gradient(sparse_indices),
            softmax_max=ops.stop_gradient(softmax_max),
            softmax_sum=ops.stop_gradient(softmax_sum),
            query_rope=_fixed(query_rope),
            key_rope=_fixed(key_rope),
            actual_seq_qlen=actual_seq_qlen,
            actual_seq_klen=actual_seq_klen,
        )
    else:
        top, total = call_dense_lightning_indexer_softmax_lse(
            log_sum,
            log_sum_c,
            query_index=ops.stop_gradient(query_index),
            key_index=ops.stop_gradient(key_index),
            weights=ops.stop_gradient(weights),
            actual_seq_qlen=actual_seq_qlen,
            actual_seq_klen=actual_seq_klen,
        )
        out = call_dense_lightning_indexer_grad_kl_loss(
            operator,
            c,
            query=ops.stop_gradient(query),
            key=ops.stop_gradient(key),
            query_index=query_index,
            key_index=key_index,
            weights=weights,
            softmax_max=ops.stop_gradient(softmax_max),
            softmax_sum=ops.stop_gradient(softmax_sum),
            softmax_max_index=ops.stop_gradient(top),
            softmax_sum_index=ops.stop_gradient(total),
            query_rope=_fixed(query_rope),
            key_rope=_fixed(key_rope),
            actual_seq_qlen=actual_seq_qlen,
            actual_seq_klen=actual_seq_klen,
        )
    loss = out[3]
    if factor is None:  # the number of queries is known only when the graph runs
        # Rows are counted from the shape: a float16 sum, the dtype of weights, ends at 65504.
        sizes = ops.cast(ops.dyn_shape(ops.stop_gradient(weights))[:-1], mindspore.float32)
        factor = coeff / ops.maximum(ops.prod(sizes), 1)
    return ops.reshape(loss, ()) * factor


_plan_kl_loss = Planner(_plan_call, lightning_indexer_kl_loss, op=_SPARSE)
