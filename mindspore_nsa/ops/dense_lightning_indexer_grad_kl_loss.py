"""The KL loss of an indexer over all keys, with the gradients of the indexer."""

from functools import lru_cache
from typing import Any

from mindspore import Tensor

from ._custom import CACHE_SIZE, native_operator
from ._gradient import refusing_bprop
from ._indexer_kl_loss import checked_call
from ._operands import in_dtype
from ._plan import Planner
from ._types import IntList
from .generated.dense_lightning_indexer_grad_kl_loss import (
    call_dense_lightning_indexer_grad_kl_loss,
)

_OP = "DenseLightningIndexerGradKLLoss"
_FUNCTION = "dense_lightning_indexer_grad_kl_loss"
_NO_GRADIENT = (
    f"{_FUNCTION}: its results are gradients and have none; lightning_indexer_kl_loss is the loss "
    "that can be differentiated"
)


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs: Any) -> Any:
    bprop = refusing_bprop(_OP, _NO_GRADIENT)
    return native_operator(_OP, attrs, bprop)


def _plan_call(**given: Any) -> tuple[Any, ...]:
    call, _ = checked_call(_OP, _FUNCTION, given)
    operator = _operator(call.text())
    return operator.call, call.stand_ins()


def dense_lightning_indexer_grad_kl_loss(
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    softmax_max_index: Tensor,
    softmax_sum_index: Tensor,
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
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""The KL loss of an indexer over all keys that queries see, with the gradients of the indexer.

    What the indexer of DeepSeek Sparse Attention is trained by first, beside dense attention: for
    every query, over all keys that it sees, the divergence
    :math:`\sum_s p_s (\log p_s - \log y_s)` of the indexer's :math:`y = softmax(I)`,
    :math:`I_s = \sum_h w_h \max(0, q_h \cdot k_s)`, from the mean attention :math:`p` of the heads.
    The maximum and the sum of both softmaxes are given: those of the attention, and those of
    `dense_lightning_indexer_softmax_lse`. It is the function of Ascend's extension of that name;
    `lightning_indexer_kl_loss` without `sparse_indices` is the same as a differentiable loss.
    Nothing of the size of queries times keys is stored.

    Args:
        query (Tensor): Of the attention, shape :math:`(B, S_q, N, D)`, or :math:`(T_1, N, D)` with
            layout "TND", dtype float16, bfloat16 or float32. Where the floating inputs have
            different dtypes, they are promoted to the widest.
        key (Tensor): Shape :math:`(B, S_k, N_2, D)` or :math:`(T_2, N_2, D)`; mostly
            :math:`N_2 = N`.
        query_index (Tensor): Of the indexer, shape :math:`(B, S_q, H, d)` or :math:`(T_1, H, d)`.
        key_index (Tensor): Shape :math:`(B, S_k, g, d)` or :math:`(T_2, g, d)`, where :math:`g`,
            mostly 1, divides :math:`N_2` and :math:`H`: each of these heads has the attention of
            its part of the heads as teacher.
        weights (Tensor): Shape :math:`(B, S_q, H)` or :math:`(T_1, H)`; read as float32.
        softmax_max (Tensor): float32, shape :math:`(B, N_2, S_q, N / N_2)`, or
            :math:`(N_2, T_1, N / N_2)` with "TND".
        softmax_sum (Tensor): The same.
        softmax_max_index (Tensor): Of the indexer, float32, shape :math:`(B, g, S_q)`, or
            :math:`(g, T_1)` with "TND".
        softmax_sum_index (Tensor): The same.
        scale_value (float): Factor of the scores of the attention.

    Keyword Args:
        query_rope (Tensor, optional): :math:`R` more dimensions of the query. Default: ``None``.
        key_rope (Tensor, optional): The same of the key. Default: ``None``.
        actual_seq_qlen (Union[tuple[int], list[int], Tensor], optional): With "TND" the inclusive
            prefix sums of the segments' queries, which may end before :math:`T_1`; otherwise the
            number of queries of every batch element. A Tensor has shape :math:`(B,)` and dtype
            int64 or int32. Default: ``None``, allowed unless with "TND": all of them.
        actual_seq_klen (Union[tuple[int], list[int], Tensor], optional): The same for keys.
            Default: ``None``.
        layout (str, optional): "BSND" or "TND". Default: ``"BSND"``.
        sparse_mode (int, optional): 3: query `i` sees the keys up to :math:`i + S_k - S_q`; 0: all.
            Default: ``3``.
        pre_tokens (int, optional): Reserved. Default: ``9223372036854775807``.
        next_tokens (int, optional): Reserved. Default: ``9223372036854775807``.

    Returns:
        Tuple of four Tensors, which have no gradient.

        - **d_query_index**, **d_key_index**, **d_weights** - Gradients of the loss, shapes and
          dtypes of these inputs; 0 in rows that belong to no segment.
        - **loss** - The sum over all queries, float32, shape :math:`(1,)`.

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
        >>> q, k = draw(1, 64, 8, 32), draw(1, 64, 8, 32)
        >>> _, top, total = mindspore_nsa.flash_attention_score(
        ...     q, k, k, 8, scalar_value=32**-0.5, input_layout="BSND", sparse_mode=3,
        ...     return_softmax=True)
        >>> top, total = top[..., :1], total[..., :1]
        >>> indexer = draw(1, 64, 4, 16), draw(1, 64, 1, 16), draw(1, 64, 4)
        >>> statistics = mindspore_nsa.dense_lightning_indexer_softmax_lse(*indexer)
        >>> dq, dk, dw, loss = mindspore_nsa.dense_lightning_indexer_grad_kl_loss(
        ...     q, k, *indexer, top, total, *statistics, 32**-0.5)
        >>> print(dq.shape, dk.shape, dw.shape, loss.shape)
        (1, 64, 4, 16) (1, 64, 1, 16) (1, 64, 4) (1,)
    """
    operator, c = _plan_dense_grad_kl_loss(
        query,
        key,
        query_index,
        key_index,
        weights,
        softmax_max,
        softmax_sum,
        softmax_max_index,
        softmax_sum_index,
        scale_value,
        query_rope,
        key_rope,
        actual_seq_qlen,
        actual_seq_klen,
        layout,
        sparse_mode,
        pre_tokens,
        next_tokens,
    )
    d_query, d_key, d_weights, loss = call_dense_lightning_indexer_grad_kl_loss(
        operator,
        c,
        query=query,
        key=key,
        query_index=query_index,
        key_index=key_index,
        weights=weights,
        softmax_max=softmax_max,
        softmax_sum=softmax_sum,
        softmax_max_index=softmax_max_index,
        softmax_sum_index=softmax_sum_index,
        query_rope=query_rope,
        key_rope=key_rope,
        actual_seq_qlen=actual_seq_qlen,
        actual_seq_klen=actual_seq_klen,
    )
    return (
        in_dtype(d_query, query_index.dtype),
        in_dtype(d_key, key_index.dtype),
        in_dtype(d_weights, weights.dtype),
        loss,
    )


_plan_dense_grad_kl_loss = Planner(_plan_call, dense_lightning_indexer_grad_kl_loss, op=_OP)
