"""The layers against their float64 definition: outputs and the gradient of every parameter."""

import functools

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.testing.plain import plain_precision
from mindspore_nsa.testing.tolerance import check
from tests.ops.calls import context_mode

from .cells import ENDS, KINDS, config, differentiated, filled, refer, tokens

MODES = ("pynative", "graph", "graph, Tensor lists")
SETTINGS = config(has_bias=True)


@functools.cache
def computed(kind, mode):
    """(output, gradient of x, gradients by name) of one layer."""
    layer, _ = filled(kind, SETTINGS)
    upstream = tokens(SETTINGS, seed=2)
    seq = Tensor(ENDS, ms.int64) if "Tensor" in mode else ENDS
    with context_mode(mode.partition(",")[0]):
        return differentiated(layer)(Tensor(tokens(SETTINGS)), seq, Tensor(upstream))


@functools.cache
def referred(kind, order=None):
    """The layer by its definition, in float64 or in float32 with an order of sums."""
    _, parameters = filled(kind, SETTINGS)
    options = {} if order is None else {"precision": plain_precision("float32", order)}
    upstream = tokens(SETTINGS, seed=2)
    return refer(kind, tokens(SETTINGS), parameters, SETTINGS, ENDS, upstream, **options)


def named(results):
    """Every tensor of a result by name."""
    out, dx, grads = results
    return {"output": out, "x": dx, **grads}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_definition(kind, mode):
    ours, expected = named(computed(kind, mode)), named(referred(kind))
    assert ours.keys() == expected.keys() and len(ours) == (14 if kind == "sparse" else 8)
    for name, x in ours.items():
        assert expected[name].any()
        plain = (named(referred(kind, order))[name] for order in range(5))
        check(f"{kind} {mode} {name}", x, expected[name], plain, "float32", nsa=True)


@pytest.mark.parametrize("kind", KINDS)
def test_modes_agree(kind):
    eager = named(computed(kind, "pynative"))
    for mode in MODES[1:]:
        for name, x in named(computed(kind, mode)).items():
            bound = 1e-6 * np.abs(eager[name]).max()
            np.testing.assert_allclose(x, eager[name], atol=bound, rtol=0, err_msg=name)
