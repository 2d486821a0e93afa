"""The KL loss that trains an indexer, as a loss that can be differentiated."""

import math
from functools import lru_cache

import mindspore
from mindspore import ops

from ._custom import CACHE_SIZE, native_operator, planned_target, run
from ._gradient import second_order_text, without_gradient, zero_gradient
from ._indexer_kl_loss import checked_call
from ._plan import Planner, TensorSpec, in_dtype, passed, shown
from .dense_lightning_indexer_softmax_lse import index_log_sum

_FUNCTION = "lightning_indexer_kl_loss"
_SPARSE = "SparseLightningIndexerGradKLLoss"
_DENSE = "DenseLightningIndexerGradKLLoss"
_LOG_SUM = "DenseLightningIndexerSoftmaxLse"
_REDUCTIONS = ("mean", "sum")


def _slopes(guard, out, dout):
    """The gradients beside a loss, times that of the loss. Part of graphs, too."""
    # Those of the gradients are zeros, or raise the error of their use where something needs them.
    unused = [ops.sum(ops.cast(x, dout[3].dtype)) for x in dout[:3]]
    by = dout[3] + 0 * (unused[0] + unused[1] + unused[2])
    return (
        ops.cast(guard(out[0]) * by, out[0].dtype),
        ops.cast(guard(out[1]) * by, out[1].dtype),
        guard(out[2]) * by,
    )


@lru_cache(maxsize=CACHE_SIZE)
def _sparse_operator(attrs, tensors, target):
    """Inputs of the attention have zeros for gradients."""
    guard = without_gradient(second_order_text(_FUNCTION))

    def bprop(
        query,
        key,
        query_index,
        key_index,
        weights,
        sparse_indices,
        softmax_max,
        softmax_sum,
        query_rope,
        key_rope,
        seq_qlen,
        seq_klen,
        out,
        dout,
    ):
        slopes = _slopes(guard, out, dout)
        return (
            ops.zeros_like(query),
            ops.zeros_like(key),
            slopes[0],
            slopes[1],
            slopes[2],
            ops.zeros_like(sparse_indices),
            ops.zeros_like(softmax_max),
            ops.zeros_like(softmax_sum),
            zero_gradient(query_rope, "query_rope" in tensors),
            zero_gradient(key_rope, "key_rope" in tensors),
            zero_gradient(seq_qlen, "actual_seq_qlen" in tensors),
            zero_gradient(seq_klen, "actual_seq_klen" in tensors),
        )

    return native_operator(_SPARSE, attrs, bprop)


@lru_cache(maxsize=CACHE_SIZE)
def _dense_operator(attrs, tensors, target):
    guard = without_gradient(second_order_text(_FUNCTION))

    def bprop(
        query,
        key,
        query_index,
        key_index,
        weights,
        softmax_max,
        softmax_sum,
        softmax_max_index,
        softmax_sum_index,
        query_rope,
        key_rope,
        seq_qlen,
        seq_klen,
        out,
        dout,
    ):
        slopes = _slopes(guard, out, dout)
        return (
            ops.zeros_like(query),
            ops.zeros_like(key),
            slopes[0],
            slopes[1],
            slopes[2],
            ops.zeros_like(softmax_max),
            ops.zeros_like(softmax_sum),
            ops.zeros_like(softmax_max_index),
            ops.zeros_like(softmax_sum_index),
            zero_gradient(query_rope, "query_rope" in tensors),
            zero_gradient(key_rope, "key_rope" in tensors),
            zero_gradient(seq_qlen, "actual_seq_qlen" in tensors),
            zero_gradient(seq_klen, "actual_seq_klen" in tensors),
        )

    return native_operator(_DENSE, attrs, bprop)


def _plan_dense(given):
    """(operator, that of the statistics, call) without picks."""
    log_sum, statistics = checked_call(_LOG_SUM, _FUNCTION, given)
    for name, (_, shape) in zip(("softmax_max_index", "softmax_sum_index"), statistics):
        known = None if list(shape) == [-2] else tuple(shape)
        given[name] = TensorSpec((mindspore.float32, known, None))
    call, _ = checked_call(_DENSE, _FUNCTION, given)
    operator = _dense_operator(call.text(), call.tensors, planned_target.get())
    return operator, index_log_sum(log_sum.text()), call


def _plan_call(reduction, coeff, **given):
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{_FUNCTION}: reduction must be 'mean' or 'sum', got {shown(reduction)}")
    if type(coeff) not in (int, float):
        raise TypeError(f"{_FUNCTION}: coeff must be a float, got {shown(coeff)}")
    if given["sparse_indices"] is None:
        operator, log_sum, call = _plan_dense(given)
    else:
        call, _ = checked_call(_SPARSE, _FUNCTION, given)
        operator = _sparse_operator(call.text(), call.tensors, planned_target.get())
        log_sum = None
    factor = None
    if reduction == "sum":
        factor = float(coeff)
    elif given["query"].shape is not None and min(given["query"].shape[:-2]) >= 0:
        factor = float(coeff) / max(math.prod(given["query"].shape[:-2]), 1)
    return operator, log_sum, call.casts, call.constants, factor


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
    operator, log_sum, casts, constants, factor = _plan_kl_loss(
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
    attention = (
        ops.stop_gradient(in_dtype(query, casts["query"])),
        ops.stop_gradient(in_dtype(key, casts["key"])),
    )
    indexer = (
        in_dtype(query_index, casts["query_index"]),
        in_dtype(key_index, casts["key_index"]),
        in_dtype(weights, casts["weights"]),
    )
    statistics = (
        ops.stop_gradient(in_dtype(softmax_max, casts["softmax_max"])),
        ops.stop_gradient(in_dtype(softmax_sum, casts["softmax_sum"])),
    )
    ropes = (
        _constant_of(in_dtype(query_rope, casts["query_rope"]), constants["query_rope"]),
        _constant_of(in_dtype(key_rope, casts["key_rope"]), constants["key_rope"]),
    )
    lists = (
        passed(actual_seq_qlen, constants["actual_seq_qlen"]),
        passed(actual_seq_klen, constants["actual_seq_klen"]),
    )
    if log_sum is None:
        picks = (ops.stop_gradient(sparse_indices),)
        loss = run(operator, attention + indexer + picks + statistics + ropes + lists)[3]
    else:
        fixed = (
            ops.stop_gradient(indexer[0]),
            ops.stop_gradient(indexer[1]),
            ops.stop_gradient(indexer[2]),
        )
        of_indexer = run(log_sum, fixed + lists)
        more = (ops.stop_gradient(of_indexer[0]), ops.stop_gradient(of_indexer[1]))
        loss = run(operator, attention + indexer + statistics + more + ropes + lists)[3]
    if factor is None:  # the number of queries is known only when the graph runs
        queries = ops.ones_like(ops.stop_gradient(weights[..., 0])).sum()
        factor = coeff / in_dtype(queries, loss.dtype)
    return ops.reshape(loss, ()) * factor


def _constant_of(x, constant):
    return ops.stop_gradient(passed(x, constant))
