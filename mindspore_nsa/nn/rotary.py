"""Rotary position embedding for positions that are known only at run time."""

from functools import lru_cache

import mindspore
import numpy as np
from mindspore import Tensor, ops

from .precision import Float32Cell

# A position is coarse * STEP + fine. Two small tables of angles serve every position below LIMIT
# whatever the sequence length, and reach float64's angles to a float32's last bits: an angle
# computed in float32 is off by 4e-3 at position 65536.
STEP = 2048
LIMIT = 1024 * STEP


@lru_cache(maxsize=8)
def _tables(dim, theta):
    """[cos | sin] of the coarse and of the fine angles, float32 [1024, dim] and [2048, dim]."""
    frequencies = theta ** (-np.arange(0, dim, 2) / dim)

    def table(positions):
        angles = positions[:, None] * frequencies
        return Tensor(np.concatenate((np.cos(angles), np.sin(angles)), 1).astype(np.float32))

    return table(np.arange(0, LIMIT, STEP)), table(np.arange(STEP))


class RotaryAngles(Float32Cell):
    """Cosines and sines of positions: frequency i < dim / 2 is theta^(-2 i / dim)."""

    def __init__(self, dim, theta):
        super().__init__()
        self.half = dim // 2
        self.coarse, self.fine = _tables(dim, theta)

    def construct(self, positions):
        """Integer positions [T] in [0, 2^21) to two float32 tensors [T, 1, dim / 2]."""
        coarse = ops.gather(self.coarse, ops.floor_divide(positions, STEP), 0)
        fine = ops.gather(self.fine, ops.floor_mod(positions, STEP), 0)
        cos_a, sin_a = ops.split(coarse, self.half, -1)
        cos_b, sin_b = ops.split(fine, self.half, -1)
        cos = cos_a * cos_b - sin_a * sin_b
        sin = sin_a * cos_b + cos_a * sin_b
        return ops.expand_dims(cos, 1), ops.expand_dims(sin, 1)


class Rotate(Float32Cell):
    """Rotates every pair (x[i], x[i + dim / 2]) by its angle, as Llama does."""

    def __init__(self, dim):
        super().__init__()
        self.half = dim // 2

    def construct(self, x, cos, sin):
        """x is [T, N, dim]; cos and sin are those of `RotaryAngles`."""
        dtype = self.dtype_of(x)
        a, b = ops.split(ops.cast(x, mindspore.float32), self.half, -1)
        return ops.cast(ops.concat((a * cos - b * sin, b * cos + a * sin), -1), dtype)
