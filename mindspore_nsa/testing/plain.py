"""The plain implementation, whose error sets the tolerance for the kernels.

It is the textbook formula of the reference in float32 arithmetic, with P, dS and the outputs
rounded to the dtype: every function of `mindspore_nsa.reference` called with
`precision=plain_precision(dtype, order)`. In which order a sum runs is a matter of taste, and in a
small tensor a matter of luck (dP and Dvec may cancel to the last bit): `order` chooses one.
    0           NumPy's: however its BLAS blocks them
    1, 2        term by term as written down; 2 fuses multiplication and addition
    3, 4        likewise, and dK and dV of a key head are one sum over the rows of all heads of its
                group, as of a product whose rows these are, not a sum of the heads' sums
    5, 6, ...   as these four, term by term in a random order
From 1 on, dK and dV are sums of the sums of ROWS terms. Kernels add them up step by step, too: the
partial sums of one long sum are larger.
"""

import numpy as np

from mindspore_nsa.reference import Precision

from .dtypes import SMALLEST_NORMAL, round_to

# The most rows that a step of the kernels adds up: that of Ascend.
ROWS = 512


class Plain(Precision):
    """float32 arithmetic; operands of the second matrix products and outputs in `dtype`."""

    real = np.float32

    def __init__(self, dtype):
        self.dtype = dtype

    def operand(self, x):
        return round_to(x, self.dtype)

    def output(self, x):
        return round_to(x, self.dtype)


class TermByTerm(Plain):
    """The orders from 1 on."""

    summed_rows = ROWS

    def __init__(self, dtype, order):
        super().__init__(dtype)
        self.permutation, self.fused = (order - 1) // 4, order % 2 == 0
        self.one_sum = (order - 1) // 2 % 2 == 1

    def _terms(self, count, kind):
        if self.permutation == 0:
            return range(count)
        # dP and Dvec differ in order, or they would cancel exactly in all of them.
        return np.random.default_rng((self.permutation, kind)).permutation(count)

    def _products(self, a, b, result, kind):
        """result += the products of the pairs (a[t], b[t]) over the first dimension."""
        # The product of two float32 is exact in float64, so a sum there rounds once, fused.
        real = np.float64 if self.fused else np.float32
        a, b = np.ascontiguousarray(a, real), np.ascontiguousarray(b, real)
        product = np.empty(result.shape, real)
        for term in self._terms(len(a), kind):
            np.multiply(a[term], b[term], out=product)
            np.add(result, product, out=result, casting="same_kind")
        return result

    def matmul(self, a, b):
        shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        result = np.zeros((*shape, a.shape[-2], b.shape[-1]), np.float32)
        if shape and result.size > 1 << 15:  # matrix by matrix, in cache
            matrices = zip(*(np.broadcast_to(x, (*shape, *x.shape[-2:])) for x in (a, b)))
            return np.stack([self.matmul(*pair) for pair in matrices])
        columns, rows = np.moveaxis(a, -1, 0)[..., None], np.moveaxis(b, -2, 0)[..., None, :]
        return self._products(columns, rows, result, 0)

    def dot(self, a, b):
        result = np.zeros(a.shape[:-1], np.float32)
        return self._products(np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0), result, 1)

    def sum(self, x, axis):
        result = np.zeros(np.delete(x.shape, axis), np.float32)
        terms = np.moveaxis(x, axis, 0)
        for term in self._terms(len(terms), 1):
            result += terms[term]
        return result

    def matmul_copies(self, a, count, b):
        copies = _copies(a, count)
        return self.matmul(np.concatenate(copies, axis=-1), np.concatenate([b] * len(copies), -2))

    def sum_copies(self, x, count):
        return self.sum(np.concatenate(_copies(x, count), axis=-1), axis=-1)


def _copies(x, count):
    """Arrays that add up to x * count, as gathering a key more than once makes more terms."""
    return [
        np.where(count > copy, x, np.float32(0)) for copy in range(max(1, count.max(initial=1)))
    ]


def plain_precision(dtype, order=0):
    """The arithmetic of the plain implementation."""
    return Plain(dtype) if order == 0 else TermByTerm(dtype, order)


class Terms(Precision):
    """float64 with |dP| + |Dvec| for dP - Dvec: how large the gradients are before they cancel."""

    def difference(self, a, b):
        return abs(a) + abs(b)


class _Operand(np.ndarray):
    """P or dS, by which `Sizes` knows the products that make outputs."""


class Unflushed(Precision):
    """float64 that keeps probabilities below the smallest normal float32.

    Ascend's Exp gives them, the CPU kernels and the definition count them as 0.
    """

    def flushed(self, p):
        return p


class Sizes(Terms):
    """float64 with the absolute values of what outputs are sums of: the scales of their rows.

    A P or dS below the smallest normal number of the dtype is rounded as if it were that number, so
    it counts as that much.
    """

    def __init__(self, dtype):
        self.least = SMALLEST_NORMAL[dtype]

    def flushed(self, p):
        return p

    def operand(self, x):
        x = np.where(x == 0, 0, np.maximum(abs(x), self.least))
        return np.asarray(x).view(_Operand)

    def matmul(self, a, b):
        if isinstance(a, _Operand):
            a, b = abs(a), abs(b)
        return np.asarray(a) @ np.asarray(b)

    def matmul_copies(self, a, count, b):
        return self.matmul(np.asarray(a * count).view(_Operand), b)

    def dot(self, a, b):
        return abs(a * b).sum(axis=-1)

    def sum(self, x, axis):
        return abs(np.asarray(x)).sum(axis=axis)
