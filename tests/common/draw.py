"""Random draws that the case generators share."""

import numpy as np

from mindspore_nsa.reference.attention import FLT_MAX
from mindspore_nsa.testing.dtypes import DTYPES, encode

DIMS = (7, 16, 40, 64, 96, 128, 192)
GROUPS = (1, 1, 2, 3, 4, 16)


class Draw:
    """A seeded source of sizes, lists and tensors of one dtype."""

    def __init__(self, seed, dtype=None):
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype or self.pick(DTYPES)

    def pick(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability):
        return bool(self.rng.random() < probability)

    def between(self, low, high):
        """An integer in [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def tensor(self, *shape, spread=1):
        """Normal values in the dtype of the case."""
        return encode(spread * self.rng.standard_normal(shape, np.float32), self.dtype)

    def query(self, *shape):
        """Now and then large: scores far apart, a softmax with little but its maximum."""
        return self.tensor(*shape, spread=self.pick((1, 1, 1, 6)))

    def floats(self, *shape):
        """Normal float32 values whatever the dtype of the case."""
        return self.rng.standard_normal(shape, np.float32)

    def sum_grad(self, row_sum):
        """Now and then a gradient of softmax_sum, as a function of its logarithm has it.

        Not where a row sees nothing: whatever it is there, it has no effect.
        """
        if not self.chance(0.3):
            return None
        grad = self.floats(*row_sum.shape)
        return (grad / np.where(row_sum == FLT_MAX, 1, row_sum)).astype(np.float32)

    def scale(self, dim):
        """A float32 value, mostly 1/sqrt(D)."""
        return float(np.float32(self.pick((1, 1, 1, 0.5, 2)) / np.sqrt(dim)))

    def lengths(self, pool, limit, most=6):
        """Lengths of up to `most` segments from the pool, 0 among them, of `limit` at most in sum.

        The sum is at least 1.
        """
        drawn, total = [], 0
        for _ in range(self.between(1, most)):
            fitting = [n for n in pool if 0 < n <= limit - total]
            length = self.pick(fitting) if fitting and not self.chance(0.15) else 0
            drawn.append(length)
            total += length
        if total == 0:
            drawn[-1] = 1
        return drawn

    def many_lengths(self, limit):
        """A lot of very short segments."""
        lengths = [self.between(0, 3) for _ in range(self.between(10, 40))]
        return [*lengths, 1] if sum(lengths) < limit else lengths[: limit // 3] + [1]

    def prefix_sums(self, lengths):
        """The sequence list of these lengths, as int64 or int32."""
        return np.cumsum(lengths).astype(self.pick((np.int64, np.int64, np.int32)))

    def int_list(self, values):
        return np.asarray(values).astype(self.pick((np.int64, np.int64, np.int32)))

    def mask(self, *shape, density=None):
        """bool or uint8, 1 = masked (or forced)."""
        density = self.pick((0.1, 0.5, 0.9)) if density is None else density
        return (self.rng.random(shape) < density).astype(self.pick((np.bool_, np.uint8)))


def poison_from(tensor, row):
    """A copy of the tensor whose rows from `row` on are NaN: they must never be read."""
    if isinstance(tensor, tuple):
        bits = tensor[1].copy()
        bits[row:] = 0x7FC0
        return (tensor[0], bits)
    tensor = tensor.copy()
    tensor[row:] = np.nan
    return tensor
