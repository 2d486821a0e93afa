"""From a dense layer to a sparse one that begins as it."""

from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, NSAConfig
from mindspore_nsa.nn.conversion import dense_weights

from .cells import config, filled, tokens

BLOCKS = dict(select_block_size=8, select_block_count=4)
FORMS = {
    "plain": {},
    "norms and biases": dict(qk_norm=True, has_bias=True),
    "shared": dict(shared_kv=True, qk_norm=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_converted_layer_is_the_dense_one(form):
    """Up to the tokens that the blocks hold; beyond, where a query reads them all."""
    settings = config(**BLOCKS, **FORMS[form])
    dense, _ = filled("dense", settings)
    layer = NativeSparseAttention.from_dense(dense)
    assert layer.config == replace(settings, gating="residual")
    x = Tensor(tokens(settings, 80)[None])
    ours, expected = layer(x).asnumpy()[0], dense(x).asnumpy()[0]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(ours[:32], expected[:32], rtol=0, atol=1e-6 * scale)
    assert np.abs(ours[40:] - expected[40:]).max() > 1e-3 * scale
    enough = replace(settings, select_block_count=10)
    layer = NativeSparseAttention.from_dense(dense, replace(enough, gating="residual"))
    np.testing.assert_allclose(layer(x).asnumpy()[0], expected, rtol=0, atol=1e-6 * scale)


def test_it_trains():
    """No gradient of a gate is lost where it starts."""
    dense, _ = filled("dense", config(**BLOCKS))
    layer = NativeSparseAttention.from_dense(dense)
    x = Tensor(tokens(config())[None])
    parameters = layer.trainable_params()
    gradients = ms.grad(lambda x: (layer(x) ** 2).sum(), None, parameters)(x)
    for parameter, gradient in zip(parameters, gradients):
        if parameter.name.startswith(("compress", "key_value")):
            continue
        assert np.abs(gradient.asnumpy()).max() > 1e-3, parameter.name


def test_weights_of_another_model():
    """By name, as arrays, with biases of some products only; the paper's gates stay as they are."""
    settings = config(**BLOCKS, has_bias=True)
    dense, _ = filled("dense", settings)
    weights = {name: p.asnumpy() for name, p in dense_weights(dense).items()}
    del weights["output.bias"]
    dense.output.bias.set_data(ms.ops.zeros_like(dense.output.bias))
    x = Tensor(tokens(settings, 30)[None])
    layer = NativeSparseAttention.from_dense(weights, replace(settings, gating="residual"))
    np.testing.assert_allclose(layer(x).asnumpy(), dense(x).asnumpy(), rtol=0, atol=1e-5)
    usual = NativeSparseAttention.from_dense(weights, settings)
    assert usual.gates.linear.weight.asnumpy().any()
    np.testing.assert_array_equal(usual.query.weight.asnumpy(), weights["query.weight"])


def test_inside_a_network():
    """Names that a network around has given do not matter."""
    dense, _ = filled("dense", config())
    network = ms.nn.SequentialCell(dense)
    assert next(network.get_parameters()).name.startswith("0.")
    NativeSparseAttention.from_dense(network[0])


@pytest.mark.parametrize("form", ["plain", "shared"])
def test_on_the_twin(form):
    """Shared keys and values, too, are those of the CPU's kernels on the kernels of Ascend."""
    settings = NSAConfig(32, 16, 1, 16, compress_block_size=16, compress_stride=16,
                         select_block_size=64, select_block_count=4, window_size=20,
                         gating="residual", shared_kv=form == "shared")  # fmt: skip
    layer = NativeSparseAttention(settings)
    x = Tensor(tokens(settings, 64)[None]).astype(ms.bfloat16)
    expected = layer(x).astype(ms.float32).asnumpy()
    with mindspore_nsa.target("ascend_twin"):
        ours = layer(x).astype(ms.float32).asnumpy()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=3e-2 * np.abs(expected).max())


def test_refused():
    settings = config()
    dense, _ = filled("dense", settings)
    convert = NativeSparseAttention.from_dense
    text = "^NativeSparseAttention.from_dense: "
    with pytest.raises(TypeError, match=f"{text}dense must be a DenseAttention or a dict of its"):
        convert(NativeSparseAttention(settings))
    with pytest.raises(ValueError, match=f"{text}dense must see all earlier tokens, got a window"):
        convert(DenseAttention(settings, window=True))
    with pytest.raises(TypeError, match=f"{text}config must be an NSAConfig or None, got 3"):
        convert(dense, 3)
    with pytest.raises(TypeError, match=f"{text}config must be an NSAConfig, where dense is a"):
        convert({})
    with pytest.raises(
        ValueError,
        match=f"{text}config must have the dense layer's num_heads 4, "
        "rope_theta 100.0, got num_heads 2, rope_theta 5.0",
    ):
        convert(dense, replace(settings, num_heads=2, rope_theta=5.0))
    weights = {name: p.asnumpy() for name, p in dense_weights(dense).items()}
    with pytest.raises(ValueError, match=f"{text}weights must hold query.weight"):
        convert({k: v for k, v in weights.items() if k != "query.weight"}, settings)
    with pytest.raises(ValueError, match=f"{text}weights must be those of .* got query.bias"):
        convert({**weights, "query.bias": weights["query.weight"]}, settings)
    with pytest.raises(ValueError, match=r"weights\['output.weight'\] must be of shape \(12, 24\)"):
        convert({**weights, "output.weight": weights["query.weight"]}, settings)
    with pytest.raises(TypeError, match=r"weights\['output.weight'\] must be a Tensor or an array"):
        convert({**weights, "output.weight": None}, settings)
