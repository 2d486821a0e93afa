"""The linear maps of the layers: few rows, for which there is an operator, and many."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

import mindspore_nsa
from mindspore_nsa.nn.precision import Projection
from mindspore_nsa.ops._layer import FEW_ROWS, nsa_linear
from tests.common.dtypes import decode, encode
from tests.ops.calls import context_mode

from .cells import config

INNER, OUTER = 40, 24


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("held", ["float32", "bfloat16"])
def test_values_and_gradients(mode, dtype, held):
    """Of as many rows as the operator takes, and of one more, which MindSpore multiplies."""
    projection = Projection(config(has_bias=True, param_dtype=held), INNER, OUTER)
    rng = np.random.default_rng(1)
    kept = decode(encode(rng.standard_normal((OUTER, INNER), np.float32), held))
    projection.weight.set_data(Tensor(kept.astype(np.float32)).astype(getattr(ms, held)))
    weight = decode(encode(kept.astype(np.float32), dtype)).astype(np.float64)
    bias = projection.bias.astype(ms.float32).asnumpy().astype(np.float64)
    narrow = getattr(ms, dtype)

    def weighed(x, dout):
        return ops.sum(projection(x, narrow) * dout)

    for rows in (1, FEW_ROWS, FEW_ROWS + 1):
        x = decode(encode(rng.standard_normal((rows, INNER), np.float32), dtype))
        x, dout = x.astype(np.float32), rng.standard_normal((rows, OUTER)).astype(np.float32)
        with context_mode(mode):
            y = projection(Tensor(x), narrow).asnumpy()
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
