"""Attention of every query over its selected blocks of keys."""

from functools import lru_cache
from typing import Any

from mindspore import Tensor, ops

from ._custom import CACHE_SIZE, encode_attrs, native_operator
from ._gradient import gradient_operator
from ._plan import NativeCall, Planner, tensor_input
from ._types import IntList
from .generated.nsa_selected_attention import (
    NsaSelectedAttentionGiven,
    bprop_of_nsa_selected_attention,
    call_nsa_selected_attention,
    call_nsa_selected_attention_grad,
)

_OP = "NsaSelectedAttention"
_GRAD = "NsaSelectedAttentionGrad"
_FUNCTION = "nsa_selected_attention"


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs: Any, gradient_attrs: str, given: NsaSelectedAttentionGiven) -> tuple[Any, ...]:
    gradient = gradient_operator(_GRAD, gradient_attrs, _FUNCTION)
    bprop = bprop_of_nsa_selected_attention(gradient.call, given)
    return native_operator(_OP, attrs, bprop), gradient


def _check_mask(mask: Tensor) -> None:
    """A mask stands for causal=True; only its form can be checked, its content where known."""
    dtype, shape, _ = tensor_input(_FUNCTION, "atten_mask", mask)
    if dtype not in ("bool", "uint8"):
        raise TypeError(f"{_FUNCTION}: atten_mask must be of dtype bool or uint8, got {dtype}")
    if shape is not None and len(shape) != 2:
        raise ValueError(f"{_FUNCTION}: atten_mask must be of rank 2, got shape {shape}")
    if mask.content is False:
        raise ValueError(
            f"{_FUNCTION}: atten_mask must be 1 above the diagonal and 0 elsewhere, where 1 masks "
            f"a pair; pass causal=True and no mask, got another content of shape {shape}"
        )


def _planned(given: dict[str, Any]) -> tuple[Any, ...]:
    """(call, operator, gradient), checked."""
    call = NativeCall(_OP, given)
    call.infer()
    if given["atten_mask"] is not None:
        _check_mask(given["atten_mask"])
        call.attrs["causal"] = True
    statistics = given["statistics"]
    present = (*call.given, "softmax_sum_grad") if statistics else call.given
    gradient_attrs = encode_attrs(_GRAD, call.attrs, present)
    told = call.bprop_given(softmax_sum_grad=statistics)
    return call, *_operator(call.text(), gradient_attrs, told)


def _plan_call(**given: Any) -> tuple[Any, ...]:
    call, operator, _ = _planned(given)
    # Indices have no gradient. MindSpore's compiler would add a tuple of zeros to the gradients of
    # what chose them, and then hand an aclnn function one Tensor less than it is given.
    stops = operator.call is not operator.custom
    return operator.call, call.stand_ins(), stops


def _plan_gradient(**given: Any) -> tuple[Any, ...]:
    call, _, gradient = _planned(given)
    return gradient.call, call.stand_ins(_GRAD)


def selected_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    atten_mask: Tensor,
    actual_seq_qlen: IntList,
    actual_seq_kvlen: IntList,
    causal: bool,
    q_offset: IntList,
    statistics: bool,
) -> Any:
    """Call nsa_selected_attention; `statistics`: whether the softmax statistics are used.

    Where they are not, their gradients are zeros, which a graph would keep as a constant of their
    size.
    """
    operator, c, stops = _plan_nsa_selected_attention(
        query,
        key,
        value,
        topk_indices,
        scale_value,
        head_num,
        select_block_size,
        select_block_count,
        atten_mask,
        actual_seq_qlen,
        actual_seq_kvlen,
        causal,
        q_offset,
        statistics,
    )
    if stops:
        topk_indices = ops.stop_gradient(topk_indices)
    return call_nsa_selected_attention(
        operator,
        c,
        query=query,
        key=key,
        value=value,
        topk_indices=topk_indices,
        actual_seq_qlen=actual_seq_qlen,
        actual_seq_kvlen=actual_seq_kvlen,
        q_offset=q_offset,
    )


_plan_nsa_selected_attention = Planner(
    _plan_call, selected_attention, op=_OP, masks=("atten_mask",)
)
_plan_nsa_selected_attention_gradient = Planner(
    _plan_gradient, selected_attention, op=_OP, masks=("atten_mask",)
)


def selected_attention_gradient(
    result: Any,
    dout: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    atten_mask: Tensor,
    actual_seq_qlen: IntList,
    actual_seq_kvlen: IntList,
    causal: bool,
    q_offset: IntList,
    statistics: bool,
) -> Any:
    """Gradients of query, key and value, of one dtype, for a Cell that has a bprop of its own.

    `result` are the three outputs of `selected_attention` with these arguments, `dout` is the
    gradient of the first one.
    """
    operator, c = _plan_nsa_selected_attention_gradient(
        query,
        key,
        value,
        topk_indices,
        scale_value,
        head_num,
        select_block_size,
        select_block_count,
        atten_mask,
        actual_seq_qlen,
        actual_seq_kvlen,
        causal,
        q_offset,
        statistics,
    )
    # By position: in the graph of a layer's bprop MindSpore does not resolve keyword arguments.
    return call_nsa_selected_attention_grad(
        operator,
        c,
        query,
        key,
        value,
        result[0],
        dout,
        result[1],
        result[2],
        topk_indices,
        actual_seq_qlen,
        actual_seq_kvlen,
        q_offset,
        None,
    )


def nsa_selected_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    topk_indices: Tensor,
    scale_value: float,
    head_num: int,
    select_block_size: int,
    select_block_count: int,
    *,
    atten_mask: Tensor | None = None,
    actual_seq_qlen: IntList,
    actual_seq_kvlen: IntList,
    causal: bool = False,
    q_offset: IntList | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Attention of every query over the key blocks that were selected for it.

    For every query and key head, the rows :math:`[t l', (t+1) l')` of the query's own segment are
    gathered for each `t` of `topk_indices`, and the query attends to them. The last block of a
    segment may be partial. An index that is -1 or past the last block contributes nothing; an index
    that stands twice counts twice. The order of a query's indices changes no bit of the result.

    Args:
        query (Tensor): Shape :math:`(T_1, N_1, D)`, dtype float16, bfloat16 or float32. Where the
            dtypes of query, key and value differ, all are promoted to the widest.
        key (Tensor): Shape :math:`(T_2, N_2, D)`; :math:`N_1` is a multiple of :math:`N_2`.
        value (Tensor): Shape :math:`(T_2, N_2, D_v)`.
        topk_indices (Tensor): Selected blocks, int32, shape :math:`(T_1, N_2, cnt)`.
        scale_value (float): Factor of the scores, typically :math:`D^{-0.5}`.
        head_num (int): :math:`N_1`.
        select_block_size (int): Tokens of a block, :math:`l'`, at least 1.
        select_block_count (int): `cnt`, at least 1.

    Keyword Args:
        atten_mask (Tensor, optional): Bool or uint8 of rank 2. A mask means ``causal=True``: its
            content is not read. A mask whose content is known when the call is checked (PyNative
            mode, or a constant in a graph) must be 1 exactly above the diagonal.
            Default: ``None``.
        actual_seq_qlen (Union[tuple[int], list[int], Tensor]): Inclusive prefix sums of the
            segments' queries. A Tensor has shape :math:`(B,)` and dtype int64 or int32, and its
            values may change without a new graph; so for the other lists.
        actual_seq_kvlen (Union[tuple[int], list[int], Tensor]): The same for keys and values.
        causal (bool, optional): A query sees the keys of its segment up to its own position.
            Default: ``False``.
        q_offset (Union[tuple[int], list[int], Tensor], optional): Position of every segment's first
            query, shape :math:`(B,)`. Default: ``None``, zeros.

    Returns:
        Tuple of three Tensors. The first is differentiable, and so are functions of
        softmax_max + ln(softmax_sum): to the gradient of the sum the maximum is a constant.

        - **attention_out** - Shape :math:`(T_1, N_1, D_v)`; 0 where a query sees nothing.
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
        >>> q = Tensor(np.random.randn(256, 16, 192).astype(np.float16))
        >>> k = Tensor(np.random.randn(1024, 4, 192).astype(np.float16))
        >>> v = Tensor(np.random.randn(1024, 4, 128).astype(np.float16))
        >>> indices = Tensor(np.random.randint(0, 8, (256, 4, 16)).astype(np.int32))
        >>> out, _, _ = mindspore_nsa.nsa_selected_attention(
        ...     q, k, v, indices, 192**-0.5, 16, 64, 16, actual_seq_qlen=(128, 256),
        ...     actual_seq_kvlen=(512, 1024))
        >>> print(out.shape)
        (256, 16, 128)
    """
    return selected_attention(
        query,
        key,
        value,
        topk_indices,
        scale_value,
        head_num,
        select_block_size,
        select_block_count,
        atten_mask,
        actual_seq_qlen,
        actual_seq_kvlen,
        causal,
        q_offset,
        True,
    )


# The name of MindSpore's built-in function.
nsa_select_attention = nsa_selected_attention
