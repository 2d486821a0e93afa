"""Rotary position embedding for positions that are known only at run time."""

from functools import lru_cache
from typing import Any

import numpy as np
from mindspore import Tensor, ops

from ..ops._by_device import remainder, split, take_rows
from ..ops._custom import constant
from .precision import ExplicitPrecision

# A position is coarse * STEP + fine. Two tables of angles serve every position below LIMIT whatever
# the sequence length, and reach float64's angles to a float32's last bits: an angle computed in
# float32 is off by 4e-3 at position 65536. STEP is kAngleStep of ascendc/nsa_cache_step. Beyond
# 2^24 the coarse table would be larger than what it serves, and float32 would not count the tokens
# of a padded row.
STEP = 2048
LIMIT = 8192 * STEP


@lru_cache(maxsize=8)
def _tables(dim: int, theta: float, scaling: Any) -> tuple[Any, ...]:
    """[cos, cos, sin, sin] of the coarse and of the fine angles, float32 [rows, 2 dim]."""
    if scaling is None:
        frequencies = theta ** (-np.arange(0, dim, 2) / dim)
    else:
        frequencies = scaling.frequencies(dim, theta)

    def table(positions: Any) -> Any:
        angles = positions[:, None] * frequencies
        cos, sin = np.cos(angles), np.sin(angles)
        return constant(np.concatenate((cos, cos, sin, sin), 1).astype(np.float32))

    return table(np.arange(0, LIMIT, STEP)), table(np.arange(STEP))


class RotaryAngles(ExplicitPrecision):
    r"""Cosines and sines of the angles by which `Rotate` turns the heads of every token.

    Pair :math:`i < dim / 2` of a head turns by :math:`position \cdot theta^{-2 i / dim}`.

    Args:
        dim (int): Size of a head, even.
        theta (float): Base of the wavelengths.
        scaling (RopeScaling, optional): Other angles than these. Default: ``None``.

    Inputs:
        - **positions** (Tensor) - Shape :math:`(T,)`, dtype int32 or int64, values in
          :math:`[0, 2^{24})`.

    Outputs:
        Tuple of two float32 Tensors of shape :math:`(T, 1, dim)`: cosines, and sines that are
        negative in the first half.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import mindspore as ms
        >>> from mindspore_nsa.nn import RotaryAngles
        >>> cos, sin = RotaryAngles(4, 100.0)(ms.Tensor([0, 10]))
        >>> print(cos[:, 0])
        [[ 1.         1.         1.         1.       ]
         [-0.8390715  0.5403023 -0.8390715  0.5403023]]
    """

    def __init__(self, dim: int, theta: float, scaling: Any = None) -> None:
        super().__init__()
        self.dim, self.made_with = dim, (dim, theta, scaling)
        self.coarse, self.fine = _tables(dim, theta, scaling)
        sign = np.repeat(np.float32([-1, 1]), dim // 2)
        self.sign = constant(sign)

    def construct(self, positions: Any) -> tuple[Tensor, Tensor]:
        """See the class."""
        coarse = take_rows(self.coarse, ops.floor_divide(positions, STEP))
        fine = take_rows(self.fine, remainder(positions, STEP))
        cos_a, sin_a = split(coarse, self.dim, -1)
        cos_b, sin_b = split(fine, self.dim, -1)
        cos = cos_a * cos_b - sin_a * sin_b
        sin = (sin_a * cos_b + cos_a * sin_b) * self.sign
        return ops.expand_dims(cos, 1), ops.expand_dims(sin, 1)


class Rotate(ExplicitPrecision):
    r"""Rotary position embedding: turns every pair (x[i], x[i + dim / 2]) by its angle.

    Args:
        dim (int): Size of a head, even.

    Inputs:
        - **x** (Tensor) - Shape :math:`(T, N, dim)`, dtype float32.
        - **cos** (Tensor), **sin** (Tensor) - What `RotaryAngles` gives.

    Outputs:
        Tensor, shape and dtype of `x`.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import mindspore as ms
        >>> from mindspore_nsa.nn import Rotate, RotaryAngles
        >>> cos, sin = RotaryAngles(4, 100.0)(ms.Tensor([0, 10]))
        >>> print(Rotate(4)(ms.ops.ones((2, 1, 4)), cos, sin)[1])
        [[-0.29505038 -0.30116868 -1.3830926   1.3817732 ]]
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.half = dim // 2

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """See the class."""
        first, second = split(x, self.half, -1)
        return x * cos + ops.concat((second, first), -1) * sin
