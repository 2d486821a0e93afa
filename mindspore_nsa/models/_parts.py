"""Linear maps, norms and rotations of the models, in float32 with operands of a dtype."""

from typing import NamedTuple

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, ops

from ..nn.branch_heads import halves
from ..nn.precision import ExplicitPrecision, Projection, rounded
from ..nn.rotary import RotaryAngles
from ..ops._by_device import split


class _Sizes(NamedTuple):
    has_bias: bool
    param_dtype: str = "float32"


class Linear(Projection):
    """A linear map whose operands are rounded to a dtype; the sums are float32."""

    def __init__(self, inner, outer, bias=False):
        super().__init__(_Sizes(bias), inner, outer)

    def construct(self, x, dtype):
        """float32 x [T, inner] to [T, outer]."""
        y = self.product(rounded(x, dtype), dtype)
        return ops.cast(y, mindspore.float32)


def _parameter(values, name):
    return Parameter(Tensor(values, mindspore.float32), name=name)


class RMSNorm(ExplicitPrecision):
    r"""x / sqrt(mean(x^2) + eps) times weights, of the last dimension, in float32.

    Args:
        dim (int): Size of the last dimension.
        eps (float): Added to the mean square.
        offset (float): Added to the weights: 1 where they start at 0.
    """

    def __init__(self, dim, eps=1e-6, offset=0.0):
        super().__init__()
        self.eps, self.offset = eps, offset
        self.weight = _parameter(np.full(dim, 1 - offset, np.float32), "weight")

    def construct(self, x):
        """float32 x [..., dim] in its shape."""
        return unit_rms(x, self.eps) * (self.weight + self.offset)


def unit_rms(x, eps):
    """x / sqrt(mean(x^2) + eps)."""
    return x * ops.rsqrt(ops.mean(x * x, -1, True) + eps)


def by_head(x, weights):
    """x [T, heads, K] times a matrix [heads, K, N] for each head, [T, heads, N]."""
    y = ops.matmul(ops.transpose(x, (1, 0, 2)), weights)
    return ops.transpose(y, (1, 0, 2))


class LayerNorm(ExplicitPrecision):
    """The layer norm of the last dimension, with the names of PyTorch's parameters."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = _parameter(np.ones(dim, np.float32), "weight")
        self.bias = _parameter(np.zeros(dim, np.float32), "bias")

    def construct(self, x):
        """float32 x [..., dim] in its shape."""
        centered = x - ops.mean(x, -1, True)
        scaled = centered * ops.rsqrt(ops.mean(centered * centered, -1, True) + self.eps)
        return scaled * self.weight + self.bias


class Angles(ExplicitPrecision):
    """Cosines and sines of positions, as `RotaryAngles`, times the factor of the embedding."""

    def __init__(self, rope):
        super().__init__()
        self.factor = rope.factor
        self.angles = RotaryAngles(rope.dim, rope.theta, rope.scaling)

    def construct(self, positions):
        """Two float32 Tensors [T, 1, dim] for positions [T]."""
        cos, sin = self.angles(positions)
        if self.factor == 1.0:
            return cos, sin
        return cos * self.factor, sin * self.factor


def turned(x, cos, sin, pairs=False, last=False):
    """x [T, N, D] with the first R dimensions, or the last ones, turned by their angles.

    Pair j is (j, j + R / 2); with `pairs` it is (2 j, 2 j + 1), which becomes (j, j + R / 2). For
    products of queries and keys that are turned alike this order does not matter.
    """
    rope, dim = cos.shape[-1], x.shape[-1]
    if rope == dim:
        return _turned_all(x, cos, sin, pairs)
    if last:
        rest, part = split(x, (dim - rope, rope), -1)
        return ops.concat((rest, _turned_all(part, cos, sin, pairs)), -1)
    part, rest = split(x, (rope, dim - rope), -1)
    return ops.concat((_turned_all(part, cos, sin, pairs), rest), -1)


def _turned_all(x, cos, sin, pairs):
    rope = cos.shape[-1]
    if pairs:
        x = halves(x, rope)
    first, second = split(x, rope // 2, -1)
    return x * cos + ops.concat((second, first), -1) * sin


def turned_in_place(x, cos, sin, sign=1):
    """x [T, N, D] with pairs (2 j, 2 j + 1) of the last R dimensions turned, in their order.

    With `sign` -1 they are turned back.
    """
    rope, dim = cos.shape[-1], x.shape[-1]
    if rope == dim:
        return _in_pairs(_turned_all(x, cos, sin * sign, True))
    rest, part = split(x, (dim - rope, rope), -1)
    return ops.concat((rest, _in_pairs(_turned_all(part, cos, sin * sign, True))), -1)


def _in_pairs(x):
    """Dimensions half a head apart come to stand beside each other."""
    shape = ops.shape(x)
    parts = ops.reshape(x, (-1, 2, shape[-1] // 2))
    return ops.reshape(ops.transpose(parts, (0, 2, 1)), shape)
