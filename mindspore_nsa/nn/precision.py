"""What computes in float32 whatever the mixed precision around it, and rounds its result once."""

import mindspore
from mindspore import nn, ops
from mindspore.ops import constexpr

from .._config import requested_target, resolve_target

_NARROW = {"fp16": mindspore.float16, "bf16": mindspore.bfloat16, "fp32": mindspore.float32}


def _device():
    return mindspore.context.get_context("device_target")


@constexpr
def computes_narrow():
    """Whether the device multiplies float16 and bfloat16 matrices: Ascend does.

    MindSpore's CPU kernels have neither products nor sums nor sigmoids of bfloat16.
    """
    return resolve_target(requested_target(), _device()) == "ascend"


class Float32Cell(nn.Cell):
    """A Cell whose operators compute in float32 on a CPU, and whose result is in `dtype_of` x.

    Mixed precision (`to_float`, the amp levels O2 and O3) marks every Cell with flags: a graph then
    casts the inputs and parameters of the Cell, PyNative mode those of each of its operators. This
    one keeps the mark for itself and shows float32 instead, so that it can cast where it is right.
    """

    def __init__(self):
        super().__init__()
        self.narrow = None

    def add_flags(self, **flags):
        """Take over the flags of mixed precision."""
        for name, dtype in _NARROW.items():
            if flags.get(name):
                self.narrow = dtype
                if _device() == "CPU":
                    flags.update(fp16=False, bf16=False, fp32=True)
                break
        return super().add_flags(**flags)

    def dtype_of(self, x):
        """The dtype of the result for an input x."""
        if self.narrow is None:
            return x.dtype
        return self.narrow


class Projection(Float32Cell, nn.Dense):
    """nn.Dense whose result has the dtype of its input or of the mixed precision in force.

    Operands are rounded to that dtype, products are summed in float32, and the sum is rounded once:
    what a matrix unit does, on a CPU too, where nn.Dense refuses bfloat16.
    """

    def __init__(self, in_channels, out_channels, has_bias, dtype):
        nn.Dense.__init__(self, in_channels, out_channels, has_bias=has_bias, dtype=dtype)
        self.narrow = None

    def construct(self, x):
        """x is [T, in_channels], the result [T, out_channels]."""
        dtype = self.dtype_of(x)
        x, weight = ops.cast(x, dtype), ops.cast(self.weight, dtype)
        if not computes_narrow():
            x, weight = ops.cast(x, mindspore.float32), ops.cast(weight, mindspore.float32)
        y = self.matmul(x, weight)
        if self.has_bias:
            y = ops.add(y, ops.cast(self.bias, y.dtype))
        return ops.cast(y, dtype)
