"""MindSpore's own faults that docs/native_sparse_attention.md describes, and their remedies.

Where one of these no longer fails, MindSpore has mended it: the page may say less.
"""

from typing import NamedTuple

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from .cells import config, filled, tokens

SETTINGS = config()


def doubled(x):
    return x * 2 + 1


def looped(step):
    """A jit function with a `while` that depends on a Tensor."""

    def function(x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            x, i = step(x), i + 1
        return x

    return ms.jit(function)


def chosen(step):
    """One with an `if` that does."""

    def function(x, n):
        if n > 0:
            x = step(x)
        return x

    return ms.jit(function)


ONE = Tensor(1, ms.int32)


@pytest.mark.parametrize("around", [looped, chosen])
def test_a_view_is_to_be_copied(around):
    """One row of tokens from the first on, of which `contiguous` gives the view again."""
    layer, _ = filled("dense", SETTINGS)
    x = Tensor(tokens(SETTINGS, 40)[None])
    for first in (x[:, :1], x[:, 5:6]):
        expected = layer(Tensor(first.asnumpy().copy())).asnumpy()
        ours = around(layer)(first.copy(), ONE).asnumpy()
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    wrong = around(doubled)(x[:, :1].contiguous(), ONE).asnumpy()
    assert not np.allclose(wrong, doubled(x[:, :1].asnumpy()))


def row_of(x):
    """MindSpore's own operator by which a layer reads rotary angles, of a table."""
    return ops.gather(Tensor(np.eye(4, dtype=np.float32)), Tensor([1]), 0) + x


def test_vmap_of_a_layer():
    layer, _ = filled("dense", SETTINGS)

    def call(x):
        return layer(x)

    x = Tensor(tokens(SETTINGS, 40).reshape(2, 1, 20, -1))
    text = r"For Operator\[Gather\], the inputs number should be 4"
    with pytest.raises(TypeError, match=text):
        ops.vmap(row_of)(Tensor(np.ones((2, 1, 4), np.float32)))
    with pytest.raises(TypeError, match=text):
        ops.vmap(call)(x)
    assert layer(x[:, 0]).shape == (2, 20, SETTINGS.hidden_size)


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


def product(pair):
    return pair.first * pair.second


def test_a_named_tuple_of_tensors_loses_gradients():
    """So parts of a layer hand plain tuples on; constants of a graph may be NamedTuples."""

    def named(x):
        return product(Pair(first=x, second=2 * x)).sum()

    def plain(x):
        first, second = x, 2 * x
        return (first * second).sum()

    x = Tensor(np.arange(1, 4, dtype=np.float32))
    np.testing.assert_array_equal(ms.grad(named)(x), 4 * x)
    np.testing.assert_array_equal(ms.jit(ms.grad(plain))(x), 4 * x)
    np.testing.assert_array_equal(ms.jit(ms.grad(named))(x), 0 * x)
