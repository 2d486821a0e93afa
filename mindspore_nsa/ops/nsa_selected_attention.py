"""Attention of every query over its selected blocks of keys."""

from functools import lru_cache

from mindspore import ops

from ._custom import CACHE_SIZE, absent, encode_attrs, native_operator, run
from ._gradient import gradient_operator, zero_gradient
from ._plan import NativeCall, Planner, passed, tensor_input

_FUNCTION = "nsa_selected_attention"


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs, gradient_attrs, tensors, statistics):
    gradient = gradient_operator("NsaSelectedAttentionGrad", gradient_attrs, _FUNCTION)
    no_tensor = absent()

    def bprop(
        query, key, value, topk_indices, actual_seq_qlen, actual_seq_kvlen, q_offset, out, dout
    ):
        attention_out, softmax_max, softmax_sum = out
        dq, dk, dv = run(
            gradient,
            (
                query,
                key,
                value,
                attention_out,
                dout[0],
                softmax_max,
                softmax_sum,
                topk_indices,
                actual_seq_qlen,
                actual_seq_kvlen,
                q_offset,
                dout[2] if statistics else no_tensor,
            ),
        )
        return (
            dq,
            dk,
            dv,
            ops.zeros_like(topk_indices),
            zero_gradient(actual_seq_qlen, "actual_seq_qlen" in tensors),
            zero_gradient(actual_seq_kvlen, "actual_seq_kvlen" in tensors),
            zero_gradient(q_offset, "q_offset" in tensors),
        )

    return native_operator("NsaSelectedAttention", attrs, bprop), gradient


def _check_mask(mask):
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


def _plan_call(**given):
    call = NativeCall("NsaSelectedAttention", given)
    call.infer()
    if given["atten_mask"] is not None:
        _check_mask(given["atten_mask"])
        call.attrs["causal"] = True
    statistics = given["statistics"]
    given = (*call.given, "softmax_sum_grad") if statistics else call.given
    gradient_attrs = encode_attrs("NsaSelectedAttentionGrad", call.attrs, given, call.lists)
    operator, gradient = _operator(call.text(), gradient_attrs, call.tensors, statistics)
    return operator, call.casts["query"], call.constants, (gradient, absent())


_plan_nsa_selected_attention = Planner(
    _plan_call, "selected_attention", op="NsaSelectedAttention", masks=("atten_mask",)
)


def selected_attention(
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
):
    """As nsa_selected_attention; without `statistics` the softmax statistics are not used.

    Their gradients are zeros then, which a graph would keep as a constant of their size.
    """
    plan = _plan_nsa_selected_attention(
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
    operator, dtype, constants = plan[0], plan[1], plan[2]
    if dtype is not None:
        query = ops.cast(query, dtype)
        key = ops.cast(key, dtype)
        value = ops.cast(value, dtype)
    if operator[1] is not None:
        # Indices have no gradient. MindSpore's compiler would add a tuple of zeros to the gradients
        # of what chose them, and then hand an aclnn function one Tensor less than it is given.
        topk_indices = ops.stop_gradient(topk_indices)
    return run(
        operator,
        (
            query,
            key,
            value,
            topk_indices,
            passed(actual_seq_qlen, constants["actual_seq_qlen"]),
            passed(actual_seq_kvlen, constants["actual_seq_kvlen"]),
            passed(q_offset, constants["q_offset"]),
        ),
    )


def selected_attention_gradient(
    query,
    key,
    value,
    topk_indices,
    scale_value,
    head_num,
    select_block_size,
    select_block_count,
    actual_seq_qlen,
    actual_seq_kvlen,
    q_offset,
    result,
    dout,
):
    """Gradients of query, key and value, of one dtype, for a Cell that has a bprop of its own.

    `result` are the three outputs of `selected_attention` with `causal`, `dout` is the gradient of
    the first one.
    """
    plan = _plan_nsa_selected_attention(
        query,
        key,
        value,
        topk_indices,
        scale_value,
        head_num,
        select_block_size,
        select_block_count,
        None,
        actual_seq_qlen,
        actual_seq_kvlen,
        True,
        q_offset,
        False,
    )
    constants, backward = plan[2], plan[3]
    return run(
        backward[0],
        (
            query,
            key,
            value,
            result[0],
            dout,
            result[1],
            result[2],
            topk_indices,
            passed(actual_seq_qlen, constants["actual_seq_qlen"]),
            passed(actual_seq_kvlen, constants["actual_seq_kvlen"]),
            passed(q_offset, constants["q_offset"]),
            backward[1],
        ),
    )


def nsa_selected_attention(
    query,
    key,
    value,
    topk_indices,
    scale_value,
    head_num,
    select_block_size,
    select_block_count,
    *,
    atten_mask=None,
    actual_seq_qlen,
    actual_seq_kvlen,
    causal=False,
    q_offset=None,
):
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
