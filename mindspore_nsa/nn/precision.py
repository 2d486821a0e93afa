"""Mixed precision that the layers do themselves.

The layers round where the operators and matrix products take their operands, and compute everything
between in float32. MindSpore's way, casting every input of every Cell or operator, would fail on a
CPU, whose kernels neither multiply nor add up bfloat16, and would lose the low bits of positions.
"""

import math
from typing import Any

import mindspore
from mindspore import Tensor, nn, ops
from mindspore.common.initializer import HeUniform, Uniform, initializer
from mindspore.nn.cell import MixedPrecisionType
from mindspore.ops import constexpr

from ..ops._custom import planned_target
from ..ops._layer import nsa_linear, nsa_projection, nsa_round
from ..ops._plan import Planner
from .config import NSAConfig
from .parts import Asked, takes_dtype, untouched

# How a layer calls a linear map: its product alone, or as a Cell, which gets x in the dtype of
# operands, or in float32, or in float32 and the dtype.
OWN, CALLED, FOREIGN, WITH_DTYPE = range(4)

_FLAGS = {"fp16": mindspore.float16, "bf16": mindspore.bfloat16, "fp32": mindspore.float32}


@constexpr
def _multiplies_narrow() -> Any:
    """Whether the device has matrix products of float16 and bfloat16 that sum in float32."""
    return mindspore.context.get_context("device_target") != "CPU"


def _plan_operands(name: str, dtype: Any) -> Any:
    if dtype == mindspore.float32 and planned_target.get() != "cpu":
        raise TypeError(
            f"{name}: x must be of dtype float16 or bfloat16 on Ascend, or the layer marked so by "
            "to_float, got float32"
        )
    return dtype


def checked_operands(name: str, dtype: Any) -> Any:
    """The dtype, or the layer's error of one in which the target has no sparse operators.

    Callers go on with the result: a compiler warns of a check of padded rows that nothing uses.
    """
    return _plan_check_operands(name, dtype)


_plan_check_operands = Planner(_plan_operands, checked_operands)


def rounded(x: Tensor, dtype: Any) -> Any:
    """x in float32 with the values of a dtype; x itself where products take narrow operands."""
    if _multiplies_narrow():
        return x
    if x.dtype != mindspore.float32:
        if dtype != mindspore.float32 and dtype != x.dtype:
            x = ops.cast(x, dtype)
        return ops.cast(x, mindspore.float32)
    if dtype == mindspore.float32:
        return x
    values = nsa_round(x, dtype)
    if values is None:
        values = ops.cast(ops.cast(x, dtype), mindspore.float32)
    return values


class ExplicitPrecision(nn.Cell):
    """A Cell in which nothing is cast but by its own construct.

    `to_float` and the amp levels O2 and O3 mark every Cell with the dtype it is to compute in. A
    marked Cell casts its inputs and parameters in a graph, and in PyNative mode those of each of
    its operators; this one only remembers the mark.
    """

    def __init__(self) -> None:
        super().__init__()
        self.amp_dtype = None

    def add_flags(self, **flags: Any) -> Any:
        """Take the flags of mixed precision out; MindSpore sees the others."""
        marks = [dtype for name, dtype in _FLAGS.items() if flags.pop(name, False)]
        if marks:
            self.amp_dtype = marks[0]
            # Not None, which would inherit the casts of the Cell around.
            self.mixed_precision_type = MixedPrecisionType.NOTSET
        return super().add_flags(**flags)

    def operand_dtype(self, x: Tensor) -> Any:
        """The dtype that operands are rounded to: that of mixed precision, or else that of x."""
        if self.amp_dtype is None:
            return x.dtype
        return self.amp_dtype


class Projection(ExplicitPrecision, nn.Dense):
    """nn.Dense of operands that are rounded to a dtype, summed in float32.

    The weight is rounded here, `x` by `rounded`, once for all that it is multiplied with, unless
    the product does that.
    """

    def __init__(self, config: NSAConfig, inner: Any, outer: Any) -> None:
        dtype = getattr(mindspore, config.param_dtype)
        nn.Dense.__init__(self, inner, outer, has_bias=config.has_bias, dtype=dtype)
        self.amp_dtype = None
        self.total = None

    def sum_by(self, total: Any) -> None:
        """Workers have parts of the inner dimension each; the Cell `total` sums the products."""
        self.total = total

    def reset_parameter(self) -> None:
        """Draw the parameters as nn.Dense does."""
        starts = [(self.weight, HeUniform(math.sqrt(5)))]
        if self.has_bias:
            starts.append((self.bias, Uniform(1 / math.sqrt(self.in_channels))))
        for parameter, start in starts:
            drawn = initializer(start, parameter.shape, parameter.dtype)
            parameter.set_data(drawn.init_data())

    @Asked
    def own_product(self) -> Any:
        """Whether an operator may stand for `matmul`, which tools exchange in an nn.Dense."""
        return type(self.matmul) is ops.MatMul

    def construct(self, x: Tensor) -> Tensor:
        """[..., inner] to [..., outer], with operands in the dtype of x or of mixed precision."""
        dtype = self.operand_dtype(x)
        shape = ops.shape(x)
        rows = rounded(ops.reshape(x, (-1, shape[-1])), dtype)
        return ops.reshape(self.product(rows, dtype), shape[:-1] + (self.out_channels,))

    def product(
        self, x: Tensor, dtype: Any, result: Any = mindspore.float32, batch: int = 0
    ) -> Any:
        """[T, inner] to [T, outer], in float32 where the device multiplies nothing narrower.

        `x` holds values of `dtype`. Where `projects` says so, `result` and `batch` are those of
        `nsa_projection`; with a bias `result` has to be float32.
        """
        if _multiplies_narrow():
            x, weight = ops.cast(x, dtype), ops.cast(self.weight, dtype)
            if self.total is not None:
                # A product of narrow operands would be rounded before it is summed, and a part of a
                # finite sum can be beyond float16.
                x, weight = ops.cast(x, mindspore.float32), ops.cast(weight, mindspore.float32)
            return self.biased(self.matmul(x, weight))
        y = None
        if self.own_product:
            products = nsa_projection(x, self.weight, None, None, dtype, result, batch)
            if products is not None:
                return self.biased(products[0])
            y = nsa_linear(x, self.weight, dtype)
        if y is None:
            y = self.matmul(x, rounded(self.weight, dtype))
        return self.biased(y)

    def biased(self, y: Any) -> Any:
        """The product, summed over the workers that have parts of it, with the bias."""
        if self.total is not None:
            y = self.total(y)
        if self.has_bias:
            y = y + ops.cast(self.bias, y.dtype)
        return y


def map_kind(cell: nn.Cell, mark: Any) -> Any:
    """How to call a Cell where a layer that mixed precision marked with `mark` has a linear map."""
    if type(cell) is Projection and "construct" not in vars(cell):
        own = untouched(cell, Projection) and cell.own_product and cell.amp_dtype in (None, mark)
        return OWN if own else CALLED
    return WITH_DTYPE if takes_dtype(cell, 1) else FOREIGN


def given(kind: Any, x: Tensor, dtype: Any) -> tuple[Any, ...]:
    """Arguments of a linear map that is called as a Cell, for x with values of `dtype`."""
    if kind == CALLED:
        return (ops.cast(x, dtype),)
    if kind == WITH_DTYPE:
        return x, dtype
    return (x,)


class Dropout(ExplicitPrecision, nn.Dropout):
    """nn.Dropout of a float32 tensor."""

    def __init__(self, p: Any) -> None:
        nn.Dropout.__init__(self, p=p)
        self.amp_dtype = None
