"""Decoding: attention of the newest tokens over a cache of compressed ones, and their blocks."""

from typing import Any

from mindspore import Tensor

from ._gradient import cache_operator
from ._pages import check_pages
from ._plan import NativeCall, Planner, require_none
from ._types import IntList
from .generated.nsa_compress_attention_infer import call_nsa_compress_attention_infer

_OP = "NsaCompressAttentionInfer"
_FUNCTION = "nsa_compress_attention_infer"


def _plan_call(**given: Any) -> tuple[Any, ...]:
    require_none(_FUNCTION, "atten_mask", given["atten_mask"])
    require_none(_FUNCTION, "topk_mask", given["topk_mask"])
    call = NativeCall(_OP, given)
    call.infer()
    operator = cache_operator(_OP, call.text(), "nsa_compress_attention")
    return operator.call, call.stand_ins()


def nsa_compress_attention_infer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale_value: float,
    head_num: int,
    key_value_head_num: int,
    select_block_size: int,
    select_block_count: int,
    page_block_size: int,
    compress_block_size: int,
    compress_stride: int,
    *,
    layout: str = "TND",
    atten_mask: None = None,
    block_table: Tensor | None = None,
    topk_mask: None = None,
    actual_seq_qlen: IntList | None = None,
    actual_cmp_seq_kvlen: IntList,
    actual_sel_seq_kvlen: IntList | None = None,
    init_blocks: int = 0,
    local_blocks: int = 0,
    importance: str = "cann",
) -> tuple[Tensor, Tensor]:
    r"""Attention of the newest tokens of every row over its compressed tokens, and their blocks.

    The probabilities of the compressed tokens, summed over the heads of a group, say which
    selection blocks a query reads, as in :func:`mindspore_nsa.nsa_compress_attention`. With
    `actual_sel_seq_kvlen` the row's :math:`S` queries are the last of that many tokens: query `i`
    stands at position :math:`actual\_sel\_seq\_kvlen_b - S + i`, sees the windows that end there or
    before, and chooses among the blocks up to its own. Without, a query sees all compressed tokens
    of its row, and chooses among the blocks that one of them counts for: none where there is none.
    It is `torch_npu.npu_nsa_compress_attention_infer` of Ascend's PyTorch, with CANN's
    name; here :math:`S` and the page size may be any.

    Args:
        query (Tensor): Shape :math:`(T, N_1, D)` with layout "TND" or :math:`(B, S, N_1, D)` with
            layout "BSND", dtype float16, bfloat16 or float32. Where the dtypes of query, key and
            value differ, all are promoted to the widest, caches copied: give one dtype.
        key (Tensor): Pages of compressed tokens, shape
            :math:`(pages, page\_block\_size, N_2, D)` or
            :math:`(pages, page\_block\_size, N_2 D)`; without `block_table` one page for every row.
        value (Tensor): The same with :math:`D_v`.
        scale_value (float): Factor of the scores, typically :math:`D^{-0.5}`.
        head_num (int): :math:`N_1`, a multiple of :math:`N_2`.
        key_value_head_num (int): :math:`N_2`.
        select_block_size (int): Tokens of a selection block, :math:`l' \ge l`.
        select_block_count (int): Blocks that every query gets, `cnt`.
        page_block_size (int): Compressed tokens of a page.
        compress_block_size (int): Tokens of a window, :math:`l`, a multiple of :math:`s`.
        compress_stride (int): Tokens between the starts of neighbouring windows, :math:`s`.

    Keyword Args:
        layout (str, optional): ``"TND"`` or ``"BSND"``. Default: ``"TND"``.
        atten_mask (None): Reserved, as in torch_npu. Default: ``None``.
        block_table (Tensor, optional): Pages of every row, int32, shape
            :math:`(B, pages\ of\ a\ row)`. Default: ``None``.
        topk_mask (None): Reserved, as in CANN. Default: ``None``.
        actual_seq_qlen (Union[tuple[int], list[int], Tensor], optional): With layout "TND" the
            number of queries of every row (not prefix sums), shape :math:`(B,)`, dtype int32 or
            int64. A Tensor's values may change without a new graph; so for the other lists.
            Default: ``None``, the same number for every row.
        actual_cmp_seq_kvlen (Union[tuple[int], list[int], Tensor]): Compressed tokens of every row.
        actual_sel_seq_kvlen (Union[tuple[int], list[int], Tensor], optional): Tokens of every row,
            the queries included; needed where a row has more than one query. Then
            `actual_cmp_seq_kvlen` is the number of windows that are complete in them.
            Default: ``None``.
        init_blocks (int, optional): The row's first blocks, always chosen; needs
            `actual_sel_seq_kvlen`. Default: ``0``.
        local_blocks (int, optional): Blocks that end with the query's own, always chosen;
            likewise. Default: ``0``.
        importance (str, optional): ``"cann"`` or ``"overlap"``, see
            :func:`mindspore_nsa.nsa_compress_attention`. Default: ``"cann"``.

    Returns:
        Tuple of two Tensors.

        - **attention_out** - The shape of `query` with :math:`D_v` in place of `D`; 0 where a query
          sees nothing.
        - **topk_indices** - int32, :math:`(T, N_2, cnt)` or :math:`(B, S, N_2, cnt)`: forced blocks
          by index, then by falling score, then -1.

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
        >>> q, k = ms.ops.ones((2, 8, 32)), ms.ops.ones((2, 16, 2, 32))
        >>> out, blocks = mindspore_nsa.nsa_compress_attention_infer(
        ...     q, k, k, 32**-0.5, 8, 2, 64, 3, 16, 32, 16, actual_cmp_seq_kvlen=(15, 4),
        ...     actual_sel_seq_kvlen=(256, 80), init_blocks=1, local_blocks=1)
        >>> print(out.shape, blocks.shape)
        (2, 8, 32) (2, 2, 3)
        >>> print(blocks[1])
        [[ 0  1 -1]
         [ 0  1 -1]]
    """
    operator, c = _plan_nsa_compress_attention_infer(
        query,
        key,
        value,
        scale_value,
        head_num,
        key_value_head_num,
        select_block_size,
        select_block_count,
        page_block_size,
        compress_block_size,
        compress_stride,
        layout,
        atten_mask,
        block_table,
        topk_mask,
        actual_seq_qlen,
        actual_cmp_seq_kvlen,
        actual_sel_seq_kvlen,
        init_blocks,
        local_blocks,
        importance,
    )
    check_pages(
        "nsa_compress_attention_infer", "block_table", block_table, actual_cmp_seq_kvlen, key
    )
    return call_nsa_compress_attention_infer(
        operator,
        c,
        query=query,
        key=key,
        value=value,
        block_table=block_table,
        actual_seq_qlen=actual_seq_qlen,
        actual_cmp_seq_kvlen=actual_cmp_seq_kvlen,
        actual_sel_seq_kvlen=actual_sel_seq_kvlen,
    )


_plan_nsa_compress_attention_infer = Planner(_plan_call, nsa_compress_attention_infer, op=_OP)
