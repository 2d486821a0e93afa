"""The blocks of keys that an indexer's scores choose for every query."""

from functools import lru_cache
from numbers import Integral
from typing import Any

from mindspore import Tensor, ops

from ._custom import CACHE_SIZE, native_operator
from ._plan import NativeCall, Planner
from ._types import IntList
from .generated.block_indexer import (
    BlockIndexerGiven,
    call_block_indexer,
    zero_bprop_of_block_indexer,
)

_OP = "BlockIndexer"
_FUNCTION = "block_indexer"
# Sizes that are at least 1 where they are given.
_SIZES = ("head_groups", "compress_block_size", "compress_stride")


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs: Any, given: BlockIndexerGiven) -> Any:
    return native_operator(_OP, attrs, zero_bprop_of_block_indexer(given))


def _plan_call(**given: Any) -> tuple[Any, ...]:
    for name in _SIZES:
        if given[name] is None:
            del given[name]
        elif (
            isinstance(given[name], Integral) and type(given[name]) is not bool and given[name] < 1
        ):
            raise ValueError(f"{_FUNCTION}: {name} must be >= 1 or None, got {given[name]}")
    call = NativeCall(_OP, given)
    call.infer()
    operator = _operator(call.text(), call.bprop_given())
    return operator.call, call.stand_ins()


def block_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor | None = None,
    *,
    score: str,
    block_size: int,
    block_count: int,
    head_groups: int | None = None,
    scale: float = 1.0,
    init_blocks: int = 0,
    local_blocks: int = 0,
    compress_block_size: int | None = None,
    compress_stride: int | None = None,
    actual_seq_qlen: IntList,
    actual_seq_kvlen: IntList,
    q_offset: IntList | None = None,
) -> Tensor:
    r"""The blocks of keys that the scores of an indexer choose for every query, causally.

    The scores :math:`I[s] = \sum_h w[h] \cdot scale \cdot q[h] \cdot k[s]` of the keys, summed over
    the heads of a group, become scores of blocks of `block_size` tokens, of which every query and
    group takes the best `block_count`: what `nsa_selected_attention` with ``causal=True`` attends
    to. A query at position `i` of its segment sees the keys :math:`s \le i` and chooses among the
    blocks :math:`j \le i / block\_size`. Nothing of size :math:`T_1 \times T_2` is stored. Indices
    have no gradient.

    Args:
        query (Tensor): Shape :math:`(T_1, H, d)`, dtype float16, bfloat16 or float32. Where the
            dtypes of query and key differ, both are promoted to the widest.
        key (Tensor): Shape :math:`(T_2, N_k, d)`, where :math:`N_k` is 1 or the number of groups.
        weights (Tensor, optional): :math:`w`, shape :math:`(T_1, H)`, float16, bfloat16 or float32.
            Default: ``None``, ones.

    Keyword Args:
        score (str): What makes the score of a block:

            - ``"max"``: the largest :math:`I` of its visible keys (MSA).
            - ``"relu_weighted"``: the same with
              :math:`I[s] = \sum_h w[h] \max(0, scale \cdot q[h] \cdot k[s])`.
            - ``"mean"``: :math:`I` of the mean of its visible keys (MoBA).
            - ``"softmax_max"``: the keys are compressed tokens. The largest probability of those
              whose window touches the block; the probabilities are a softmax over the compressed
              tokens whose window has ended, summed over the heads of the group (InfLLM-v2).
              There are no `weights`.
        block_size (int): Tokens of a block, at least 1.
        block_count (int): Blocks that every query gets, at least 1.
        head_groups (int, optional): Groups of neighbouring heads, each of which chooses blocks of
            its own; :math:`H` is a multiple of it. Default: ``None``, :math:`N_k`.
        scale (float, optional): Factor of the products. Default: ``1.0``.
        init_blocks (int, optional): Number of first blocks that every query gets. Default: ``0``.
        local_blocks (int, optional): Number of blocks up to the query's own one that every query
            gets. `init_blocks` and `local_blocks` are at most `block_count` together.
            Default: ``0``.
        compress_block_size (int, optional): Tokens of a compressed token's window, given with
            ``"softmax_max"`` only. Default: ``None``.
        compress_stride (int, optional): Tokens between the starts of neighbouring windows,
            likewise. Default: ``None``.
        actual_seq_qlen (Union[tuple[int], list[int], Tensor]): Inclusive prefix sums of the
            segments' queries. A Tensor has shape :math:`(B,)` and dtype int64 or int32, and its
            values may change without a new graph; so for the other lists.
        actual_seq_kvlen (Union[tuple[int], list[int], Tensor]): The same for keys; of compressed
            tokens, which may end before :math:`T_2`, with ``"softmax_max"``.
        q_offset (Union[tuple[int], list[int], Tensor], optional): Position of every segment's first
            query, shape :math:`(B,)`. Default: ``None``, zeros.

    Returns:
        Tensor **topk_indices**, int32, shape :math:`(T_1, groups, block\_count)`: the blocks of
        `init_blocks` and `local_blocks` by index, then the others by falling score, equal ones by
        index and NaN last, then -1 where there are no more.

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
        >>> q = Tensor(np.random.randn(256, 4, 64).astype(np.float32))
        >>> k = Tensor(np.random.randn(256, 1, 64).astype(np.float32))
        >>> indices = mindspore_nsa.block_indexer(
        ...     q, k, score="max", block_size=32, block_count=4, head_groups=4, scale=64**-0.5,
        ...     local_blocks=1, actual_seq_qlen=(256,), actual_seq_kvlen=(256,))
        >>> print(indices.shape)
        (256, 4, 4)
        >>> print(indices[255, :, 0], indices[0, 0])
        [7 7 7 7] [ 0 -1 -1 -1]
    """
    operator, c = _plan_block_indexer(
        query,
        key,
        weights,
        score,
        block_size,
        block_count,
        head_groups,
        scale,
        init_blocks,
        local_blocks,
        compress_block_size,
        compress_stride,
        actual_seq_qlen,
        actual_seq_kvlen,
        q_offset,
    )
    indices = call_block_indexer(
        operator,
        c,
        query=query,
        key=key,
        weights=weights,
        actual_seq_qlen=actual_seq_qlen,
        actual_seq_kvlen=actual_seq_kvlen,
        q_offset=q_offset,
    )
    # Indices have no gradient, so that nothing is computed for those of what chose them.
    return ops.stop_gradient(indices)


_plan_block_indexer = Planner(_plan_call, block_indexer, op=_OP)
