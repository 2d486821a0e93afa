"""Layers with drawn parameters, their reference, and calls that several tests share."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from mindspore_nsa import _native, reference
from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, NSAConfig
from mindspore_nsa.ops import _layer
from tests.common.layers import SMALL, draw_parameters

KINDS = ("sparse", "dense", "window")
ENDS = (0, 21, 24, 24, 60)


def config(**changes):
    return NSAConfig(**{**SMALL, **changes})


def build(kind, settings):
    """A layer as it is made."""
    if kind == "sparse":
        return NativeSparseAttention(settings)
    return DenseAttention(settings, window=kind == "window")


def filled(kind, settings, seed=0):
    """A layer, and its parameters by name in float64, rounded to what the layer holds."""
    layer = build(kind, settings)
    drawn = draw_parameters(settings, np.random.default_rng(seed), dense=kind != "sparse")
    assert {p.name: p.shape for p in layer.trainable_params()} == {
        name: p.shape for name, p in drawn.items()
    }
    for p in layer.trainable_params():
        p.set_data(Tensor(drawn[p.name].astype(np.float32)).astype(p.dtype))
        drawn[p.name] = p.astype(ms.float32).asnumpy().astype(np.float64)
    return layer, drawn


def tokens(settings, count=ENDS[-1], seed=1):
    """Packed input."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, settings.hidden_size)).astype(np.float32)


def refer(kind, x, parameters, settings, ends, upstream, **options):
    """(output, gradient of x, gradients of the parameters) by the definition."""
    if kind == "sparse":
        forward = reference.native_sparse_attention
        backward = reference.native_sparse_attention_grad
    else:
        forward, backward = reference.dense_attention, reference.dense_attention_grad
        options["window"] = kind == "window"
    out = forward(x, parameters, settings, actual_seq_len=ends, **options)
    dx, grads = backward(upstream, x, parameters, settings, actual_seq_len=ends, **options)
    return out, dx, grads


class Weighted(nn.Cell):
    """The scalar whose gradients are those of the layer for one output gradient."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, seq, upstream):
        out = self.layer(x, seq)
        return ops.sum(ops.cast(out, ms.float32) * upstream), out


def differentiated(layer, names=None):
    """A function of (x, lists, upstream): output, gradient of x, gradients by name, as NumPy."""
    parameters = layer.trainable_params()
    # A Cell around puts its own name before them.
    names = names or [p.name for p in parameters]
    both = ms.value_and_grad(Weighted(layer), 0, parameters, has_aux=True)

    def run(x, seq, upstream):
        (_, out), (dx, grads) = both(x, seq, upstream)
        named = dict(zip(names, map(to_numpy, grads)))
        return to_numpy(out), to_numpy(dx), named

    return run


def to_numpy(x):
    return x.astype(ms.float32).asnumpy()


def use_own_products(monkeypatch, own):
    """Pretend that the instruction set's own products of many rows are used, or not."""
    sets = tuple(_native.available_isas()) if own else ()
    monkeypatch.setattr(_layer, "_MULTIPLIES", {ms.bfloat16: sets, ms.float32: sets})
    forget_products()


def forget_products():
    """Which of them was planned."""
    for planner in (_layer._plan_projects, _layer._plan_projection):
        planner.forget()
