"""Products of bfloat16 and float32 and their gradients against NumPy: odd sizes, dtypes, threads,
instruction sets.
"""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import decode, encode
from tests.common import projections


def run(call):
    """The outputs, which are the same bits for any number of threads."""
    found = [_native.run(call.op, call.inputs, call.attrs, num_threads=n) for n in (1, 2, 5)]
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(decode(a), decode(b))
    return found[0]


@pytest.mark.parametrize("size", projections.SIZES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_values(isa, size, seed):
    for call in projections.drawn_calls(size, seed):
        call.check(run(call))


def test_many_panels(isa):
    """More panels than a unit takes, and more tokens than are packed at once."""
    for call in projections.drawn_calls((4200, 290, (200,)), 1):
        call.check(run(call))


@pytest.mark.parametrize("operands", projections.OPERANDS)
def test_gradients_are_differences(isa, operands):
    """The loss is linear in each operand: of whole numbers differences are exact."""
    rng = np.random.default_rng(3)
    tokens, inner, outers = 70, 45, (33, 9)

    def draw(*shape):
        return rng.integers(-4, 5, shape).astype(np.float32)

    x, weights = draw(tokens, inner), [draw(outer, inner) for outer in outers]
    slopes = [draw(tokens, outer) for outer in outers]

    def loss(x, weights):
        attrs = {"dtype": "float32", "operands": operands}
        y = _native.run("NsaProjection", [x, *weights, None], attrs)
        return sum(np.sum(a.astype(np.float64) * b) for a, b in zip(y, slopes, strict=False))

    inputs, attrs = [*slopes, None, *weights, None, x], {"operands": operands}
    (dx,) = _native.run("NsaProjectionInputGrad", inputs, attrs)
    dw = _native.run("NsaProjectionWeightGrad", inputs, attrs)
    for _ in range(5):
        step = draw(tokens, inner)
        assert loss(x + step, weights) - loss(x - step, weights) == 2 * np.sum(dx * step)
        steps = [draw(outer, inner) for outer in outers]
        ahead = loss(x, [w + s for w, s in zip(weights, steps, strict=True)])
        behind = loss(x, [w - s for w, s in zip(weights, steps, strict=True)])
        assert ahead - behind == 2 * sum(np.sum(a * b) for a, b in zip(dw, steps, strict=False))


@pytest.mark.parametrize("operands", projections.OPERANDS)
def test_float32_is_not_rounded(isa, operands):
    """A number between two of bfloat16, which only a product of float32 tells from them."""
    x, weight = np.full((40, 3), 1 + 2.0**-12, np.float32), np.ones((5, 3), np.float32)
    each = 1 + (2.0**-12 if operands == "float32" else 0)
    none, attrs = [None, None], {"operands": operands}
    y, *_ = _native.run("NsaProjection", [x, weight, *none], attrs)
    np.testing.assert_array_equal(y, np.full((40, 5), 3 * each))
    dy = np.full((40, 5), 1 + 2.0**-12, np.float32)
    inputs = [dy, *none, weight, *none, x]
    (dx,) = _native.run("NsaProjectionInputGrad", inputs, attrs)
    np.testing.assert_array_equal(dx, np.full((40, 3), 5 * each))
    dw, *_ = _native.run("NsaProjectionWeightGrad", inputs, attrs)
    np.testing.assert_allclose(dw, np.full((5, 3), 40 * each**2), rtol=2.0**-22)


@pytest.mark.parametrize("operands", projections.OPERANDS)
@pytest.mark.parametrize("planted", [np.nan, np.inf])
def test_what_is_no_number_stays_in_its_row(isa, planted, operands):
    """Neither the padding of an odd contraction nor that of a panel carries it on."""
    rng = np.random.default_rng(4)
    x, weight = rng.standard_normal((50, 33), np.float32), rng.standard_normal((70, 33), np.float32)
    slope = rng.standard_normal((50, 70), np.float32)
    calls = (
        lambda x, w, dy: projections.forward(x, [w], "bfloat16", operands),
        lambda x, w, dy: projections.input_grad([dy], [w], x, operands),
        lambda x, w, dy: projections.weight_grad([dy], [w], x, operands),
    )
    for at in range(3):
        given = [a.copy() for a in (x, weight, slope)]
        given[at][-1, -1] = planted
        for build in calls:
            call = build(*given)
            outputs = run(call)
            call.check(outputs)
            values = decode(outputs[0])
            # A whole row or column of it at most.
            assert np.isfinite(values[:-1, :-1]).all()


@pytest.mark.parametrize("powers", [(-100, 20), (-60, -60), (60, 60), (102, -80), (-125, 100)])
def test_magnitudes_of_float32(isa, powers):
    """A power of two changes no digit, however small or large the numbers are."""
    rng = np.random.default_rng(9)

    def draw(*shape):
        return (rng.uniform(0.5, 1, shape) * rng.choice([-1, 1], shape)).astype(np.float32)

    x, weight, slope = draw(40, 200), draw(70, 200), draw(40, 70)
    left, right = (np.float32(2.0**power) for power in powers)

    def outputs(x, weight, slope):
        calls = (
            projections.forward(x, [weight], "float32", "float32"),
            projections.input_grad([slope], [weight], x, "float32"),
            projections.weight_grad([slope], [weight], x, "float32"),
        )
        return [_native.run(call.op, call.inputs, call.attrs)[0] for call in calls]

    near = outputs(x, weight, slope)
    far = outputs(x * left, weight * right, slope * left)
    for a, b, factors in zip(near, far, ((left, right), (left, right), (left, left)), strict=True):
        expected = a.astype(np.float64) * factors[0] * factors[1]
        tolerance = 2e-6 * 200 * float(factors[0]) * float(factors[1]) + 2.0**-149
        # Beyond the largest number a sum is infinite, or no number.
        inside = np.abs(expected) < 2.0**120
        np.testing.assert_allclose(b[inside], expected[inside], rtol=0, atol=tolerance)


def test_single_products_of_float32(isa):
    """Sums of one term: no other rounding hides how exact the product is."""
    rng = np.random.default_rng(10)
    # The numbers after each power of two have the largest rests.
    x = (1 + np.ldexp(rng.integers(1, 2**17, 64), -23)).astype(np.float32)
    weight = (1 + np.ldexp(rng.integers(1, 2**17, 50), -23)).astype(np.float32)
    attrs = {"operands": "float32"}
    y, *_ = _native.run("NsaProjection", [x[:, None], weight[:, None], None, None], attrs)
    exact = np.outer(x.astype(np.float64), weight)
    np.testing.assert_allclose(y, exact, rtol=2.0**-23, atol=0)


def test_without_tokens(isa):
    x, dy = np.zeros((0, 5), np.float32), np.zeros((0, 3), np.float32)
    weight = np.ones((3, 5), np.float16)
    for operands in projections.OPERANDS:
        attrs = {"operands": operands}
        y, *_ = _native.run("NsaProjection", [x, weight, None, None], attrs)
        assert y.shape == (0, 3)
        inputs = [dy, None, None, weight, None, None, x]
        slope, *_ = _native.run("NsaProjectionWeightGrad", inputs, attrs)
        np.testing.assert_array_equal(slope, np.zeros((3, 5)))


def test_scratch_is_bounded():
    """Scratch holds the weights and a bounded number of tokens."""
    rng = np.random.default_rng(5)
    weight = encode(rng.standard_normal((96, 64), np.float32), "bfloat16")
    held = []
    for tokens in (8192, 32768):
        x = encode(rng.standard_normal((tokens, 64), np.float32), "bfloat16")
        dy = encode(rng.standard_normal((tokens, 96), np.float32), "bfloat16")
        _native.reset_scratch_high_water()
        _native.run("NsaProjection", [x, weight, None, None], {})
        for op in ("NsaProjectionInputGrad", "NsaProjectionWeightGrad"):
            _native.run(op, [dy, None, None, weight, None, None, x], {})
        held.append(_native.scratch_high_water())
    assert held[0] == held[1] < 4 << 20


def test_more_dimensions():
    """Rows and columns of x in several dimensions, and products in a batch."""
    rng = np.random.default_rng(6)
    x, weight = rng.standard_normal((6, 8), np.float32), rng.standard_normal((5, 8), np.float32)
    none = [None, None]
    (y, *_) = _native.run("NsaProjection", [x, weight, *none], {})
    operands = [y, *none, weight, *none, x]
    (dx,) = _native.run("NsaProjectionInputGrad", operands, {})
    (dw, *_) = _native.run("NsaProjectionWeightGrad", operands, {})
    for shape in ((6, 2, 4), (3, 2, 8), (2, 3, 4, 2), (6, 1, 8)):
        for batch, found in ((0, (6, 5)), (2, (2, 3, 5))):
            (of_shape, *_) = _native.run(
                "NsaProjection", [x.reshape(shape), weight, *none], {"batch": batch}
            )
            np.testing.assert_array_equal(of_shape, y.reshape(found))
            operands = [of_shape, *none, weight, *none, x.reshape(shape)]
            (slope,) = _native.run("NsaProjectionInputGrad", operands, {})
            np.testing.assert_array_equal(slope, dx.reshape(shape))
            (slope, *_) = _native.run("NsaProjectionWeightGrad", operands, {})
            np.testing.assert_array_equal(slope, dw)
    # The columns of a gradient, too, may be several dimensions.
    operands = [y.reshape(6, 5, 1), *none, weight, *none, x]
    (slope,) = _native.run("NsaProjectionInputGrad", operands, {})
    np.testing.assert_array_equal(slope, dx)
    (slope, *_) = _native.run("NsaProjectionWeightGrad", operands, {})
    np.testing.assert_array_equal(slope, dw)


def test_wrong_calls():
    x, weight = np.zeros((4, 8), np.float32), np.zeros((3, 8), np.float32)
    dy, half = np.zeros((4, 3), np.float32), weight.astype(np.float16)
    none = [None, None]

    def refused(error, text, op, inputs, **attrs):
        function = {"": "nsa_projection", "InputGrad": "nsa_projection_input_grad"}.get(
            op, "nsa_projection_weight_grad"
        )
        with pytest.raises(error, match=f"{function}: {text}"):
            _native.run(f"NsaProjection{op}", inputs, attrs)

    wrong = r"x must be of shape \(T, K\), with K = "
    refused(ValueError, f"{wrong}7, got shape", "", [x, weight[:, :7].copy(), *none])
    refused(ValueError, f"{wrong}8, got shape", "", [x[0], weight, *none])
    refused(
        ValueError, f"{wrong}8, got shape", "", [np.zeros((4, 3, 4), np.float32), weight, *none]
    )
    refused(ValueError, r"weight_2 must be of shape \(N, K\)", "", [x, weight, None, dy])
    refused(TypeError, "x must be of dtype", "", [x.astype(np.int32), weight, *none])
    refused(TypeError, "weight_1 must", "", [x, weight, half, None])
    refused(ValueError, "dtype must be", "", [x, weight, *none], dtype="float64")
    refused(ValueError, "batch must be a divisor of the 4 rows", "", [x, weight, *none], batch=3)
    refused(ValueError, "batch must be", "", [x, weight, *none], batch=-1)
    refused(ValueError, "operands must be", "", [x, weight, *none], operands="float16")
    for op in ("InputGrad", "WeightGrad"):
        refused(ValueError, "weight_1 must be None", op, [dy, *none, weight, weight, None, x])
        refused(ValueError, "weight_1 must be given", op, [dy, dy, None, weight, *none, x])
        refused(
            ValueError,
            r"y_grad must be of shape \(T, N\), with N = 3",
            op,
            [x, *none, weight, *none, x],
        )
        refused(
            ValueError,
            "y_grad must be of the 4 rows of x, got 3",
            op,
            [dy[:3].copy(), *none, weight, *none, x],
        )
        refused(TypeError, "weight_1 must", op, [dy, dy, None, weight, half, None, x])
        refused(ValueError, wrong, op, [dy, *none, weight, *none, dy])
        fitting = [dy, *none, weight, *none, x]
        refused(ValueError, "operands must be", op, fitting, operands="float16")
