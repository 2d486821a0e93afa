"""Which parameters of a model the workers of a tensor group share: those that its layers name."""

import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn as msnn

from mindspore_nsa import nn
from mindspore_nsa.nn.parallel import weights as module

SIZES = dict(hidden_size=32, num_heads=4, num_kv_heads=2, head_dim=8)
CONFIG = nn.NSAConfig(**SIZES, has_bias=True, qk_norm=True)
GROUPS = [nn.WorkerGroup("tensor", (0, 1), rank, True) for rank in (0, 1)]
# Other sizes, and one set of keys for all branches.
OTHER = nn.NSAConfig(hidden_size=32, num_heads=2, num_kv_heads=2, head_dim=4, shared_kv=True)


class Block(msnn.Cell):
    """A layer beside Cells whose parameters have names such as its own."""

    def __init__(self, layer):
        super().__init__()
        self.attention = layer
        self.query = msnn.Dense(32, 32)
        self.output = msnn.Dense(32, 100, has_bias=False)
        self.gates = msnn.CellDict({"linear": msnn.Dense(32, 6)})


class Model(msnn.Cell):
    """Layers of several kinds and sizes, in lists and dicts."""

    def __init__(self):
        super().__init__()
        kinds = nn.NativeSparseAttention(CONFIG), nn.DenseAttention(OTHER)
        self.blocks = msnn.CellList([Block(layer) for layer in kinds])
        self.more = msnn.CellDict({"last": Block(nn.NativeSparseAttention(OTHER))})
        self.output = msnn.Dense(32, 100, has_bias=False)  # the head of a language model


def arrays_of(model):
    rng = np.random.default_rng(0)
    return {p.name: rng.standard_normal(p.shape).astype(np.float32) for p in model.get_parameters()}


def test_other_cells():
    """Parameters of the layers are cut, those of Cells around are not, and all come back."""
    model = Model()
    whole = arrays_of(model)
    assert len(whole) == len(list(model.get_parameters()))
    parts = [nn.shard_parameters(whole, model, group) for group in GROUPS]
    joined = nn.unshard_parameters(parts, model, GROUPS[0])
    for name, array in whole.items():
        np.testing.assert_array_equal(joined[name], array)
        inside = ".attention." in name and not re.search("norm|gating|output.bias", name)
        axis = nn.split_axis(name, model)
        assert (axis is not None) == inside, name
        for part in parts:
            shape = [n // 2 if i == axis else n for i, n in enumerate(array.shape)]
            assert list(part[name].shape) == shape, name


def test_blocks_of_every_layer():
    """Keys of every branch, then values: each is cut by heads, by the sizes of its own layer."""
    model = Model()
    whole = arrays_of(model)
    first = nn.shard_parameters(whole, model, GROUPS[0])
    for name, heads in (
        ("blocks.0.attention.key_value.weight", [8] * 6),
        ("blocks.1.attention.key_value.weight", [4] * 2),
        ("more.last.attention.key_value.weight", [4] * 2),
    ):
        blocks = np.split(whole[name], np.cumsum([2 * rows for rows in heads])[:-1])
        expected = np.concatenate([b[:rows] for b, rows in zip(blocks, heads, strict=True)])
        np.testing.assert_array_equal(first[name], expected)


def test_states_of_an_optimizer():
    """They are cut as the parameters that are given beside them."""
    model = Model()
    optimizer = msnn.Adam(model.trainable_params())
    given = {p.name: p for p in optimizer.get_parameters() if p.name != "learning_rate"}
    given.update({p.name: p for p in model.get_parameters()})
    states = [name for name in given if name.endswith("blocks.0.attention.query.weight")]
    assert len(states) > 1
    part = nn.shard_parameters(given, model, GROUPS[1])
    for name in states:
        assert part[name].shape == (16, 32) and part[name].dtype == ms.float32
        assert nn.split_axis(name, model) == 0
    heads = [name for name in given if name.endswith("output.weight") and "attention" not in name]
    assert len(heads) > 4
    assert all(part[name].shape == (100, 32) for name in heads)
    del given["blocks.0.attention.query.weight"]
    with pytest.raises(ValueError, match="must be the name of a parameter of model"):
        nn.shard_parameters(given, model, GROUPS[1])


def test_a_layer_alone_is_not_a_model():
    """Names of a model say nothing of the layer that has only their ends."""
    model = Model()
    layer = nn.NativeSparseAttention(CONFIG)
    assert nn.shard_parameters(arrays_of(layer), layer, GROUPS[0])["query.weight"].shape == (16, 32)
    text = r"blocks.0.attention.query.weight must be the name .* model has query.weight only"
    for function, given in (
        (nn.shard_parameters, arrays_of(model)),
        (nn.unshard_parameters, [arrays_of(model)] * 2),
    ):
        with pytest.raises(ValueError, match=f"{function.__name__}: {text}"):
            function(given, layer, GROUPS[0])


class Adapter(msnn.Cell):
    """A wrapper around a linear map of a layer, with a parameter of its own."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.scale = ms.Parameter(np.ones(base.in_channels, np.float32))

    def construct(self, x):
        return self.base(x * self.scale)


def test_wrapped_parts():
    """The weight inside is the layer's; what it adds has to say how workers share it."""
    model = Model()
    layer = model.blocks[0].attention
    layer.query = Adapter(layer.query)
    whole = {p.name: p for p in model.get_parameters()}
    base, scale = (p.name for p in (layer.query.base.weight, layer.query.scale))
    with pytest.raises(ValueError, match=f"shard_parameters: {scale} must be a parameter of which"):
        nn.shard_parameters(whole, model, GROUPS[0])
    layer.query.head_splits = {"scale": None}
    part = nn.shard_parameters(whole, model, GROUPS[0])
    assert part[base].shape == (16, 32) and part[scale].shape == (32,)
    one = nn.WorkerGroup("tensor", (0,), 0, True)
    del layer.query.head_splits
    assert nn.shard_parameters(whole, model, one) == whole


def test_layers_that_share():
    """One layer at two places is one; a weight of two layers is cut as both say, or refused."""
    layer, other = nn.NativeSparseAttention(CONFIG), nn.NativeSparseAttention(CONFIG)
    for second in (layer, other):
        other.query.weight = layer.query.weight
        model = msnn.CellList([layer, second])
        part = nn.shard_parameters(arrays_of(model), model, GROUPS[0])
        assert part[layer.query.weight.name].shape == (16, 32)
    dense = nn.DenseAttention(nn.NSAConfig(**SIZES))
    dense.key_value.weight = nn.DenseAttention(nn.NSAConfig(**SIZES)).query.weight
    dense.query.weight = dense.key_value.weight
    with pytest.raises(ValueError, match="must be split alike by the layers that share it"):
        nn.shard_parameters(arrays_of(dense), dense, GROUPS[0])


def test_refused():
    model, layer = Model(), nn.DenseAttention(nn.NSAConfig(**SIZES))
    whole = arrays_of(layer)
    for function in (nn.shard_parameters, nn.unshard_parameters, nn.gather_parameters):
        given = [whole] * 2 if function is nn.unshard_parameters else whole
        with pytest.raises(TypeError, match=f"{function.__name__}: model must be a Cell, the mod"):
            function(given, CONFIG, GROUPS[0])
    with pytest.raises(TypeError, match="split_axis: model must be a Cell"):
        nn.split_axis("query.weight", None)
    with pytest.raises(TypeError, match="split_axis: name must be a str"):
        nn.split_axis(3, layer)
    with pytest.raises(ValueError, match="query.weight must have 32 values along axis 0, as the"):
        nn.shard_parameters({"query.weight": whole["query.weight"][:16]}, layer, GROUPS[0])
    with pytest.raises(ValueError, match="query.weight must have 16 values along axis 0, as the"):
        nn.unshard_parameters([whole, whole], layer, GROUPS[0])
    three = nn.WorkerGroup("tensor", (0, 1, 2), 0, True)
    with pytest.raises(ValueError, match="num_kv_heads must be a multiple of the 3 workers"):
        nn.shard_parameters(whole, layer, three)
    model.output.weight.name = "blocks.0.attention.query.weight"
    with pytest.raises(ValueError, match="model must have a name for each parameter"):
        nn.shard_parameters({}, model, GROUPS[0])


def test_wrong_parts():
    """Every function names the group; `unshard_parameters` names the parts of workers, too."""
    layer = nn.DenseAttention(nn.NSAConfig(**SIZES))
    whole = arrays_of(layer)
    part = nn.shard_parameters(whole, layer, GROUPS[0])
    for function in (nn.shard_parameters, nn.unshard_parameters, nn.gather_parameters):
        several = function is nn.unshard_parameters
        text = f"{function.__name__}: tensor_group must be a WorkerGroup, got"
        with pytest.raises(TypeError, match=text):
            function([part] * 2 if several else whole, layer, (0, 1))
        text = f"{function.__name__}: parameters must be a dict of names and arrays, got 3"
        with pytest.raises(TypeError, match=text):
            function([3, part] if several else 3, layer, GROUPS[0])
    for parts in ({}, [], part):
        with pytest.raises(TypeError, match="parts must be a tuple or list of dicts, one of each"):
            nn.unshard_parameters(parts, layer, GROUPS[0])
    for count in (1, 3):
        with pytest.raises(ValueError, match=f"parts must be those of 2 workers, got {count}"):
            nn.unshard_parameters([part] * count, layer, GROUPS[0])
    less = {name: value for name, value in part.items() if name != "query.weight"}
    with pytest.raises(ValueError, match="query.weight is missing in the part of worker 1"):
        nn.unshard_parameters([part, less], layer, GROUPS[0])


@pytest.mark.parametrize("kind", [np.ndarray, ms.Parameter])
def test_gathered(monkeypatch, kind):
    """With collectives of one process: what is split is asked for, all else stays as it was."""
    model = Model()
    whole = arrays_of(model)
    given = whole if kind is np.ndarray else {n: ms.Parameter(x) for n, x in whole.items()}
    parts = [nn.shard_parameters(given, model, group) for group in GROUPS]
    split = [name for name in parts[0] if nn.split_axis(name, model) is not None]
    agreed, asked = [], iter(split)

    class Gather:
        def __init__(self, group):
            assert group is GROUPS[0]

        def construct(self, x):
            name = next(asked)
            rows = [np.asarray(part[name]) for part in parts]
            np.testing.assert_array_equal(x.asnumpy(), rows[:1])
            return ms.Tensor(np.stack(rows))

    monkeypatch.setattr(module, "agree", lambda *given: agreed.append(given))
    monkeypatch.setattr(module, "Gather", Gather)
    joined = nn.gather_parameters(parts[0], model, GROUPS[0])
    assert next(asked, None) is None and len(split) > 5
    for name, array in whole.items():
        assert isinstance(joined[name], type(parts[0][name])), name
        np.testing.assert_array_equal(np.asarray(joined[name]), array)
    ((_, what, described, group),) = agreed
    assert what == "parameters" and group is GROUPS[0]
    assert [name for name, *_ in described] == list(parts[0])
    assert described[0][1] == list(parts[0][described[0][0]].shape)
