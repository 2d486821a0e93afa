"""Dropout masks of `flash_attention_score`, the same bits on every machine."""

from functools import lru_cache
from typing import Any, NamedTuple

import mindspore
import numpy as np
from mindspore import Tensor, ops

from ._custom import CACHE_SIZE, encode_attrs, list_tensor, native_operator
from ._plan import Planner, TensorSpec, fail_type, infer

_FUNCTION = "dropout_mask"


class _Plan(NamedTuple):
    """Plan of a call.

    Attributes:
        operator: What gives the mask of a seed.
        dtype: To which the seed is cast, or None.
        constant: The Tensor of a seed that is an int, else None.
    """

    operator: Any
    dtype: Any
    constant: Any


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs: Any) -> Any:
    def bprop(seed: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        return (ops.zeros_like(seed),)

    return native_operator("NsaDropoutMask", attrs, bprop)


def _plan_call(keep_prob: Any, numel: Any, seed: Any) -> Any:
    constant = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
    if not constant and not isinstance(seed, TensorSpec):
        fail_type(_FUNCTION, "seed", "an int or a Tensor", seed)
    if constant and not -(2**63) <= seed < 2**63:
        raise ValueError(f"{_FUNCTION}: seed must be an int of 64 bits, got {seed}")
    dtype = None
    if not constant:
        if seed.dtype not in (mindspore.int64, mindspore.int32):
            raise TypeError(
                f"{_FUNCTION}: seed must be of dtype int64 or int32, got {seed.native()[0]}"
            )
        if seed.shape not in (None, (), (1,), (-1,)):
            raise ValueError(f"{_FUNCTION}: seed must be of shape () or (1,), got {seed.shape}")
        dtype = mindspore.int64 if seed.dtype != mindspore.int64 else None
    attrs = {"keep_prob": keep_prob, "numel": numel}
    infer("NsaDropoutMask", [("int64", (1,), None)], attrs)
    operator = _operator(encode_attrs("NsaDropoutMask", attrs))
    return _Plan(operator.call, dtype, list_tensor((int(seed),)) if constant else None)


def dropout_mask(keep_prob: float, numel: int, seed: int | Tensor) -> Tensor:
    """A random mask for the `drop_mask` of `flash_attention_score`.

    Args:
        keep_prob (float): Probability of a 1, in (0, 1].
        numel (int): Number of mask bits: the number of attention scores,
            :math:`B N_1 S_1 S_2`, or for layout TND :math:`N_1` times the sum of the products of
            the segments' lengths.
        seed (Union[int, Tensor]): The same seed gives the same bits on every machine. A Tensor has
            one element, dtype int64 or int32, and may change without a new graph.

    Returns:
        Tensor, dtype uint8, shape :math:`(\\lceil numel / 8 \\rceil,)`: the bits, least significant
        first, 1 = keep.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a shape or value is wrong.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import mindspore_nsa
        >>> print(mindspore_nsa.dropout_mask(0.9, 4 * 64 * 64, 1).shape)
        (2048,)
    """
    operator, dtype, constant = _plan_dropout_mask(keep_prob, numel, seed)
    if constant is not None:
        return operator(constant)
    if dtype is not None:
        seed = ops.cast(seed, dtype)
    return operator(ops.reshape(seed, (1,)))


_plan_dropout_mask = Planner(_plan_call, dropout_mask)
