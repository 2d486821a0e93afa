"""Decoding in one operator: all three branches of the newest tokens, from their caches."""

from typing import Any

from mindspore import Tensor

from ._gradient import cache_operator
from ._pages import check_pages
from ._plan import NativeCall, Planner
from ._types import IntList
from .generated.nsa_decode import call_nsa_decode

_OP = "NsaDecode"
_FUNCTION = "nsa_decode"
_CACHES = ("key_cmp", "value_cmp", "key_slc", "value_slc", "key_win", "value_win")


def _plan_call(**given: Any) -> tuple[Any, ...]:
    call = NativeCall(_OP, given)
    if call.casts["query"] is not None:
        dtypes = ", ".join(given[name].native()[0] for name in ("query", *_CACHES))
        raise TypeError(f"{_FUNCTION}: query and caches must be of one dtype, got {dtypes}")
    call.infer()
    operator = cache_operator(_OP, call.text(), "the operators of the three branches")
    return operator.call, call.stand_ins()


def nsa_decode(
    query: Tensor,
    gates: Tensor,
    key_cmp: Tensor,
    value_cmp: Tensor,
    key_slc: Tensor,
    value_slc: Tensor,
    key_win: Tensor,
    value_win: Tensor,
    scale_value: float,
    head_num: int,
    compress_block_size: int,
    compress_stride: int,
    select_block_size: int,
    select_block_count: int,
    window_size: int,
    *,
    layout: str = "TND",
    cache_layout: str = "BSND",
    block_table: Tensor | None = None,
    cmp_block_table: Tensor | None = None,
    actual_seq_qlen: IntList | None = None,
    actual_seq_kvlen: IntList,
    init_blocks: int = 0,
    local_blocks: int = 0,
    importance: str = "cann",
) -> Tensor:
    r"""Native Sparse Attention of the newest tokens of every row, from its caches.

    .. math::
        out = g_{cmp} Attn(q, K_{cmp}, V_{cmp}) + g_{slc} Attn(q, K_{slc}, V_{slc})
        + g_{win} Attn(q, K_{win}, V_{win})

    Row `b` has :math:`n =` `actual_seq_kvlen[b]` tokens, the last of them being its :math:`S`
    queries; query `i` stands at position :math:`n - S + i` and sees what the three operators of a
    whole sequence show it there, the blocks of the second branch being those that the first
    chooses. All threads work on one token; the number of threads and the order of the pages in
    memory change no bit of the result.

    Args:
        query (Tensor): Shape :math:`(T, N_1, D)` with layout "TND" or :math:`(B, S, N_1, D)` with
            layout "BSND", dtype float16, bfloat16 or float32.
        gates (Tensor): Gates of the compressed, the selected and the window's branch, in this
            order: float32, shape :math:`(T, 3, N_1)` or :math:`(B, S, 3, N_1)`.
        key_cmp (Tensor): Compressed keys, shape :math:`(pages, page, N_2, D)`, dtype of `query`; at
            least the windows that are complete in the row's tokens. Without `cmp_block_table` one
            page for every row.
        value_cmp (Tensor): Compressed values, shape :math:`(pages, page, N_2, D_v)`.
        key_slc (Tensor): Keys of the selected branch, likewise, one for each of the row's tokens.
        value_slc (Tensor): Its values.
        key_win (Tensor): Keys of the window's branch as rings, shape :math:`(B, R, N_2, D)`: token
            `t` in place :math:`t \bmod R`. :math:`R` is at least the tokens that the windows of the
            queries reach back to, ``min(n, window_size + S - 1)``.
        value_win (Tensor): Its values.
        scale_value (float): Factor of the scores, typically :math:`D^{-0.5}`.
        head_num (int): :math:`N_1`, a multiple of :math:`N_2`.
        compress_block_size (int): Tokens of a window of the compression, :math:`l`, a multiple of
            :math:`s`.
        compress_stride (int): Tokens between the starts of neighbouring ones, :math:`s`.
        select_block_size (int): Tokens of a selection block, :math:`l' \ge l`.
        select_block_count (int): Blocks that a query reads.
        window_size (int): Tokens of the sliding window, the query's own included.

    Keyword Args:
        layout (str, optional): ``"TND"`` or ``"BSND"``. Default: ``"TND"``.
        cache_layout (str, optional): ``"BSND"``, or ``"BNSD"`` for caches of shape
            :math:`(pages, N_2, page, D)`, in which the tokens of a head are neighbours: they are
            read faster. Default: ``"BSND"``.
        block_table (Tensor, optional): Pages of every row in `key_slc` and `value_slc`, int32,
            shape :math:`(B, pages\ of\ a\ row)`. Default: ``None``.
        cmp_block_table (Tensor, optional): Pages of every row in `key_cmp` and `value_cmp`,
            likewise. Default: ``None``.
        actual_seq_qlen (Union[tuple[int], list[int], Tensor], optional): With layout "TND" the
            number of queries of every row (not prefix sums), shape :math:`(B,)`, dtype int32 or
            int64. A Tensor's values may change without a new graph; so for the other list.
            Default: ``None``, the same number for every row.
        actual_seq_kvlen (Union[tuple[int], list[int], Tensor]): Tokens of every row, the queries
            included.
        init_blocks (int, optional): The row's first blocks, always chosen. Default: ``0``.
        local_blocks (int, optional): Blocks that end with the query's own, always chosen.
            Default: ``0``.
        importance (str, optional): ``"cann"`` or ``"overlap"`` (the paper), see
            :func:`mindspore_nsa.nsa_compress_attention`. Default: ``"cann"``. A layer trains with
            the `importance` of its configuration, ``"overlap"`` by default.

    Returns:
        Tensor, the shape of `query` with :math:`D_v` in place of `D`.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a graph runs, as it is for the contents of a
            table.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import mindspore as ms
        >>> import mindspore_nsa
        >>> q, gates = ms.ops.ones((2, 8, 32)), ms.ops.ones((2, 3, 8)) / 3
        >>> cmp, slc, win = (ms.ops.ones((2, n, 2, 32)) for n in (15, 256, 64))
        >>> out = mindspore_nsa.nsa_decode(
        ...     q, gates, cmp, cmp, slc, slc, win, win, 32**-0.5, 8, 32, 16, 64, 3, 64,
        ...     actual_seq_kvlen=(256, 80), init_blocks=1, local_blocks=1)
        >>> print(out.shape)
        (2, 8, 32)
    """
    operator, c = _plan_nsa_decode(
        query,
        gates,
        key_cmp,
        value_cmp,
        key_slc,
        value_slc,
        key_win,
        value_win,
        scale_value,
        head_num,
        compress_block_size,
        compress_stride,
        select_block_size,
        select_block_count,
        window_size,
        layout,
        cache_layout,
        block_table,
        cmp_block_table,
        actual_seq_qlen,
        actual_seq_kvlen,
        init_blocks,
        local_blocks,
        importance,
    )
    check_pages("nsa_decode", "block_table", block_table, actual_seq_kvlen, key_slc, cache_layout)
    check_pages(
        "nsa_decode",
        "cmp_block_table",
        cmp_block_table,
        actual_seq_kvlen,
        key_cmp,
        cache_layout,
        compress_block_size,
        compress_stride,
    )
    return call_nsa_decode(
        operator,
        c,
        query=query,
        gates=gates,
        key_cmp=key_cmp,
        value_cmp=value_cmp,
        key_slc=key_slc,
        value_slc=value_slc,
        key_win=key_win,
        value_win=value_win,
        block_table=block_table,
        cmp_block_table=cmp_block_table,
        actual_seq_qlen=actual_seq_qlen,
        actual_seq_kvlen=actual_seq_kvlen,
    )


_plan_nsa_decode = Planner(_plan_call, nsa_decode, op=_OP)
