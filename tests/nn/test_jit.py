"""Gradients under mindspore.jit: taken of a compiled layer, and compiled together with it."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from .cells import ENDS, Weighted, config, differentiated, filled, to_numpy, tokens

SETTINGS = config(has_bias=True)


def differentiate(function, parameters):
    return ms.value_and_grad(function, 0, parameters, has_aux=True)


def compile_function(inner):
    @ms.jit(capture_mode="ast")
    def compiled(x, seq, upstream):
        return inner(x, seq, upstream)

    return compiled


@pytest.mark.parametrize(
    "kind, seq, compiled",
    [
        ("sparse", Tensor(ENDS, ms.int64), "gradient"),
        ("sparse", ENDS, "layer"),
        ("dense", ENDS, "gradient"),
    ],
    ids=["sparse-gradient", "sparse-layer", "dense-gradient"],
)
def test_gradients(kind, seq, compiled):
    """The outputs and every gradient of PyNative mode, to 1e-6 of the largest value."""
    layer, _ = filled(kind, SETTINGS)
    parameters = layer.trainable_params()
    names = [p.name for p in parameters]
    given = Tensor(tokens(SETTINGS)), seq, Tensor(tokens(SETTINGS, seed=2))
    out, dx, gradients = differentiated(layer)(*given)
    expected = {"output": out, "x": dx, **gradients}

    weighted = Weighted(layer)
    if compiled == "layer":
        run = differentiate(compile_function(weighted), parameters)
    else:
        run = compile_function(differentiate(weighted, parameters))
    (_, out), (dx, slopes) = run(*given)
    found = {"output": out, "x": dx, **dict(zip(names, slopes))}
    assert found.keys() == expected.keys() and len(found) == (14 if kind == "sparse" else 8)
    for name, value in expected.items():
        assert value.any(), name
        bound = 1e-6 * np.abs(value).max()
        np.testing.assert_allclose(to_numpy(found[name]), value, rtol=0, atol=bound, err_msg=name)
