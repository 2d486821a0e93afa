"""Operators that a layer calls by another name on Ascend.

CANN has two kinds. Of one there is an aclnn function, of the other ("aclop") a type that is looked
up, and compiled where it is not there, by its shapes. What a CPU has kernels for is of the second
kind on Ascend; what does the same by an aclnn function has none on a CPU.
"""

import mindspore
from mindspore import mint, ops
from mindspore.ops import constexpr
from mindspore.ops.function.array_func import split_ext

_gather, _zeros = ops.Gather(), ops.ZerosLike()


@constexpr
def on_ascend():
    """Whether the layer runs on MindSpore's device Ascend."""
    return mindspore.context.get_context("device_target") == "Ascend"


def split(x, sizes, axis):
    """x in parts along an axis: a tuple of sizes, or one size for all."""
    if on_ascend():
        return split_ext(x, sizes, axis)
    return ops.split(x, sizes, axis)


def take_rows(table, numbers):
    """Rows of a table by their numbers, of one dimension."""
    if on_ascend():
        return mint.index_select(table, 0, numbers)
    return _gather(table, numbers, 0)


def remainder(x, divisor):
    """x modulo a number, of integers that are not negative."""
    if on_ascend():
        return mint.remainder(x, divisor)
    return ops.floor_mod(x, divisor)


def zeros_like(x):
    """Zeros of the shape and dtype of x."""
    if on_ascend():
        return mint.zeros_like(x)
    return _zeros(x)
