"""From a dense layer to a sparse one that begins as it."""

from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

import mindspore_nsa
from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, NSAConfig, RotaryAngles
from mindspore_nsa.nn.config import GATINGS
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


class Block(ms.nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.att = layer

    def construct(self, x):
        return self.att(x)


class Model(ms.nn.Cell):
    """Layers at several depths, in a list, a dict and a sequence."""

    def __init__(self, make):
        super().__init__()
        self.first = make()
        self.blocks = ms.nn.CellList([Block(make()), Block(make())])
        self.named = ms.nn.CellDict({"last": Block(make())})
        self.plain = ms.nn.CellList([make()])
        self.sequence = ms.nn.SequentialCell(make(), ms.nn.Dense(12, 12))


def exchanged(model):
    """The model with sparse layers in the places of its dense ones."""
    convert = NativeSparseAttention.from_dense
    model.first = convert(model.first)
    for block in (*model.blocks, model.named["last"]):
        block.att = convert(block.att)
    model.plain[0] = convert(model.plain[0])
    model.sequence[0] = convert(model.sequence[0])
    return model


def test_names_in_a_model():
    """A converted model has the names of one that is made of sparse layers: checkpoints load."""
    model = exchanged(Model(lambda: DenseAttention(config())))
    made = Model(lambda: NativeSparseAttention(config(gating="residual")))
    names = {p.name: p.shape for p in made.get_parameters()}
    assert {p.name: p.shape for p in model.get_parameters()} == names
    assert len(names) == 6 * 9 + 2
    ms.nn.Adam(model.trainable_params())
    assert ms.load_param_into_net(made, model.parameters_dict()) == ([], [])
    outer = ms.nn.SequentialCell(model)
    assert {p.name for p in outer.get_parameters()} == {f"0.{name}" for name in names}
    # Where it does not take the place of the dense layer, names are MindSpore's.
    dense = Model(lambda: DenseAttention(config())).blocks[1].att
    layer = NativeSparseAttention.from_dense(dense)
    assert layer.query.weight.name == "blocks.1.att.query.weight"
    assert Block(layer).att.query.weight.name == "blocks.1.att.query.weight"
    other = ms.nn.CellList([layer])
    assert next(other.get_parameters()).name == "0.query.weight"


def test_a_checkpoint_of_another_gating(tmp_path):
    """It is refused in both directions and at any depth; one from before the mark still loads."""
    layers = {kind: NativeSparseAttention(config(gating=kind)) for kind in GATINGS}
    refused = "gates.gating in the argument 'net' should have the same shape"
    for kind, layer in layers.items():
        for other, saved in layers.items():
            named = saved.parameters_dict()
            if kind == other:
                assert ms.load_param_into_net(layer, named) == ([], [])
                del named["gates.gating"]
                assert ms.load_param_into_net(layer, named) == (["gates.gating"], [])
            else:
                with pytest.raises(RuntimeError, match=refused):
                    ms.load_param_into_net(layer, named)
    path = str(tmp_path / "converted.ckpt")
    ms.save_checkpoint(exchanged(Model(lambda: DenseAttention(config()))), path)
    with pytest.raises(RuntimeError, match=r"first\.gates\.gating in the argument 'net'"):
        ms.load_checkpoint(path, Model(lambda: NativeSparseAttention(config())))


def test_names_that_a_user_gave():
    dense = DenseAttention(config())
    dense.output.weight.name = "o_proj"
    layer = NativeSparseAttention.from_dense(dense)
    assert [p.name for p in layer.get_parameters()][:4] == [
        *("query.weight", "key_value.weight", "o_proj", "compress_key.weight"),
    ]


def test_state():
    """Flags, mixed precision, modes and recomputation are those of the dense layer."""
    dense = DenseAttention(config(qk_norm=True))
    dense.query.weight.requires_grad = False
    dense.key_norm.weight.requires_grad = False
    dense.query.weight.comm_fusion = 3
    dense.output.weight.set_dtype(ms.bfloat16)
    dense.to_float(ms.bfloat16)
    dense.output.to_float(ms.float32)
    dense.set_train()
    dense.set_grad()
    dense.recompute()
    dense.add_flags(mine=3)
    dense.set_inputs(Tensor(shape=[None, 12], dtype=ms.float32))
    layer = NativeSparseAttention.from_dense(dense)
    frozen = {name for name, p in layer.parameters_and_names() if not p.requires_grad}
    assert frozen == {"query.weight", "key_norm.weight", "gates.gating"}
    assert layer.query.weight.comm_fusion == 3 and layer.output.weight.comm_fusion == 1
    assert layer.output.weight.dtype == ms.bfloat16 and layer.query.weight.dtype == ms.float32
    marks = layer.amp_dtype, layer.query.amp_dtype, layer.gates.linear.amp_dtype
    assert marks == (ms.bfloat16,) * 3 and layer.output.amp_dtype == ms.float32
    assert layer.training and layer.gates.training and layer.requires_grad
    assert layer._recompute_cell is not None and layer.get_flags()["mine"] == 3
    assert layer.get_inputs()[0].shape == (-1, 12)
    network = ms.nn.SequentialCell(DenseAttention(config()))
    network.recompute()
    layer = NativeSparseAttention.from_dense(network[0])
    assert layer._has_config_recompute and layer.get_scope().startswith("recompute_")
    assert not layer.training and layer.amp_dtype is None
    given = NativeSparseAttention.from_dense(dense, config(qk_norm=True, param_dtype="float16"))
    assert {p.dtype for p in given.get_parameters()} == {ms.float16}


class Named(ms.nn.Dense):
    pass


def test_what_would_be_lost_is_refused():
    def refused(change, match):
        dense = DenseAttention(config(dropout=0.5))
        change(dense)
        with pytest.raises(
            ValueError, match=f"^NativeSparseAttention.from_dense: dense must {match}"
        ):
            NativeSparseAttention.from_dense(dense)

    def look(cell, inputs, output):
        pass

    refused(lambda d: d.register_forward_hook(look), "have no hooks, got some: remove")
    refused(lambda d: d.query.register_forward_hook(look), "have no hooks, got some on query")
    refused(
        lambda d: setattr(d, "output", Named(24, 12)),
        "have its own Projection as output, got Named: remove or merge it before",
    )
    refused(
        lambda d: d.query.weight.register_hook(lambda gradient: gradient / 2),
        "have no hooks, got some on query.weight",
    )
    refused(lambda d: d.rotate.register_forward_hook(look), "have no hooks, got some on rotate")
    refused(lambda d: setattr(d, "rotate", Named(8, 8)), "have its own Rotate as rotate, got Named")
    refused(
        lambda d: setattr(d, "angles", RotaryAngles(8, 7.0)),
        r"have the angles of its config, got those of .* \(8, 7.0, None\)",
    )
    refused(lambda d: setattr(d, "dropout", None), "have the dropout of its config, 0.5, got 0.0")
    refused(lambda d: setattr(d.dropout, "p", 0.25), "have the dropout of its config, 0.5, got 0.2")
    refused(lambda d: setattr(d, "scale", 2.0), "have the scale of its config, got 2.0")
    refused(
        lambda d: setattr(d, "operand_dtype", look),
        "have the operand_dtype of DenseAttention, got another",
    )
    refused(
        lambda d: setattr(d.branches, "window", look),
        r"have the branches of DenseAttention, got another one \(Branches\)",
    )


class Halved(DenseAttention):
    def construct(self, x):
        return super().construct(x) / 2


class Sized(DenseAttention):
    def __init__(self):
        super().__init__(config())


def test_subclasses():
    """One that computes something else is refused, one that only has sizes is not."""
    with pytest.raises(ValueError, match=r"have the construct of .* another one \(Halved\)"):
        NativeSparseAttention.from_dense(Halved(config()))
    assert NativeSparseAttention.from_dense(Sized()).config == replace(config(), gating="residual")


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
