"""The softmax statistics of an indexer's scores over all keys that queries see."""

from functools import lru_cache
from typing import Any

from mindspore import Tensor

from ._custom import CACHE_SIZE, native_operator
from ._gradient import refusing_bprop
from ._indexer_kl_loss import checked_call
from ._plan import Planner
from ._types import IntList
from .generated.dense_lightning_indexer_softmax_lse import call_dense_lightning_indexer_softmax_lse

_OP = "DenseLightningIndexerSoftmaxLse"
_FUNCTION = "dense_lightning_indexer_softmax_lse"
_NO_GRADIENT = f"{_FUNCTION}: softmax_max_index and softmax_sum_index have no gradient"


@lru_cache(maxsize=CACHE_SIZE)
def index_log_sum(attrs: Any) -> Any:
    """The operator."""
    bprop = refusing_bprop(_OP, _NO_GRADIENT)
    return native_operator(_OP, attrs, bprop)


def _plan_call(**given: Any) -> tuple[Any, ...]:
    call, _ = checked_call(_OP, _FUNCTION, given)
    operator = index_log_sum(call.text())
    return operator.call, call.stand_ins()


def dense_lightning_indexer_softmax_lse(
    query_index: Tensor,
    key_index: Tensor,
    weights: Tensor,
    *,
    actual_seq_qlen: IntList | None = None,
    actual_seq_klen: IntList | None = None,
    layout: str = "BSND",
    sparse_mode: int = 3,
    pre_tokens: int = 9223372036854775807,
    next_tokens: int = 9223372036854775807,
) -> tuple[Tensor, Tensor]:
    r"""The softmax statistics of an indexer's scores over all keys that queries see.

    For every query the maximum of :math:`I_s = \sum_h w_h \max(0, q_h \cdot k_s)` over the keys
    that it sees, and the sum of :math:`\exp(I_s - max)`: what the student's softmax is to
    `dense_lightning_indexer_grad_kl_loss`. It is the function of Ascend's extension of that name.
    Nothing of the size of queries times keys is stored.

    Args:
        query_index (Tensor): Shape :math:`(B, S_q, H, d)`, or :math:`(T_1, H, d)` with layout
            "TND", dtype float16, bfloat16 or float32. Where query and key have different dtypes,
            they are promoted to the widest.
        key_index (Tensor): Shape :math:`(B, S_k, g, d)` or :math:`(T_2, g, d)`, where :math:`g`,
            mostly 1, divides :math:`H`.
        weights (Tensor): Shape :math:`(B, S_q, H)` or :math:`(T_1, H)`; read as float32.

    Keyword Args:
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
        Tuple of two Tensors, float32, shape :math:`(B, g, S_q)`, or :math:`(g, T_1)` with "TND",
        which have no gradient.

        - **softmax_max_index** - The maximum; -FLT_MAX where a query sees nothing, and in rows that
          belong to no segment.
        - **softmax_sum_index** - The sum; FLT_MAX there.

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
        >>> top, total = mindspore_nsa.dense_lightning_indexer_softmax_lse(
        ...     draw(1, 64, 4, 16), draw(1, 64, 1, 16), draw(1, 64, 4))
        >>> print(top.shape, total.shape)
        (1, 1, 64) (1, 1, 64)
    """
    operator, c = _plan_index_softmax_lse(
        query_index,
        key_index,
        weights,
        actual_seq_qlen,
        actual_seq_klen,
        layout,
        sparse_mode,
        pre_tokens,
        next_tokens,
    )
    return call_dense_lightning_indexer_softmax_lse(
        operator,
        c,
        query_index=query_index,
        key_index=key_index,
        weights=weights,
        actual_seq_qlen=actual_seq_qlen,
        actual_seq_klen=actual_seq_klen,
    )


_plan_index_softmax_lse = Planner(_plan_call, dense_lightning_indexer_softmax_lse, op=_OP)
