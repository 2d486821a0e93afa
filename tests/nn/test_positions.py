"""How far positions go: that of a token in its document counts, not how many tokens there are."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa import nn
from mindspore_nsa.nn import packing
from tests.ops.calls import Function, context_mode

from .cells import build, config

HIDDEN = 12
LAYERS = {"sparse": nn.NativeSparseAttention, "dense": nn.DenseAttention}


@pytest.fixture
def low(monkeypatch):
    """A lower limit, to be quick; what was planned with another is forgotten."""

    def forget():
        packing._plan_packing.forget()
        packing._plan_ends.forget()

    with monkeypatch.context() as patched:
        patched.setattr(packing, "LIMIT", 16)
        forget()
        yield
    forget()


def drawn(*shape):
    return Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("form", ["tuple", "Tensor"])
def test_many_short_documents(form):
    """Documents may have more tokens in all than there are rotary angles; no bit differs."""
    layer = nn.DenseAttention(
        nn.NSAConfig(hidden_size=2, num_heads=1, num_kv_heads=1, head_dim=2, window_size=2),
        window=True,
    )
    count, length = 1025, 2048
    part = drawn(length, 2)
    x = Tensor(np.tile(part.asnumpy(), (count, 1)))
    ends = tuple(range(length, count * length + 1, length))
    out = layer(x, Tensor(ends) if form == "Tensor" else ends).asnumpy()
    assert len(x) > 2**21
    alone = layer(part, (length,)).asnumpy()
    assert all(np.array_equal(one, alone) for one in out.reshape(count, length, 2))


class Open:
    """A layer in a graph that knows no size of its arguments."""

    def __init__(self, layer, *given):
        self.net = Function(layer)
        self.net.set_inputs(*(Tensor(shape=[None] * t.ndim, dtype=t.dtype) for t in given))

    def __call__(self, *given):
        with context_mode("graph"):
            return self.net(*given).asnumpy()


@pytest.mark.parametrize("kind, name", [("sparse", "NativeSparseAtt"), ("dense", "DenseAtt")])
def test_a_document_that_is_too_long(low, kind, name):
    """Refused in the layer's words, whoever knows the length."""
    layer = build(kind, config())
    text = f"{name}ention: x must hold documents of at most 16 tokens, .*, got one of 17"
    rows, packed = drawn(3, 17, HIDDEN), drawn(40, HIDDEN)
    lists = (5, 22, 40), Tensor([5, 22, 40])
    for given in ((rows,), *((packed, ends) for ends in lists)):
        for mode in ("pynative", "graph"):
            with context_mode(mode), pytest.raises(ValueError, match=text):
                layer(*given)
    for given in ((rows,), (packed, lists[1])):
        net = Open(layer, *given)
        with pytest.raises((ValueError, RuntimeError), match=text):
            net(*given)
    # A document of the greatest length, among more tokens than that.
    assert layer(drawn(3, 16, HIDDEN)).shape == (3, 16, HIDDEN)
    net = Open(layer, rows)
    assert net(drawn(3, 16, HIDDEN)).shape == (3, 16, HIDDEN)
    padding = np.zeros((3, 17), bool)
    padding[:, 16] = True
    with pytest.raises(ValueError, match=text):
        layer(rows, key_padding_mask=Tensor(padding))


@pytest.mark.parametrize("kind, name", [("sparse", "NativeSparseAtt"), ("dense", "DenseAtt")])
def test_a_document_of_several_workers_that_is_too_long(low, kind, name):
    group = nn.parallel_groups().context
    shards, settings = nn.ContextShards(40, group), config()
    text = "x must hold documents of at most 16 tokens, .*, got one of 17"
    short, long = (5, 21, 37, 40), (5, 22, 38, 40)
    with pytest.raises(ValueError, match=f"ContextShards.lists: {text}"):
        shards.lists(long, settings)
    layer = LAYERS[kind](settings, context=shards)
    x = drawn(40, HIDDEN)
    with pytest.raises(ValueError, match=f"{name}ention: {text}"):
        layer(x, long)
    alone = LAYERS[kind](settings)
    ms.load_param_into_net(alone, layer.parameters_dict())
    whole = alone(x, short).asnumpy()
    for ends in (short, shards.lists(short, settings)):
        np.testing.assert_allclose(layer(x, ends).asnumpy(), whole, rtol=1e-5, atol=1e-6)
    rows = LAYERS[kind](settings, context=nn.ContextShards(17, group))
    with pytest.raises(ValueError, match=f"{name}ention: {text}"):
        rows(drawn(2, 17, HIDDEN))


def test_the_limit_of_a_row():
    layer = build("dense", config(hidden_size=1))
    text = "x must hold documents of at most 16777216 tokens, .*, got one of 16777217"
    with pytest.raises(ValueError, match=f"DenseAttention: {text}"):
        layer(Tensor(np.zeros((1, 2**24 + 1, 1), np.float16)))
