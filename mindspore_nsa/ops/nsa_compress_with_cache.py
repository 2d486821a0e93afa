"""Compression while decoding: a window becomes a row of a cache when its last token arrives."""

from typing import Any

from mindspore import Tensor, ops

from ._in_place import InPlace
from ._pages import check_pages
from ._plan import NativeCall, Planner
from ._types import IntList
from .generated.nsa_compress_with_cache import call_nsa_compress_with_cache

_OP = "NsaCompressWithCache"
_FUNCTION = "nsa_compress_with_cache"


def _plan_call(**given: Any) -> tuple[Any, ...]:
    call = NativeCall(_OP, given)
    if call.casts["input"] is not None:
        # A promoted copy of the cache would be written in its place.
        dtypes = ", ".join(given[name].native()[0] for name in ("input", "weight", "cache"))
        raise TypeError(f"{_FUNCTION}: input, weight and cache must be of one dtype, got {dtypes}")
    call.infer()
    return call.text(), call.stand_ins()


_in_place_nsa_compress_with_cache = InPlace(_OP, "nsa_compress", ("cache",), compares=True)


def nsa_compress_with_cache(
    input: Tensor,
    weight: Tensor,
    slot_mapping: IntList,
    compress_block_size: int,
    compress_stride: int,
    page_block_size: int,
    *,
    block_table: Tensor | None = None,
    actual_seq_len: IntList,
    cache: Tensor,
) -> Tensor:
    r"""Compress the windows that the newest tokens have filled, into a cache, in place.

    A row of `n` tokens fills a window where :math:`n \ge l` and :math:`(n - l) \bmod s = 0`; then

    .. math::
        cache[slot\_mapping_b, h] = \sum_{j < l} weight[j, h] \cdot token_b[n - l + j, h]

    Nothing else of the cache is written. It is `torch_npu.npu_nsa_compress_infer` of Ascend's
    PyTorch, with CANN's name.

    Args:
        input (Tensor): The rows' tokens: pages, shape :math:`(pages, page\_block\_size, N, D)`,
            with `block_table`; without it shape :math:`(T, N, D)`, the rows one after another.
            Dtype float16, bfloat16 or float32.
        weight (Tensor): Shape :math:`(l, N)`, dtype of `input`.
        slot_mapping (Union[tuple[int], list[int], Tensor]): The row of `cache` for every row of the
            batch, shape :math:`(B,)`, dtype int32 or int64; read, and without repetition, where the
            row fills a window.
        compress_block_size (int): Tokens of a window, :math:`l`.
        compress_stride (int): Tokens between the starts of neighbouring windows, :math:`s`.
        page_block_size (int): Tokens of a page; not used without `block_table`.

    Keyword Args:
        block_table (Tensor, optional): Pages of every row, int32, shape
            :math:`(B, pages\ of\ a\ row)`. Default: ``None``.
        actual_seq_len (Union[tuple[int], list[int], Tensor]): Tokens of every row (not prefix
            sums), shape :math:`(B,)`; a Tensor's values may change without a new graph.
        cache (Tensor): Shape :math:`(slots, N, D)`, dtype of `input`; written in place. No view of
            another Tensor, nor one that mixed precision casts, of which MindSpore passes copies. In
            a graph an argument or a Parameter. On Ascend in the memory of the device.

    Returns:
        Tensor, `cache`.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a graph runs, as it is for the contents of a
            table and for views; in PyNative mode, where a result is read, for a view of all of a
            Tensor. Nothing is written then.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import mindspore as ms
        >>> import mindspore_nsa
        >>> tokens = ms.ops.ones((48, 1, 16))  # two rows, of 32 and of 16 tokens
        >>> weight = ms.ops.ones((32, 1)) / 32
        >>> cache = ms.ops.zeros((4, 1, 16))
        >>> cache = mindspore_nsa.nsa_compress_with_cache(
        ...     tokens, weight, (2, 3), 32, 16, 64, actual_seq_len=(32, 16), cache=cache)
        >>> print(cache[:, 0, 0])
        [0. 0. 1. 0.]
    """
    text, c = _plan_nsa_compress_with_cache(
        input,
        weight,
        slot_mapping,
        compress_block_size,
        compress_stride,
        page_block_size,
        block_table,
        actual_seq_len,
        cache,
    )
    check_pages("nsa_compress_with_cache", "block_table", block_table, actual_seq_len, input)
    operator, mark = _in_place_nsa_compress_with_cache(text, cache)
    if mark is not None:
        mark(cache)
    rows = call_nsa_compress_with_cache(
        operator,
        c,
        input=input,
        weight=weight,
        slot_mapping=slot_mapping,
        block_table=block_table,
        actual_seq_len=actual_seq_len,
        cache=cache,
    )
    # A later reader of the cache waits for what was written.
    return ops.depend(cache, rows)


_plan_nsa_compress_with_cache = Planner(_plan_call, nsa_compress_with_cache, op=_OP)
