"""Operators that have another name on Ascend.

CANN has two kinds. Of one there is an aclnn function, of the other ("aclop") a type that is looked
up, and compiled where it is not there, by its shapes. What a CPU has kernels for is of the second
kind on Ascend; what does the same by an aclnn function has none on a CPU.
"""

from typing import Any

from mindspore import Tensor, mint, ops
from mindspore.ops.function.array_func import split_ext

from ._constexpr import Constexpr
from ._device import device

_gather, _zeros = ops.Gather(), ops.ZerosLike()


class _OnAscend(Constexpr):
    """Whether layers run on MindSpore's device Ascend."""

    def __init__(self) -> None:
        super().__init__("OnAscend")

    def __call__(self) -> Any:
        return device() == "Ascend"

    def __infer__(self) -> dict[Any, Any]:
        return {"dtype": None, "shape": None, "value": self()}


on_ascend = _OnAscend()


def split(x: Tensor, sizes: Any, axis: int) -> Any:
    """x in parts along an axis: a tuple of sizes, or one size for all."""
    if on_ascend():
        return split_ext(x, sizes, axis)
    return ops.split(x, sizes, axis)


def take_rows(table: Any, numbers: Any) -> Any:
    """Rows of a table by their numbers, of one dimension."""
    if on_ascend():
        return mint.index_select(table, 0, numbers)
    return _gather(table, numbers, 0)


def remainder(x: Tensor, divisor: Any) -> Any:
    """x modulo a number, of integers that are not negative."""
    if on_ascend():
        return mint.remainder(x, divisor)
    return ops.floor_mod(x, divisor)


def zeros_like(x: Tensor) -> Any:
    """Zeros of the shape and dtype of x."""
    if on_ascend():
        return mint.zeros_like(x)
    return _zeros(x)
