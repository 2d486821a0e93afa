"""The linear maps of the layers: few rows, for which there is an operator, and many, for which
there is one with some instruction sets.
"""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import mindspore_nsa
from mindspore_nsa.nn.precision import Projection
from mindspore_nsa.ops._layer import FEW_ROWS, nsa_linear, nsa_projection, projects
from mindspore_nsa.testing.dtypes import decode, encode
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

INNER, OUTER = 40, 24


@pytest.fixture(params=[True, False], ids=["own", "mindspore"])
def own(request, monkeypatch):
    """With an instruction set whose own products are used, and without."""
    use_own_products(monkeypatch, request.param)
    yield request.param
    forget_products()


@pytest.mark.parametrize(
    "dtype, held, mode",
    [
        *(
            (dtype, held, "pynative")
            for dtype in ("float32", "bfloat16", "float16")
            for held in ("float32", "bfloat16")
        ),
        # Graphs take long to compile: every dtype, and every one held, once.
        *(("float32", "bfloat16", "graph"), ("bfloat16", "float32", "graph")),
        *(("float16", "float32", "graph"),),
    ],
)
def test_values_and_gradients(own, mode, dtype, held):
    """Values for as many rows as the operator for few rows takes, and for one more."""
    projection = Projection(config(has_bias=True, param_dtype=held), INNER, OUTER)
    rng = np.random.default_rng(1)
    kept = decode(encode(rng.standard_normal((OUTER, INNER), np.float32), held))
    projection.weight.set_data(Tensor(kept.astype(np.float32)).astype(getattr(ms, held)))
    weight = decode(encode(kept.astype(np.float32), dtype)).astype(np.float64)
    bias = projection.bias.astype(ms.float32).asnumpy().astype(np.float64)
    narrow = getattr(ms, dtype)

    def weighed(x, dout):
        return ops.sum(projection.product(x, narrow) * dout)

    for rows in (1, FEW_ROWS, FEW_ROWS + 1):
        x = decode(encode(rng.standard_normal((rows, INNER), np.float32), dtype))
        x, dout = x.astype(np.float32), rng.standard_normal((rows, OUTER)).astype(np.float32)
        if own and dtype == "bfloat16" and rows > FEW_ROWS:
            # The products of the gradients round them.
            dout = decode(encode(dout, dtype))
        with context_mode(mode):
            y = projection.product(Tensor(x), narrow).asnumpy()
            differentiate = ms.grad(weighed, 0, projection.trainable_params())
            dx, of_parameters = differentiate(Tensor(x), Tensor(dout))
        near(y, x @ weight.T + bias)
        near(dx.asnumpy(), dout @ weight)
        slope = next(g for g in of_parameters if g.ndim == 2)
        assert slope.dtype == getattr(ms, held)
        near(slope.astype(ms.float32).asnumpy(), dout.T @ x, 2.0**-8 if held == "bfloat16" else 0)


def near(ours, expected, rounding=0.0):
    assert ours.shape == expected.shape
    bound = (4e-6 + rounding) * np.abs(expected).max()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=bound)


def test_the_operator_takes_few_rows():
    weight = Tensor(np.ones((OUTER, INNER), np.float32))
    for rows, taken in ((1, True), (FEW_ROWS, True), (FEW_ROWS + 1, False)):
        y = nsa_linear(Tensor(np.ones((rows, INNER), np.float32)), weight, ms.bfloat16)
        assert (y is not None) == taken
        if taken:
            np.testing.assert_array_equal(y.asnumpy(), np.full((rows, OUTER), INNER, np.float32))
    with mindspore_nsa.target("ascend_twin"):
        assert nsa_linear(Tensor(np.ones((1, INNER), np.float32)), weight, ms.bfloat16) is None


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_operands_of_16_bits(own, mode, count):
    """Bits equal those of float32 operands with equal values, and of a product per weight."""
    rng = np.random.default_rng(2)
    x = Tensor(rng.standard_normal((50, INNER), np.float32)).astype(ms.bfloat16)
    assert projects(x, ms.bfloat16) == own
    assert projects(x, ms.float32) == own and not projects(x, ms.float16)
    assert not projects(x[:FEW_ROWS], ms.bfloat16)
    drawn = [Tensor(rng.standard_normal((n, INNER), np.float32)) for n in (24, 7, 80)[:count]]
    weights = drawn + [None] * (3 - count)
    with context_mode(mode):
        found = nsa_projection(x, *weights, ms.bfloat16, ms.bfloat16)
        if not own:
            assert found is None
            return
        wide = nsa_projection(x.astype(ms.float32), *weights, ms.bfloat16, ms.float32)
        for i, weight in enumerate(drawn):
            (alone, *_) = nsa_projection(x, weight, None, None, ms.bfloat16, ms.float32)
            np.testing.assert_array_equal(alone.asnumpy(), wide[i].asnumpy())
            rounded = found[i].astype(ms.float32).asnumpy()
            np.testing.assert_array_equal(rounded, wide[i].astype(ms.bfloat16).float().asnumpy())

        def total(x, *weights):
            y = nsa_projection(x, *weights, *[None] * (3 - count), ms.bfloat16, ms.float32)
            return sum(ops.sum(y[i] * y[i]) for i in range(count))

        dx, *slopes = ms.grad(total, tuple(range(count + 1)))(x, *drawn)
    assert dx.dtype == ms.bfloat16 and all(slope.dtype == ms.float32 for slope in slopes)
    x = x.astype(ms.float32).asnumpy().astype(np.float64)
    narrow = [decode(encode(w.asnumpy(), "bfloat16")).astype(np.float64) for w in drawn]
    dys = [decode(encode(2 * wide[i].asnumpy(), "bfloat16")) for i in range(count)]
    near(
        dx.astype(ms.float32).asnumpy(),
        sum(dy @ w for dy, w in zip(dys, narrow, strict=True)),
        2.0**-8,
    )
    for slope, dy in zip(slopes, dys, strict=True):
        near(slope.asnumpy(), dy.T @ x)


@pytest.mark.parametrize(
    "kind, has_bias, batch, mode",
    # Graphs take long to compile, and none of the arguments depends on another.
    [
        *((kind, False, 2, "pynative") for kind in KINDS),
        *((kind, True, 0, "pynative") for kind in KINDS),
        *(("dense", False, 2, "graph"), ("sparse", True, 0, "graph")),
    ],
)
def test_layers_with_either_product(kind, has_bias, batch, mode, monkeypatch):
    """A layer is as far from float32 with products of 16 bits as with MindSpore's."""
    sizes = config(has_bias=has_bias)
    x = tokens(sizes, 70)
    x = Tensor(x.reshape(2, 35, -1) if batch else x)
    ends = None if batch else (30, 70)
    dout = Tensor(np.random.default_rng(3).standard_normal(x.shape, np.float32))

    def step(x):
        layer, _ = filled(kind, sizes)

        def loss(x):
            out = layer(x, ends)
            return ops.sum(ops.cast(out, ms.float32) * dout), out

        differentiate = ms.value_and_grad(loss, 0, layer.trainable_params(), has_aux=True)
        (_, out), (dx, slopes) = differentiate(x)
        assert out.dtype == dx.dtype == x.dtype and out.shape == dx.shape == x.shape
        values = [out, dx, *slopes]
        return [v.astype(ms.float32).asnumpy().astype(np.float64) for v in values]

    narrow = x.astype(ms.bfloat16)
    exact = step(narrow.astype(ms.float32))
    errors = []
    with context_mode(mode):
        for own in (True, False):
            use_own_products(monkeypatch, own)
            found = step(narrow)
            errors.append(
                [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, exact, strict=True)]
            )
    forget_products()
    # Blocks that a rounded score chooses otherwise are part of both errors.
    for ours, theirs in zip(*errors, strict=True):
        assert ours <= max(2 * theirs, 2.0**-7)


@pytest.mark.parametrize(
    "kind, mode", [*((kind, "pynative") for kind in KINDS), ("sparse", "graph")]
)
def test_layers_of_float32_with_either_product(kind, mode, monkeypatch):
    """Output and gradients are equal up to the order of sums."""
    sizes = config()
    x = Tensor(tokens(sizes, 70))
    dout = Tensor(np.random.default_rng(3).standard_normal(x.shape, np.float32))

    def step():
        layer, _ = filled(kind, sizes)

        def loss(x):
            out = layer(x, (30, 70))
            return ops.sum(out * dout), out

        differentiate = ms.value_and_grad(loss, 0, layer.trainable_params(), has_aux=True)
        (_, out), (dx, slopes) = differentiate(x)
        return [out, dx, *slopes]

    found = []
    with context_mode(mode):
        for own in (True, False):
            use_own_products(monkeypatch, own)
            assert projects(x, ms.float32) == own
            found.append(step())
    forget_products()
    for ours, theirs in zip(*found, strict=True):
        near(ours.asnumpy(), theirs.asnumpy(), 2.0**-17)


@pytest.mark.parametrize(
    "mode, narrow",
    [
        ("pynative", {"gates": "bfloat16"}),
        ("pynative", {"query": "float16", "key_value": "bfloat16"}),
        ("graph", {"gates": "bfloat16", "query": "float16"}),
    ],
    ids=["pynative-gates", "pynative-query-key_value", "graph-gates-query"],
)
def test_weights_of_different_dtypes(own, mode, narrow):
    """Such as gates that stay in float32: the three products of an input see the stored values."""
    sizes = config()
    layer, parameters = filled("sparse", sizes)
    for p in layer.trainable_params():
        part = p.name.partition(".")[0]
        p.set_dtype(getattr(ms, narrow.get(part, "float32")))
        parameters[p.name] = to_numpy(p).astype(np.float64)
    x, upstream = tokens(sizes), tokens(sizes, seed=2)
    with context_mode(mode):
        out, dx, slopes = differentiated(layer)(Tensor(x), Tensor(ENDS, ms.int64), Tensor(upstream))
    expected = refer("sparse", x, parameters, sizes, ENDS, upstream)
    near(out, expected[0])
    near(dx, expected[1])
    for name, slope in expected[2].items():
        rounding = 2.0**-8 if name.partition(".")[0] in narrow else 0
        near(slopes[name], slope, rounding)


class TakeAway(ms.nn.Cell):
    """The sum with another worker's product, in the dtype in which the product comes."""

    def construct(self, y):
        """40000 less."""
        return y - ops.cast(ms.Tensor(40000.0, ms.float32), y.dtype)


@pytest.mark.parametrize("narrow", [False, True], ids=["cpu", "ascend"])
@pytest.mark.parametrize("rows", [2, FEW_ROWS + 1])
def test_products_of_workers_are_not_rounded(monkeypatch, narrow, rows):
    """A worker's part of a product may be beyond float16 where the sum is not."""
    monkeypatch.setattr("mindspore_nsa.nn.precision._multiplies_narrow", lambda: narrow)
    projection = Projection(config(), INNER, OUTER)
    projection.weight.set_data(Tensor(np.full((OUTER, INNER), 2250, np.float32)))
    projection.sum_by(TakeAway())
    x = np.ones((rows, INNER), np.float16 if narrow else np.float32)
    with context_mode("pynative"):
        y = projection.product(Tensor(x), ms.float16)
    assert y.dtype == ms.float32
    assert (y.asnumpy() == 50000).all()
