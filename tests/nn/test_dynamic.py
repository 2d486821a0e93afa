"""Lengths that a graph learns when it runs: one graph serves all."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from tests.ops.calls import context_mode

from .cells import ENDS, Weighted, config, filled, refer, tokens

SETTINGS = config()
ANY = Tensor(shape=[None, SETTINGS.hidden_size], dtype=ms.float32)
ANY_BATCH = Tensor(shape=[None, None, SETTINGS.hidden_size], dtype=ms.float32)
ANY_AT_ALL = Tensor(shape=[None, None, None], dtype=ms.float32)
ANY_LIST = Tensor(shape=[None], dtype=ms.int64)
# Fewer tokens than a stride, than a window, than a block; and more than select_block_count blocks.
LENGTHS = (1, 2, 3, 7, 9, 40)
# A gradient that is 0 because everything cancels (a query that sees one key) is rounding noise.
NOISE = 1e-6


class Step(nn.Cell):
    """Gradients inside one graph."""

    def __init__(self, layer):
        super().__init__()
        self.gradients = ms.value_and_grad(
            Weighted(layer), 0, layer.trainable_params(), has_aux=True
        )

    def construct(self, x, seq, upstream):
        return self.gradients(x, seq, upstream)


def check(results, names, expected):
    """Within 1e-5 of the largest value of each tensor."""
    ((_, out), (dx, grads)), (out64, dx64, grads64) = results, expected
    pairs = [(out, out64), (dx, dx64), *((g, grads64[n]) for n, g in zip(names, grads))]
    for ours, e in pairs:
        ours = ours.asnumpy().reshape(e.shape)
        np.testing.assert_allclose(ours, e, rtol=0, atol=1e-5 * max(np.abs(e).max(), NOISE))


@pytest.mark.parametrize("kind, batch", [("sparse", 2), ("sparse", 0), ("dense", 0)])
def test_any_length(kind, batch):
    """`batch` is the number of rows, 0 for packed documents."""
    layer, parameters = filled(kind, SETTINGS)
    names = [p.name for p in layer.trainable_params()]
    net = Step(layer)
    net.set_inputs(*((ANY_BATCH, None, ANY_BATCH) if batch else (ANY, ANY_LIST, ANY)))
    with context_mode("graph"):
        for length in LENGTHS:
            count = length * max(batch, 1)
            x, upstream = tokens(SETTINGS, count), tokens(SETTINGS, count, seed=2)
            if batch:
                ends = range(length, count + 1, length)
                rows = (Tensor(t.reshape(batch, length, -1)) for t in (x, upstream))
                results = net(next(rows), None, next(rows))
            else:
                ends = [length // 3, length // 3, length]
                results = net(Tensor(x), Tensor(ends, ms.int64), Tensor(upstream))
            check(results, names, refer(kind, x, parameters, SETTINGS, ends, upstream))
        assert len(net.compile_cache) == 1, net.compile_cache


def test_unknown_length_of_known_batch():
    layer, _ = filled("sparse", SETTINGS)
    x = Tensor(tokens(SETTINGS, 60).reshape(3, 20, -1))
    expected = layer(x).asnumpy()
    layer.set_inputs(Tensor(shape=[3, None, SETTINGS.hidden_size], dtype=ms.float32))
    with context_mode("graph"):
        np.testing.assert_array_equal(layer(x).asnumpy(), expected)


def test_unknown_length_with_a_constant_list():
    layer, _ = filled("sparse", SETTINGS)

    class Constant(nn.Cell):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def construct(self, x):
            return self.layer(x, (21, 60))

    x = Tensor(tokens(SETTINGS))
    expected = layer(x, (21, 60)).asnumpy()
    net = Constant()
    net.set_inputs(ANY)
    with context_mode("graph"):
        np.testing.assert_array_equal(net(x).asnumpy(), expected)


def test_new_lists_need_no_new_graph():
    layer, parameters = filled("sparse", SETTINGS)
    x = tokens(SETTINGS)
    with context_mode("graph"):
        for ends in (ENDS, (1, 2, 3, 30, 60), (60,) * 5, (0, 0, 0, 59, 60)):
            ours = layer(Tensor(x), Tensor(ends, ms.int64)).asnumpy()
            expected = refer("sparse", x, parameters, SETTINGS, ends, x)[0]
            bound = 1e-5 * np.abs(expected).max()
            np.testing.assert_allclose(ours, expected, rtol=0, atol=bound)
        assert len(layer.compile_cache) == 1


@pytest.mark.parametrize("kind", ["sparse", pytest.param("dense", marks=pytest.mark.soak)])
def test_unknown_width(kind):
    """The hidden size is checked when the graph runs."""
    layer, parameters = filled(kind, SETTINGS)
    names = [p.name for p in layer.trainable_params()]
    net = Step(layer)
    net.set_inputs(ANY_AT_ALL, None, ANY_AT_ALL)
    with context_mode("graph"):
        for length in (1, 9, 40):
            x, upstream = tokens(SETTINGS, length), tokens(SETTINGS, length, seed=2)
            results = net(Tensor(x[None]), None, Tensor(upstream[None]))
            check(results, names, refer(kind, x, parameters, SETTINGS, [length], upstream))
        assert len(net.compile_cache) == 1, net.compile_cache


@pytest.mark.parametrize("kind", ["sparse", pytest.param("dense", marks=pytest.mark.soak)])
def test_jit_of_any_shape(kind):
    """`dynamic=1` takes every dimension that was seen to change, or all, for unknown."""
    layer, _ = filled(kind, SETTINGS)
    x = Tensor(tokens(SETTINGS, 60)[None])
    expected = layer(x).asnumpy()

    @ms.jit(dynamic=1)
    def packed(x, seq):
        return layer(x, seq)

    @ms.jit(dynamic=1)
    def step(x, cache):
        return layer(x, cache=cache)

    near = {"rtol": 0, "atol": 1e-5 * np.abs(expected).max()}
    cache, begin = layer.new_cache(1, 60), 0
    for count in (20, 13, 7, 1, 1):
        ours = packed(x[0, :count], Tensor([count])).asnumpy()
        np.testing.assert_allclose(ours, expected[0, :count], **near)
        end = begin + count
        ours = step(x[:, begin:end], cache).asnumpy()
        np.testing.assert_allclose(ours, expected[:, begin:end], **near)
        begin = end


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("width", [SETTINGS.hidden_size // 2, 2 * SETTINGS.hidden_size])
def test_a_wrong_width_in_a_graph_of_any_shape(kind, width):
    """Half or twice the hidden size is not taken for other numbers of tokens."""
    layer, _ = filled(kind, SETTINGS)
    layer.set_inputs(ANY_AT_ALL)
    x = Tensor(np.zeros((2, 4, width), np.float32))
    size = SETTINGS.hidden_size
    text = rf"{type(layer).__name__}: x must be of shape \[B, S, {size}\] or \[T, {size}\], "
    text += rf"got \(2, 4, {width}\)"
    with context_mode("graph"), pytest.raises(ValueError, match=text):
        layer(x).asnumpy()
