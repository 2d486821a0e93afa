"""The arithmetic in which a reference function runs."""

import numpy as np

FLT_MIN = float(np.finfo(np.float32).tiny)


class Precision:
    """Where a computation rounds; this base rounds nowhere and computes in float64.

    The tests derive from it the textbook implementation in float32 whose error sets the tolerance
    for the kernels, so both share one set of masks and segments.
    """

    real = np.float64
    one_sum = False  # dK and dV of a key head: of all its group's terms, or of its heads' sums
    summed_rows = None  # terms of dK and dV that are summed by themselves; None: all of them

    def array(self, x):
        """The input x in the type of the arithmetic."""
        return np.asarray(x, self.real)

    def matmul(self, a, b):
        """a @ b over the last two dimensions."""
        return a @ b

    def dot(self, a, b):
        """The sum of a * b over the last dimension."""
        return (a * b).sum(axis=-1)

    def sum(self, x, axis):
        """The sum of x over one dimension."""
        return x.sum(axis=axis)

    def matmul_copies(self, a, count, b):
        """a @ b, the term of pair (i, j) taken count[i, j] times."""
        return self.matmul(a * count.astype(self.real), b)

    def sum_copies(self, x, count):
        """The sum of every row of x, element (i, j) taken count[i, j] times."""
        return self.sum(x * count.astype(self.real), axis=-1)

    def flushed(self, p):
        """P or exp(score - max), where anything below the smallest normal float32 counts as 0."""
        return np.where(p < FLT_MIN, 0, p)

    def operand(self, x):
        """P or dS as an operand of a matrix product."""
        return x

    def difference(self, a, b):
        """a - b where the two may cancel: dP - Dvec of the attention gradients."""
        return a - b

    def output(self, x):
        """A finished output that has the dtype of the inputs."""
        return x


FLOAT64 = Precision()
