"""Decoding: attention of the newest tokens over their selected blocks of a cache."""

from typing import Any

from mindspore import Tensor

from ._gradient import cache_operator
from ._pages import check_pages
from ._plan import NativeCall, Planner, require_none
from ._types import IntList
from .generated.nsa_selected_attention_infer import call_nsa_selected_attention_infer

_OP = "NsaSelectedAttentionInfer"
_FUNCTION = "nsa_selected_attention_infer"


def _plan_call(**given: Any) -> tuple[Any, ...]:
    require_none(_FUNCTION, "atten_mask", given["atten_mask"])
    call = NativeCall(_OP, given)
    call.infer()
    operator = cache_operator(_OP, call.text(), "nsa_selected_attention")
    return operator.call, call.stand_ins()


def nsa_selected_attention_infer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    head_num: int,
    key_value_head_num: int,
    select_block_size: int,
    select_block_count: int,
    page_block_size: int,
    *,
    layout: str = "BSND",
    atten_mask: None = None,
    block_table: Tensor | None = None,
    actual_seq_qlen: IntList | None = None,
    actual_seq_kvlen: IntList,
) -> Tensor:
    r"""Attention of the newest tokens of every row over the selected blocks of its cache.

    Row `b` has `actual_seq_kvlen[b]` tokens in the cache, the last of them being its :math:`S`
    queries, and query `i` stands at position :math:`actual\_seq\_kvlen_b - S + i`: it sees the
    tokens of its blocks up to its own. An index that is -1 or past the row's last block contributes
    nothing; the order of a query's indices, the number of threads and the order of the pages in
    memory change no bit of the result. It is `torch_npu.npu_nsa_select_attention_infer` of Ascend's
    PyTorch, with CANN's name; here :math:`S` and the page size may be any.

    Args:
        query (Tensor): Shape :math:`(B, S, N_1, D)` with layout "BSND" or :math:`(T, N_1, D)` with
            layout "TND", dtype float16, bfloat16 or float32. Where the dtypes of query, key and
            value differ, all are promoted to the widest, caches copied: give one dtype.
        key (Tensor): Pages, shape :math:`(pages, page\_block\_size, N_2, D)` or
            :math:`(pages, page\_block\_size, N_2 D)`; without `block_table` one page for every row.
        value (Tensor): The same with :math:`D_v`.
        topk_indices (Tensor): Selected blocks, int32, shape :math:`(B, S, N_2, cnt)` or
            :math:`(T, N_2, cnt)`; with :math:`S = 1` also :math:`(B, N_2, cnt)`.
        scale_value (float): Factor of the scores, typically :math:`D^{-0.5}`.
        head_num (int): :math:`N_1`, a multiple of :math:`N_2`.
        key_value_head_num (int): :math:`N_2`.
        select_block_size (int): Tokens of a block.
        select_block_count (int): `cnt`.
        page_block_size (int): Tokens of a page.

    Keyword Args:
        layout (str, optional): ``"BSND"`` or ``"TND"``. Default: ``"BSND"``.
        atten_mask (None): Reserved, as in CANN. Default: ``None``.
        block_table (Tensor, optional): Pages of every row, int32, shape
            :math:`(B, pages\ of\ a\ row)`. Default: ``None``.
        actual_seq_qlen (Union[tuple[int], list[int], Tensor], optional): With layout "TND" the
            number of queries of every row (not prefix sums), shape :math:`(B,)`, dtype int32 or
            int64. A Tensor's values may change without a new graph; so for the other list.
            Default: ``None``, the same number for every row.
        actual_seq_kvlen (Union[tuple[int], list[int], Tensor]): Tokens of every row.

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
        >>> import numpy as np
        >>> import mindspore as ms
        >>> import mindspore_nsa
        >>> q = ms.ops.ones((2, 1, 8, 32))
        >>> k = v = ms.ops.ones((6, 64, 2, 32))  # six pages of 64 tokens
        >>> table = ms.Tensor(np.int32([[5, 0, 2], [1, 3, 4]]))
        >>> blocks = ms.Tensor(np.int32([[[0, 2]] * 2, [[0, 1]] * 2]))
        >>> out = mindspore_nsa.nsa_selected_attention_infer(
        ...     q, k, v, blocks, 32**-0.5, 8, 2, 64, 2, 64, block_table=table,
        ...     actual_seq_kvlen=(130, 100))
        >>> print(out.shape)
        (2, 1, 8, 32)
    """
    operator, c = _plan_nsa_selected_attention_infer(
        query,
        key,
        value,
        topk_indices,
        scale_value,
        head_num,
        key_value_head_num,
        select_block_size,
        select_block_count,
        page_block_size,
        layout,
        atten_mask,
        block_table,
        actual_seq_qlen,
        actual_seq_kvlen,
    )
    check_pages("nsa_selected_attention_infer", "block_table", block_table, actual_seq_kvlen, key)
    return call_nsa_selected_attention_infer(
        operator,
        c,
        query=query,
        key=key,
        value=value,
        topk_indices=topk_indices,
        block_table=block_table,
        actual_seq_qlen=actual_seq_qlen,
        actual_seq_kvlen=actual_seq_kvlen,
    )


_plan_nsa_selected_attention_infer = Planner(_plan_call, nsa_selected_attention_infer, op=_OP)
