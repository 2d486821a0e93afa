"""Attention over compressed tokens, and the selection of key blocks by their importance."""

import logging
from functools import lru_cache
from typing import Any

from mindspore import Tensor

from .. import _native
from ._custom import CACHE_SIZE, encode_attrs, native_operator
from ._gradient import gradient_operator
from ._plan import NativeCall, Planner, TensorSpec, host_values
from ._sequence import compressed_seq_len
from ._types import IntList
from .generated.nsa_compress_attention import (
    NsaCompressAttentionGiven,
    bprop_of_nsa_compress_attention,
    call_nsa_compress_attention,
)

_OP = "NsaCompressAttention"
_GRAD = "FlashAttentionScoreGrad"
_FUNCTION = "nsa_compress_attention"
_log = logging.getLogger("mindspore_nsa")


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs: Any, gradient_attrs: str, given: NsaCompressAttentionGiven) -> Any:
    gradient = gradient_operator(_GRAD, gradient_attrs, _FUNCTION)
    return native_operator(_OP, attrs, bprop_of_nsa_compress_attention(gradient.call, given))


@lru_cache(maxsize=1)
def _warn_selection_lengths() -> None:
    """Said once: the list is checked for its form and otherwise not used."""
    _log.warning(
        "%s: actual_sel_seq_kvlen differs from the number of selection blocks that follows from "
        "the other arguments; the values are not used",
        _FUNCTION,
    )


def _check_selection_lengths(given: dict[str, Any]) -> Any:
    """Warns where the list and what follows from the other arguments are known to differ."""
    seq_q, seq_cmp, seq_sel, q_offset = (
        given[name]
        for name in (
            "actual_seq_qlen", "actual_cmp_seq_kvlen", "actual_sel_seq_kvlen", "q_offset")
    )  # fmt: skip
    if not seq_sel or any(isinstance(x, TensorSpec) for x in (seq_q, seq_cmp, seq_sel, q_offset)):
        return None
    offsets = q_offset or (0,) * len(seq_q)
    total = before_q = before_cmp = 0
    for end_q, end_cmp, end_sel, offset in zip(seq_q, seq_cmp, seq_sel, offsets):
        total += _native.selection_blocks(
            end_cmp - before_cmp,
            offset + end_q - before_q,
            given["compress_block_size"],
            given["compress_stride"],
            given["select_block_size"],
            bool(given["causal"]),
            given["importance"],
        )
        before_q, before_cmp = end_q, end_cmp
        if total != end_sel:
            return _warn_selection_lengths()


def _gradient_attrs(call: Any, statistics: bool) -> Any:
    """FlashAttentionScoreGrad with the same mask; block size without stride: no causal rule."""
    masked = "atten_mask" in call.given
    attrs = {
        "head_num": call.attrs["head_num"],
        "scalar_value": call.attrs["scale_value"],
        "input_layout": "TND",
        "sparse_mode": 1 if masked else 0,
        "compress_block_size": call.attrs["compress_block_size"],
        "compress_stride": call.attrs["compress_stride"] if call.attrs["causal"] else 0,
    }
    given = ["actual_seq_qlen", "actual_seq_kvlen"]
    given += ["softmax_sum_grad"] if statistics else []
    given += ["attn_mask"] if masked else []
    given += ["q_offset"] if "q_offset" in call.given else []
    return encode_attrs(_GRAD, attrs, given)


def _plan_call(**given: Any) -> tuple[Any, ...]:
    call = NativeCall(_OP, given)
    call.infer()
    # The list of compressed lengths is always passed: the gradient needs it.
    derive = False
    if given["actual_cmp_seq_kvlen"] is None:
        queries = host_values(given["actual_seq_qlen"])
        if isinstance(queries, TensorSpec):
            derive = True
            given["actual_cmp_seq_kvlen"] = queries
        else:
            given["actual_cmp_seq_kvlen"] = _native.compressed_seq_len(
                queries, given["compress_block_size"], given["compress_stride"]
            )
        call = NativeCall(_OP, given)
    _check_selection_lengths(given)
    statistics = given["statistics"]
    told = call.bprop_given(softmax_sum_grad=statistics)
    operator = _operator(call.text(), _gradient_attrs(call, statistics), told)
    return operator.call, call.stand_ins(), derive


def compress_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale_value: float,
    head_num: int,
    compress_block_size: int,
    compress_stride: int,
    select_block_size: int,
    select_block_count: int,
    topk_mask: Tensor | None = None,
    atten_mask: Tensor | None = None,
    actual_seq_qlen: IntList,
    actual_cmp_seq_kvlen: IntList | None = None,
    actual_sel_seq_kvlen: IntList | None = None,
    causal: bool,
    init_blocks: int,
    local_blocks: int,
    importance: str,
    q_offset: IntList | None = None,
    statistics: bool,
) -> Any:
    """Call nsa_compress_attention; `statistics`: whether the softmax statistics are used.

    Where they are not, their gradients are zeros, which a graph would keep as a constant of their
    size.
    """
    operator, c, derive = _plan_nsa_compress_attention(
        query,
        key,
        value,
        scale_value,
        head_num,
        compress_block_size,
        compress_stride,
        select_block_size,
        select_block_count,
        topk_mask,
        atten_mask,
        actual_seq_qlen,
        actual_cmp_seq_kvlen,
        actual_sel_seq_kvlen,
        causal,
        init_blocks,
        local_blocks,
        importance,
        q_offset,
        statistics,
    )
    if derive:
        actual_cmp_seq_kvlen = compressed_seq_len(
            actual_seq_qlen, compress_block_size, compress_stride
        )
    return call_nsa_compress_attention(
        operator,
        c,
        query=query,
        key=key,
        value=value,
        topk_mask=topk_mask,
        atten_mask=atten_mask,
        actual_seq_qlen=actual_seq_qlen,
        actual_cmp_seq_kvlen=actual_cmp_seq_kvlen,
        actual_sel_seq_kvlen=actual_sel_seq_kvlen,
        q_offset=q_offset,
    )


_plan_nsa_compress_attention = Planner(_plan_call, compress_attention, op=_OP)


def nsa_compress_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale_value: float,
    head_num: int,
    compress_block_size: int,
    compress_stride: int,
    select_block_size: int,
    select_block_count: int,
    *,
    topk_mask: Tensor | None = None,
    atten_mask: Tensor | None = None,
    actual_seq_qlen: IntList,
    actual_cmp_seq_kvlen: IntList | None = None,
    actual_sel_seq_kvlen: IntList | None = None,
    causal: bool = False,
    init_blocks: int = 0,
    local_blocks: int = 0,
    importance: str = "cann",
    q_offset: IntList | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Attention over compressed keys, and the most important selection blocks of every query.

    The output is :math:`softmax(scale \cdot q k^T) v` over the compressed tokens of the query's own
    segment. The probabilities, summed over the :math:`G = N_1 / N_2` heads that share a key head
    and gathered into blocks of `select_block_size` tokens, rank the blocks; the first
    `select_block_count` of them are what `nsa_selected_attention` takes. Nothing of size
    :math:`T_1 \times T_2` is stored, in the gradient neither.

    `attention_out` is differentiable, and functions of softmax_max + ln(softmax_sum) are: the
    gradient of softmax_sum is that of the probabilities' denominator with the maximum held
    constant; the maximum has none. Below, `l`, `s` and `l'` are `compress_block_size`,
    `compress_stride` and `select_block_size`; a position is the query's index in its segment plus
    the segment's `q_offset`.

    Args:
        query (Tensor): Shape :math:`(T_1, N_1, D)`, dtype float16, bfloat16 or float32. Where the
            dtypes of query, key and value differ, all are promoted to the widest.
        key (Tensor): Compressed keys, shape :math:`(T_2, N_2, D)`; :math:`N_1` is a multiple of
            :math:`N_2`.
        value (Tensor): Compressed values, shape :math:`(T_2, N_2, D_v)`.
        scale_value (float): Factor of the scores, typically :math:`D^{-0.5}`.
        head_num (int): :math:`N_1`.
        compress_block_size (int): Tokens of a compressed token, a multiple of `s`.
        compress_stride (int): Tokens between the starts of neighbouring compressed tokens.
        select_block_size (int): Tokens of a selection block, a multiple of `s`, at least `l`.
        select_block_count (int): Blocks to select, at least 1.

    Keyword Args:
        topk_mask (Tensor, optional): Bool or uint8, shape (longest query segment, blocks) or
            larger; 1 forces the block in. Default: ``None``.
        atten_mask (Tensor, optional): Bool or uint8, shape (longest query segment, longest
            compressed segment) or larger, indexed within the segment; 1 masks the pair.
            Default: ``None``.
        actual_seq_qlen (Union[tuple[int], list[int], Tensor]): Inclusive prefix sums of the
            segments' queries. A Tensor has shape :math:`(B,)` and dtype int64 or int32, and its
            values may change without a new graph; so for the other lists.
        actual_cmp_seq_kvlen (Union[tuple[int], list[int], Tensor], optional): Prefix sums of the
            segments' compressed tokens; may end before :math:`T_2`. Default: ``None``, allowed with
            `causal`: what `compressed_seq_len` makes of `actual_seq_qlen`. Keys that were not
            compressed are an error there, unless there is a `q_offset`.
        actual_sel_seq_kvlen (Union[tuple[int], list[int], Tensor], optional): Prefix sums of the
            segments' selection blocks. Its form is checked; the values are not used.
            Default: ``None``.
        causal (bool, optional): Compressed token `c` is visible at position `i` if
            ``c * s + l - 1 <= i``, and block `j` can be selected if ``j <= i // l'``.
            Default: ``False``.
        init_blocks (int, optional): With `causal`, force the first blocks in. Default: ``0``.
        local_blocks (int, optional): With `causal`, force the blocks that end with the query's own
            one in. Default: ``0``.
        importance (str, optional): ``"cann"``, the convention of CANN's operator, or
            ``"overlap"``, the number of `s`-sized pieces that a compressed token shares with a
            block, as in the paper. Default: ``"cann"``.
        q_offset (Union[tuple[int], list[int], Tensor], optional): Position of every segment's first
            query, shape :math:`(B,)`. Default: ``None``, zeros.

    Returns:
        Tuple of four Tensors.

        - **attention_out** - Shape :math:`(T_1, N_1, D_v)`; 0 where a query sees nothing.
        - **topk_indices** - int32, shape :math:`(T_1, N_2, cnt)`: forced blocks by index, then the
          others by falling score, then -1 where there are no more.
        - **softmax_max**, **softmax_sum** - float32, shape :math:`(T_1, N_1, 8)`, the 8 values
          equal.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a compiled graph runs.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import numpy as np
        >>> import mindspore_nsa
        >>> from mindspore import Tensor
        >>> q = Tensor(np.random.randn(256, 8, 64).astype(np.float32))
        >>> k = Tensor(np.random.randn(15, 2, 64).astype(np.float32))
        >>> v = Tensor(np.random.randn(15, 2, 64).astype(np.float32))
        >>> out, indices, _, _ = mindspore_nsa.nsa_compress_attention(
        ...     q, k, v, 64**-0.5, 8, 32, 16, 64, 4, actual_seq_qlen=(256,), causal=True,
        ...     init_blocks=1, local_blocks=2)
        >>> print(out.shape, indices.shape)
        (256, 8, 64) (256, 2, 4)
        >>> print(indices[255, 0, :3])
        [0 2 3]
    """
    return compress_attention(
        query,
        key,
        value,
        scale_value=scale_value,
        head_num=head_num,
        compress_block_size=compress_block_size,
        compress_stride=compress_stride,
        select_block_size=select_block_size,
        select_block_count=select_block_count,
        topk_mask=topk_mask,
        atten_mask=atten_mask,
        actual_seq_qlen=actual_seq_qlen,
        actual_cmp_seq_kvlen=actual_cmp_seq_kvlen,
        actual_sel_seq_kvlen=actual_sel_seq_kvlen,
        causal=causal,
        init_blocks=init_blocks,
        local_blocks=local_blocks,
        importance=importance,
        q_offset=q_offset,
        statistics=True,
    )
