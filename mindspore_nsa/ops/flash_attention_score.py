"""Dense attention with MindSpore's and CANN's masks, position biases and dropout."""

from functools import lru_cache
from typing import Any

import numpy as np
from mindspore import Tensor

from ._custom import CACHE_SIZE, encode_attrs, native_operator, schema
from ._gradient import gradient_operator, without_gradient
from ._plan import NativeCall, Planner, fail_type, infer, shown
from ._types import IntList
from .generated.flash_attention_score import (
    FlashAttentionScoreGiven,
    bprop_of_flash_attention_score,
    call_flash_attention_score,
)

_OP = "FlashAttentionScore"
_GRAD = "FlashAttentionScoreGrad"
_FUNCTION = "flash_attention_score"


@lru_cache(maxsize=CACHE_SIZE)
def _operator(
    attrs: Any, gradient_attrs: str, pse_attrs: str, given: FlashAttentionScoreGiven
) -> Any:
    gradient = gradient_operator(_GRAD, gradient_attrs, _FUNCTION)
    # Only where shapes are unknown: the bias may turn out to have no gradient, so its gradient is
    # an operator of its own, which does not run where it is not used.
    pse_gradient = None
    if pse_attrs:
        pse_gradient = gradient_operator(_GRAD, pse_attrs, _FUNCTION).call
    bprop = bprop_of_flash_attention_score(gradient.call, given, pse_gradient)
    return native_operator(_OP, attrs, bprop)


def _gradient_inputs(inputs: Any, outputs: Any) -> list[Any]:
    """Inputs of FlashAttentionScoreGrad from those of the forward and what it gives."""
    out, softmax_max, softmax_sum = ((dtype, shape, None) for dtype, shape in outputs)
    known = {
        **inputs,
        "dy": out,
        "softmax_max": softmax_max,
        "softmax_sum": softmax_sum,
        "attention_in": out,
    }
    return [known.get(spec["name"]) for spec in schema(_GRAD)["inputs"]]


def _check_what_no_kernel_sees(
    padding_mask: Tensor, inner_precise: Any, return_softmax: bool
) -> None:
    if not isinstance(return_softmax, (bool, np.bool_)):
        fail_type(_FUNCTION, "return_softmax", "a bool", return_softmax)
    if padding_mask is not None:
        raise ValueError(f"{_FUNCTION}: padding_mask must be None, got {shown(padding_mask)}")
    if not isinstance(inner_precise, (int, np.integer)) or isinstance(inner_precise, bool):
        fail_type(_FUNCTION, "inner_precise", "an int", inner_precise)
    if not 0 <= inner_precise <= 4:
        raise ValueError(f"{_FUNCTION}: inner_precise must be in [0, 4], got {inner_precise}")


def _form_is_unknown(query: Tensor, bias: Any) -> bool:
    """Whether a position bias may turn out to have the compressed alibi form, without gradient."""
    if query.shape is None or bias.shape is None:
        return True
    return len(bias.shape) == 4 and bias.shape[2] in (-1, 1024) and -1 in query.shape + bias.shape


def _start_list(name: str, given: Any) -> Any:
    """One position for all batch elements as a list of one."""
    if given is None or isinstance(given, (tuple, list)):
        return given
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        fail_type(_FUNCTION, name, "an int, a tuple or list of ints, a Tensor or None", given)
    return (int(given),)


def _plan_call(**given: Any) -> tuple[Any, ...]:
    _check_what_no_kernel_sees(
        given["padding_mask"], given["inner_precise"], given["return_softmax"]
    )
    for start in ("q_start_idx", "kv_start_idx"):
        given[start] = _start_list(start, given[start])
    query, real_shift = given["query"], given["real_shift"]
    slopes = given["pse_type"] in (2, 3)
    pse_grad = real_shift is not None
    bias = ("real_shift",)
    call = NativeCall(_OP, given, () if slopes else bias, bias if slopes else ())
    outputs = call.infer()
    guard = None
    if pse_grad:
        try:
            infer(
                _GRAD,
                _gradient_inputs(call.inputs, outputs),
                {**call.attrs, "pse_grad": 1},
            )
        except ValueError as error:
            pse_grad, guard = False, without_gradient(str(error))
    late = pse_grad and _form_is_unknown(query, real_shift)

    # Nobody but a caller of the statistics can have used them.
    statistics = bool(given["return_softmax"])
    gradient_given = (*call.given, "softmax_sum_grad") if statistics else call.given

    def gradient_attrs(wants_pse: bool) -> Any:
        attrs = {**call.attrs, "pse_grad": wants_pse}
        return encode_attrs(_GRAD, attrs, gradient_given)

    operator = _operator(
        call.text(),
        gradient_attrs(pse_grad and not late),
        gradient_attrs(True) if late else "",
        call.bprop_given(softmax_sum_grad=statistics, real_shift_grad=pse_grad),
    )
    return operator.call, call.stand_ins(), guard


def flash_attention_score(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    real_shift: Tensor | None = None,
    drop_mask: Tensor | None = None,
    padding_mask: None = None,
    attn_mask: Tensor | None = None,
    prefix: IntList | None = None,
    actual_seq_qlen: IntList | None = None,
    actual_seq_kvlen: IntList | None = None,
    keep_prob: float = 1.0,
    scalar_value: float = 1.0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    inner_precise: int = 0,
    input_layout: str = "BSH",
    sparse_mode: int = 0,
    *,
    pse_type: int = 1,
    q_start_idx: int | IntList | None = None,
    kv_start_idx: int | IntList | None = None,
    sink: Tensor | None = None,
    return_softmax: bool = False,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    r"""Dense attention: dropout(softmax(mask(scores))) times the values.

    The scores are :math:`(q k^T + pse) \cdot scale` with `pse_type` 1 and
    :math:`q k^T \cdot scale + pse` with the others. A query that sees no key gives 0. No matrix of
    size :math:`S_1 \times S_2` is stored, in the gradient neither.

    Below, B is the batch size, :math:`N_1` and :math:`N_2` the numbers of query and key heads,
    :math:`S_1` and :math:`S_2` the sequence lengths, :math:`D` and :math:`D_v` the head sizes. In
    layout TND the sequences are packed, :math:`T_1` and :math:`T_2` tokens in all, and
    :math:`S_1`, :math:`S_2` are those of a segment.

    Args:
        query (Tensor): :math:`(B, S_1, N_1 D)`, :math:`(S_1, B, N_1 D)`, :math:`(B, S_1, N_1, D)`,
            :math:`(B, N_1, S_1, D)` or :math:`(T_1, N_1, D)`, by `input_layout`. Dtype float16,
            bfloat16 or float32. Where the dtypes of query, key, value and position bias differ,
            all are promoted to the widest.
        key (Tensor): The same with :math:`S_2`, :math:`N_2`.
        value (Tensor): The same with :math:`S_2`, :math:`N_2`, :math:`D_v`.
        head_num (int): :math:`N_1`, a multiple of :math:`N_2`.
        real_shift (Tensor, optional): With `pse_type` 0 and 1 a position bias of the query's dtype:
            :math:`(B\ or\ 1, N_1, S_1, S_2)`, :math:`(B\ or\ 1, N_1, 1, S_2)`, or in layout TND the
            flat concatenation over segments of :math:`[N_1, S_1, S_2]` or :math:`[N_1, 1, S_2]`;
            or the compressed alibi form :math:`(B\ or\ 1, N_1, 1024, S_2)` of a causal Toeplitz
            bias. With `pse_type` 2 and 3 slopes, float32, :math:`(N_1,)` or :math:`(B, N_1)`.
            They have no gradient. Default: ``None``.
        drop_mask (Tensor, optional): uint8, bits as `dropout_mask` makes them, 1 = keep.
            Default: ``None``.
        padding_mask (None): Reserved, must be ``None``.
        attn_mask (Tensor, optional): Bool or uint8, 1 = masked. :math:`(B, N_1, S_1, S_2)`,
            :math:`(B, 1, S_1, S_2)`, :math:`(1, 1, S_1, S_2)` or :math:`(S_1, S_2)`; in layout TND
            the longest segments' lengths or :math:`(T_1, T_2)`. With `sparse_mode` 2 to 8 the mask
            is computed, and of a tensor only the shape is checked: (2048, 2048), for mode 5 like
            mode 0, for mode 6 (3072, 2048). Default: ``None``.
        prefix (Union[tuple[int], list[int], Tensor], optional): With `sparse_mode` 5 and 6,
            :math:`(B,)`: keys that every query sees. Default: ``None``.
        actual_seq_qlen (Union[tuple[int], list[int], Tensor], optional): In layout TND inclusive
            prefix sums of the segments' queries. A Tensor has dtype int64 or int32, and its values
            may change without a new graph; so for the other lists. Default: ``None``.
        actual_seq_kvlen (Union[tuple[int], list[int], Tensor], optional): The same for keys.
            Default: ``None``.
        keep_prob (float, optional): In (0, 1]; below 1 it needs `drop_mask`. Default: ``1.0``.
        scalar_value (float, optional): Scale of the scores. Default: ``1.0``.
        pre_tokens (int, optional): Band of `sparse_mode` 0, 4, 7 and 8: keys before a query's own
            position that it sees. Default: ``2147483647``.
        next_tokens (int, optional): Keys after it. Default: ``2147483647``.
        inner_precise (int, optional): 0 to 4, without effect. Default: ``0``.
        input_layout (str, optional): ``"BSH"``, ``"SBH"``, ``"BSND"``, ``"BNSD"`` or ``"TND"``.
            Default: ``"BSH"``.
        sparse_mode (int, optional): 0 the mask and the band; 1 the mask; 2 causal from the top
            left; 3 causal to the bottom right; 4 a band to the bottom right; 5 and 6 mode 3 and
            prefix (5 not TND); 7 and 8 (TND) mode 3 with the last, mode 2 with the first segment
            a band. Default: ``0``.

    Keyword Args:
        pse_type (int, optional): 0: bias added after scaling; 1: before; 2: slopes times the
            distance; 3: slopes times the square root of the distance. Default: ``1``.
        q_start_idx (Union[int, tuple[int], list[int], Tensor], optional): Position of the first
            query for the distance: of every batch element or, of shape :math:`(B,)`, of each, which
            in layout TND is a segment. Default: ``None``, 0.
        kv_start_idx (Union[int, tuple[int], list[int], Tensor], optional): Position of the first
            key, likewise. Default: ``None``, 0.
        sink (Tensor, optional): float32, :math:`(N_1,)`: one more logit per head that takes part in
            the softmax and has no value. Default: ``None``.
        return_softmax (bool, optional): Also return the softmax statistics. Default: ``False``.

    Returns:
        Tensor, the attention output, with the query's layout and :math:`D_v`. With `return_softmax`
        a tuple with softmax_max and softmax_sum: float32, :math:`(B, N_1, S_1, 8)`, in layout TND
        :math:`(T_1, N_1, 8)`, the 8 values equal. The sum is differentiable, the maximum being a
        constant to it: functions of softmax_max + ln(softmax_sum) have their gradient.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong, or if the gradient of slopes or of a
            `real_shift` in the compressed alibi form is asked for.
        RuntimeError: If that is found out only when a compiled graph runs.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import numpy as np
        >>> import mindspore_nsa
        >>> from mindspore import Tensor
        >>> q = Tensor(np.ones((2, 4, 64), np.float16))
        >>> out = mindspore_nsa.flash_attention_score(q, q, q, 4, scalar_value=0.25, sparse_mode=3)
        >>> print(out.shape)
        (2, 4, 64)
    """
    operator, c, guard = _plan_flash_attention_score(
        query,
        key,
        value,
        head_num,
        real_shift,
        drop_mask,
        padding_mask,
        attn_mask,
        prefix,
        actual_seq_qlen,
        actual_seq_kvlen,
        keep_prob,
        scalar_value,
        pre_tokens,
        next_tokens,
        inner_precise,
        input_layout,
        sparse_mode,
        pse_type,
        q_start_idx,
        kv_start_idx,
        sink,
        return_softmax,
    )
    if guard is not None:
        real_shift = guard(real_shift)
    out = call_flash_attention_score(
        operator,
        c,
        query=query,
        key=key,
        value=value,
        real_shift=real_shift,
        drop_mask=drop_mask,
        attn_mask=attn_mask,
        prefix=prefix,
        actual_seq_qlen=actual_seq_qlen,
        actual_seq_kvlen=actual_seq_kvlen,
        sink=sink,
        q_start_idx=q_start_idx,
        kv_start_idx=kv_start_idx,
    )
    if return_softmax:
        return out
    return out[0]


_plan_flash_attention_score = Planner(_plan_call, flash_attention_score, op=_OP)
