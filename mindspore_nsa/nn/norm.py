"""The norm of queries and keys."""

from typing import Any

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, ops
from mindspore.ops.auto_generate import RmsNorm

from ..ops._by_device import on_ascend
from ..ops._custom import constant
from .config import NSAConfig
from .precision import ExplicitPrecision


class HeadNorm(ExplicitPrecision):
    r"""Divides every head by its root mean square and multiplies it by learned weights.

    .. math::
        out = \frac{x}{\sqrt{mean(x^2) + \epsilon}} \cdot weight

    Args:
        config (NSAConfig): Its head_dim, qk_norm_eps and param_dtype.
        sets (int): Sets of heads with weights of their own.
    """

    def __init__(self, config: NSAConfig, sets: int) -> None:
        super().__init__()
        self.sets, self.dim, self.eps = sets, config.head_dim, config.qk_norm_eps
        shape = (self.dim,) if sets == 1 else (sets, self.dim)
        ones = Tensor(np.ones(shape, np.float32))
        dtype = getattr(mindspore, config.param_dtype)
        self.weight = Parameter(ones.astype(dtype), name="weight")
        self.norm, self.ones = RmsNorm(self.eps), constant(np.ones(self.dim, np.float32))
        # Workers that share the heads sum its gradients.
        self.enter: Any = None

    def reset_parameter(self) -> None:
        """Give the weights the values that they start with."""
        ones = Tensor(np.ones(self.weight.shape, np.float32))
        self.weight.set_data(ones.astype(self.weight.dtype))

    def construct(self, x: Tensor) -> Tensor:
        """float32 x [T, sets * heads * dim] in the same shape."""
        weight = ops.cast(self.weight, mindspore.float32)
        if self.enter is not None:
            weight = self.enter(weight)
        weight = ops.reshape(weight, (self.sets, 1, self.dim))
        shape = ops.shape(x)
        heads = ops.reshape(x, (-1, self.sets, shape[-1] // (self.sets * self.dim), self.dim))
        if on_ascend():
            normed = self.norm(heads, self.ones)[0]
        else:
            normed = heads * ops.rsqrt(ops.mean(heads * heads, -1, True) + self.eps)
        return ops.reshape(normed * weight, shape)
