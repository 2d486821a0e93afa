"""Training: what MindSpore wraps around a layer, saves of it and exports."""

import copy
import gc
import weakref

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from mindspore_nsa import _native
from tests.ops.calls import context_mode

from .cells import ENDS, build, config, differentiated, filled, tokens
from .test_reference import computed

BOTH = pytest.mark.parametrize("mode", ["pynative", "graph"])
SETTINGS = config(has_bias=True)
SEQ = Tensor(ENDS, ms.int64)


def batch():
    """Input, lists, output gradient."""
    return Tensor(tokens(SETTINGS)), SEQ, Tensor(tokens(SETTINGS, seed=2))


@BOTH
def test_recompute(mode):
    """The backward pass computes the layer again, to the same bits."""
    layer, _ = filled("sparse", SETTINGS)
    layer.recompute()
    with context_mode(mode):
        ours = differentiated(layer)(*batch())
    expected = computed("sparse", f"{mode}, Tensor lists")
    for a, b in zip(ours[:2], expected[:2]):
        np.testing.assert_array_equal(a, b)
    assert len(ours[2]) == len(expected[2]) == 12
    for (name, a), b in zip(ours[2].items(), expected[2].values()):
        np.testing.assert_array_equal(a, b, err_msg=name)
        assert b.any(), name


def test_recompute_repeats_dropout():
    """In a graph: the gradient of the output's bias counts the elements that were kept."""
    layer, _ = filled("dense", config(has_bias=True, dropout=0.5))
    layer.set_train().recompute()
    x, seq, _ = batch()
    with context_mode("graph"):
        out, _, grads = differentiated(layer)(x, seq, ops.ones_like(x))
    kept = (out != 0).sum(0)
    assert 0 < kept.sum() < out.size
    np.testing.assert_array_equal(grads["output.bias"], 2 * kept)


class Loss(nn.Cell):
    """Mean square distance of a layer's output from a target."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, seq, target):
        return ops.square(self.layer(x, seq) - target).mean()


@BOTH
def test_steps_of_training(mode):
    """The loss falls, new lists need no new graph, and every parameter moves."""
    with context_mode(mode):
        layer, before = filled("sparse", SETTINGS)
        step = nn.TrainOneStepCell(Loss(layer), nn.Adam(layer.trainable_params(), 0.02))
        step.set_train()
        x, _, target = batch()
        lists = SEQ, Tensor([30, 30, 31, 50, 60], ms.int64)
        losses = [float(step(x, lists[i % 2], target).asnumpy()) for i in range(8)]
        if mode == "graph":
            assert len(step.compile_cache) == 1
    assert losses[-2] < 0.9 * losses[0] and losses[-1] < 0.9 * losses[1]
    for p, (name, old) in zip(layer.trainable_params(), before.items()):
        assert (p.asnumpy() != before[p.name.removeprefix("layer.")]).any(), (name, old.shape)


@pytest.mark.parametrize("mode", ["pynative", pytest.param("graph", marks=pytest.mark.soak)])
def test_gradient_accumulation(mode):
    """The gradients of two halves add up to those of the whole."""
    layer, _ = filled("sparse", SETTINGS)
    x, upstream = tokens(SETTINGS), tokens(SETTINGS, seed=2)
    with context_mode(mode):
        run = differentiated(layer)
        whole = run(Tensor(x), Tensor([30, 60], ms.int64), Tensor(upstream))[2]
        halves = [
            run(Tensor(x[a:b]), Tensor([b - a], ms.int64), Tensor(upstream[a:b]))[2]
            for a, b in ((0, 30), (30, 60))
        ]
    for name, expected in whole.items():
        total = halves[0][name] + halves[1][name]
        bound = 2e-6 * np.abs(expected).max()
        np.testing.assert_allclose(total, expected, rtol=0, atol=bound, err_msg=name)


@BOTH
def test_deepcopy(mode):
    layer, _ = filled("sparse", SETTINGS)
    with context_mode(mode):
        expected = layer(*batch()[:2]).asnumpy()
        twin = copy.deepcopy(layer)
        np.testing.assert_array_equal(twin(*batch()[:2]).asnumpy(), expected)
        for p in twin.get_parameters():
            p.set_data(ops.zeros_like(p))
        assert not twin(*batch()[:2]).asnumpy().any()
        np.testing.assert_array_equal(layer(*batch()[:2]).asnumpy(), expected)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_layer_is_freed_at_once(kind):
    """Its parts do not keep it until Python looks for cycles."""
    layer = build(kind, SETTINGS)
    layer(*batch()[:2])
    seen = weakref.ref(layer)
    gc.disable()
    try:
        del layer
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("format", ["ckpt", "safetensors"])
def test_checkpoint(kind, format, tmp_path):
    layer, _ = filled(kind, SETTINGS)
    path = str(tmp_path / f"layer.{format}")
    ms.save_checkpoint(layer, path, format=format)
    other = build(kind, SETTINGS)
    x, seq, _ = batch()
    expected = layer(x, seq).asnumpy()
    assert (other(x, seq).asnumpy() != expected).any()
    missing = ms.load_param_into_net(other, ms.load_checkpoint(path, format=format))
    assert missing == ([], [])
    np.testing.assert_array_equal(other(x, seq).asnumpy(), expected)


@pytest.mark.parametrize(
    "kind, form",
    [("sparse", "static"), ("sparse", "dynamic"), ("dense", "batched")],
)
def test_mindir(kind, form, tmp_path):
    layer, _ = filled(kind, SETTINGS)
    layer.set_train(False)
    x, seq, _ = batch()
    given = {
        "static": (x, seq),
        "dynamic": (Tensor(shape=[None, SETTINGS.hidden_size], dtype=ms.float32),
                    Tensor(shape=[None], dtype=ms.int64)),
        "batched": (Tensor(shape=[None, None, SETTINGS.hidden_size], dtype=ms.float32),),
    }[form]  # fmt: skip
    calls = [(x, seq), (x, Tensor([1, 2, 2, 31, 60], ms.int64))]
    if form == "dynamic":
        calls.append((x[:3], Tensor([3], ms.int64)))
    if form == "batched":
        calls = [(x.reshape(3, 20, -1),), (x[:3][None],)]
    expected = [layer(*call).asnumpy() for call in calls]
    ms.export(layer, *given, file_name=str(tmp_path / "layer"), file_format="MINDIR")
    # The file names the library that holds the operators.
    assert _native.__file__.encode() in (tmp_path / "layer.mindir").read_bytes()
    reloaded = nn.GraphCell(ms.load(str(tmp_path / "layer.mindir")))
    for call, out in zip(calls, expected):
        np.testing.assert_allclose(reloaded(*call).asnumpy(), out, atol=1e-6)
        assert out.any()
