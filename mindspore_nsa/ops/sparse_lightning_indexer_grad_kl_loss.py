"""The KL loss of an indexer over the tokens that it picked, with the gradients of the indexer."""

from functools import lru_cache
from typing import Any

from mindspore import Tensor

from ._custom import CACHE_SIZE, native_operator
from ._gradient import refusing_bprop
from ._indexer_kl_loss import checked_call
from ._operands import in_dtype
from ._plan import Planner
from ._types import IntList
from .generated.sparse_lightning_indexer_grad_kl_loss import (
    call_sparse_lightning_indexer_grad_kl_loss,
)

_OP = "SparseLightningIndexerGradKLLoss"
_FUNCTION = "sparse_lightning_indexer_grad_kl_loss"
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


def sparse_lightning_indexer_grad_kl_loss(
    query: Tensor,
    key: Tensor,
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    sparse_indices: Tensor,
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
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""The KL loss of an indexer over the tokens that it picked, with the gradients of the indexer.

    What DeepSeek Sparse Attention trains its indexer by: for every query, over the picked tokens
    that it sees, the divergence :math:`\sum_s p_s (\log p_s - \log y_s)` of the indexer's
    :math:`y = softmax(I)`, :math:`I_s = \sum_h w_h \max(0, q_h \cdot k_s)`, from the mean attention
    :math:`p` of the heads, which `softmax_max` and `softmax_sum` of `sparse_flash_attention` give
    without another softmax. It is the function of Ascend's extension of that name, which gives
    loss and gradients at once; `lightning_indexer_kl_loss` is the same as a differentiable loss.
    Nothing of the size of queries times keys is stored.

    Args:
        query (Tensor): Of the attention, shape :math:`(B, S_q, N, D)`, or :math:`(T_1, N, D)` with
            layout "TND", dtype float16, bfloat16 or float32. Where the floating inputs have
            different dtypes, they are promoted to the widest.
        key (Tensor): Shape :math:`(B, S_k, N_2, D)` or :math:`(T_2, N_2, D)`.
        query_index (Tensor): Of the indexer, shape :math:`(B, S_q, H, d)` or :math:`(T_1, H, d)`.
        key_index (Tensor): Shape :math:`(B, S_k, g, d)` or :math:`(T_2, g, d)`, where :math:`g`,
            mostly 1, divides :math:`N_2` and :math:`H`: each of these heads has the attention of
            its part of the heads as teacher.
        weights (Tensor): Shape :math:`(B, S_q, H)` or :math:`(T_1, H)`; read as float32.
        sparse_indices (Tensor): int32, shape :math:`(B, S_q, g, k)` or :math:`(T_1, g, k)`.
        softmax_max (Tensor): float32, shape :math:`(B, N_2, S_q, N / N_2)`, or
            :math:`(N_2, T_1, N / N_2)` with "TND".
        softmax_sum (Tensor): The same.
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
        >>> q, k = draw(1, 64, 8, 32), draw(1, 64, 1, 32)
        >>> q_index, k_index, w = draw(1, 64, 4, 16), draw(1, 64, 1, 16), draw(1, 64, 4)
        >>> picks, _ = mindspore_nsa.lightning_indexer(q_index, k_index, w, sparse_count=16)
        >>> _, top, total = mindspore_nsa.sparse_flash_attention(
        ...     q, k, k, picks, 32**-0.5, return_softmax_lse=True)
        >>> dq, dk, dw, loss = mindspore_nsa.sparse_lightning_indexer_grad_kl_loss(
        ...     q, k, q_index, k_index, w, picks, top, total, 32**-0.5)
        >>> print(dq.shape, dk.shape, dw.shape, loss.shape)
        (1, 64, 4, 16) (1, 64, 1, 16) (1, 64, 4) (1,)
    """
    operator, c = _plan_sparse_grad_kl_loss(
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
    )
    d_query, d_key, d_weights, loss = call_sparse_lightning_indexer_grad_kl_loss(
        operator,
        c,
        query=query,
        key=key,
        query_index=query_index,
        key_index=key_index,
        weights=weights,
        sparse_indices=sparse_indices,
        softmax_max=softmax_max,
        softmax_sum=softmax_sum,
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


_plan_sparse_grad_kl_loss = Planner(_plan_call, sparse_lightning_indexer_grad_kl_loss, op=_OP)
