"""Mixed precision: the levels of MindSpore's amp, `to_float`, and narrow inputs."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from mindspore_nsa.nn.precision import rounded
from tests.ops.calls import context_mode

from .cells import (
    ENDS,
    KINDS,
    config,
    differentiated,
    filled,
    forget_products,
    refer,
    to_numpy,
    tokens,
    use_own_products,
)

BOTH = pytest.mark.parametrize("mode", ["pynative", "graph"])
SETTINGS = config(has_bias=True)
# Largest error of outputs and gradients, relative to the largest value: the roundings of one layer.
BOUND = {"float16": 5e-3, "bfloat16": 4e-2}
SEQ = Tensor(ENDS, ms.int64)


def check(kind, ours, parameters, dtype):
    """Near the definition, but not as near as float32 would be."""
    x, upstream = tokens(SETTINGS), tokens(SETTINGS, seed=2)
    out, dx, grads = refer(kind, x, parameters, SETTINGS, ENDS, upstream)
    pairs = [(ours[0], out), (ours[1], dx), *((ours[2][name], g) for name, g in grads.items())]
    for a, b in pairs:
        error = np.abs(a - b).max() / np.abs(b).max()
        assert 1e-6 < error < BOUND[dtype]


@pytest.mark.parametrize(
    "kind, level, dtype, mode",
    [
        ("sparse", "O2", "float16", "pynative"),
        ("dense", "O3", "bfloat16", "pynative"),
        ("sparse", "O2", "bfloat16", "graph"),
        ("dense", "O3", "float16", "graph"),
    ],
)
def test_level(kind, level, dtype, mode):
    """Outputs in float32, as MindSpore gives them at these levels; every gradient in float32."""
    layer, parameters = filled(kind, SETTINGS)
    with context_mode(mode):
        net = ms.amp.auto_mixed_precision(layer, level, dtype=getattr(ms, dtype))
        run = differentiated(net, [p.name for p in layer.trainable_params()])
        ours = run(Tensor(tokens(SETTINGS)), SEQ, Tensor(tokens(SETTINGS, seed=2)))
    check(kind, ours, parameters, dtype)


def test_recompute():
    """A graph that computes the layer again has no cycle with operands of 16 bits either."""
    layer, parameters = filled("sparse", SETTINGS)
    layer.to_float(ms.bfloat16).recompute()
    with context_mode("graph"):
        ours = differentiated(layer)(
            Tensor(tokens(SETTINGS)), SEQ, Tensor(tokens(SETTINGS, seed=2))
        )
    check("sparse", ours, parameters, "bfloat16")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_tokens_are_rounded(kind, dtype):
    """Rounded tokens give the bits of tokens that have the dtype's values already."""
    layer, _ = filled(kind, SETTINGS)
    layer.to_float(getattr(ms, dtype))
    x = Tensor(tokens(SETTINGS))
    exact = x.astype(getattr(ms, dtype)).astype(ms.float32)
    ours, expected = (to_numpy(layer(each, SEQ)) for each in (x, exact))
    np.testing.assert_array_equal(ours, expected)


def test_narrow_values_are_rounded_to_another_dtype():
    """1e-6 in bfloat16 lies between two values of float16; 1 + 2^-7 is a value of both."""
    x = Tensor(np.float32([1e-6, 1 + 2.0**-7])).astype(ms.bfloat16)
    found = rounded(x, ms.float16)
    assert found.dtype == ms.float32
    expected = x.astype(ms.float32).asnumpy().astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(found.asnumpy(), expected)
    assert expected[0] != x.astype(ms.float32).asnumpy()[0]


@pytest.mark.parametrize(
    "own, dtype, mode",
    [
        *((own, "float16", "pynative") for own in (True, False)),
        pytest.param(True, "bfloat16", "graph", marks=pytest.mark.soak),
        (False, "float16", "graph"),
    ],
    ids=["own-pynative", "mindspore-pynative", "own-graph", "mindspore-graph"],
)
def test_level_auto(own, dtype, mode, monkeypatch):
    """It casts MindSpore's products only: with its own the layer stays in float32."""
    use_own_products(monkeypatch, own)
    layer, parameters = filled("sparse", SETTINGS)
    x, dy = Tensor(tokens(SETTINGS)), Tensor(tokens(SETTINGS, seed=2))
    names = [p.name for p in layer.trainable_params()]
    out, dx, slopes = differentiated(layer, names)(x, SEQ, dy)
    with context_mode(mode):
        net = ms.amp.auto_mixed_precision(layer, "auto", dtype=getattr(ms, dtype))
        ours = differentiated(net, names)(x, SEQ, dy)
    forget_products()
    if not own:
        return check("sparse", ours, parameters, dtype)
    pairs = [(ours[0], out), (ours[1], dx), *((ours[2][name], slopes[name]) for name in slopes)]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(b).max())


@BOTH
def test_level_o1(mode):
    """Its white list knows MindSpore's own classes: the layer stays in float32."""
    layer, _ = filled("sparse", SETTINGS)
    x = Tensor(tokens(SETTINGS))
    expected = layer(x, SEQ).asnumpy()
    with context_mode(mode):
        ours = ms.amp.auto_mixed_precision(layer, "O1", dtype=ms.bfloat16)(x, SEQ).asnumpy()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    "mode, dtype", [("pynative", "float16"), ("pynative", "bfloat16"), ("graph", "bfloat16")]
)
def test_narrow_input(mode, dtype):
    """Without amp the layer computes in the dtype of its input, whose dtype the output has."""
    narrow = getattr(ms, dtype)
    layer, parameters = filled("sparse", config(has_bias=True, param_dtype=dtype))
    with context_mode(mode):
        x = Tensor(tokens(SETTINGS)).astype(narrow)
        if mode == "pynative":
            assert layer(x, SEQ).dtype == narrow
        ours = differentiated(layer)(x, SEQ, Tensor(tokens(SETTINGS, seed=2)))
    check("sparse", ours, parameters, dtype)


class Around(nn.Cell):
    """A network that is narrow as a whole, with a layer in it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, seq):
        return self.layer(x, seq)


@pytest.mark.parametrize(
    "mode, dtype", [("pynative", "float16"), ("pynative", "bfloat16"), ("graph", "bfloat16")]
)
def test_to_float(mode, dtype):
    """to_float of a network around the layer; setting it back gives the earlier bits."""
    layer, _ = filled("sparse", SETTINGS)
    x = Tensor(tokens(SETTINGS))
    full = layer(x, SEQ).asnumpy()
    with context_mode(mode):
        net = Around(layer).to_float(getattr(ms, dtype))
        narrow = net(x, SEQ)
        assert narrow.dtype == getattr(ms, dtype)
        error = np.abs(to_numpy(narrow) - full).max() / np.abs(full).max()
        assert 1e-6 < error < BOUND[dtype]
    again = layer.to_float(ms.float32)(x, SEQ).asnumpy()
    np.testing.assert_array_equal(again, full)


def test_positions_are_not_rounded():
    """Position 1025 is 1024 in bfloat16: the key there would be turned like its neighbour."""
    settings = config(window_size=4096)
    layer, parameters = filled("window", settings)
    x = tokens(settings, 1100)
    expected = refer("window", x, parameters, settings, [1100], x)[0]
    ours = to_numpy(layer.to_float(ms.bfloat16)(Tensor(x), (1100,)))
    error = np.abs(ours - expected)[1024:].max() / np.abs(expected).max()
    assert error < BOUND["bfloat16"]
