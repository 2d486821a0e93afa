"""Operands of an operator for its arguments, and their gradients. Graphs call these, too."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ._by_device import zeros_like


def passed(argument: Any, constant: Any) -> Any:
    """The plan's constant for an argument; None: the argument itself."""
    return argument if constant is None else constant


def in_dtype(x: Tensor, dtype: Any) -> Any:
    """A Tensor or None, cast where a dtype is given that it has not."""
    # MindSpore's amp evaluates all parts of an `or` before it.
    if dtype is None:
        return x
    if x is None:
        return x
    if x.dtype == dtype:
        return x
    return ops.cast(x, dtype)


def listed(x: Tensor, dtype: Any) -> Any:
    """A list that is a Tensor of a dtype for the operator; None where there is no dtype."""
    return None if dtype is None else in_dtype(x, dtype)


# Forms of a list that an aclnn function takes from the host.
LIST_ABSENT, LIST_TUPLE, LIST_TENSOR = range(3)


def host_list(x: Any, form: int) -> Any:
    """A list for an aclnn function that takes it from the host; `form` is one of the above.

    MindSpore reads the bytes of a Tensor as int64, whatever its dtype is.
    """
    if form == LIST_ABSENT:
        return None
    if form == LIST_TENSOR:
        return in_dtype(x, mindspore.int64)
    return x


def int32_list(x: Any, constant: Any) -> Any:
    """A list for MindSpore's own operators: the plan's constant, or a Tensor of int32."""
    return in_dtype(x, mindspore.int32) if constant is None else constant


def zero_gradient(x: Tensor, given: bool) -> Any:
    """The gradient of an input that has none.

    Where the input is a constant of ours, its gradient goes nowhere: any Tensor of its shape will
    do, and in PyNative mode making one costs as much as a small operator.
    """
    if given:
        return zeros_like(x)
    return x


def used_with(x: Tensor, *gradients: Any) -> Any:
    """x, where it counts as a use of these gradients too: the error of one that does not exist.

    Gradients of results that nobody used are zeros, and cost nothing here.
    """
    for gradient in gradients:
        x = ops.depend(x, gradient)
    return x
