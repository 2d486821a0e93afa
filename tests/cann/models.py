"""Models of MindSpore's own parts around sparse attention, trained on device Ascend and on a CPU.

python -m mindspore_nsa.twin run -m tests.cann.models FILE NAME ...
"""

import sys
from dataclasses import replace

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops

from mindspore_nsa.nn import NativeSparseAttention
from tests.ascendc.test_target_layers import SETTINGS
from tests.ops.calls import context_mode

from .usage import main

USES = {}
WIDTH, WORDS, LENGTH = SETTINGS.hidden_size, 24, 48


def use(function):
    USES[function.__name__] = function
    return function


class Block(nn.Cell):
    """Attention and two linear maps, each behind a norm."""

    def __init__(self, norm, activation, dropout):
        super().__init__()
        self.norms = nn.CellList([norm(), norm()])
        self.attention = NativeSparseAttention(SETTINGS)
        self.up, self.down = nn.Dense(WIDTH, 2 * WIDTH), nn.Dense(2 * WIDTH, WIDTH)
        self.activation, self.dropout = activation(), nn.Dropout(p=dropout)

    def construct(self, x):
        x = x + self.dropout(self.attention(self.norms[0](x)))
        return x + self.dropout(self.down(self.activation(self.up(self.norms[1](x)))))


class GPT(nn.Cell):
    """Logits of the next token."""

    def __init__(self, norm, activation, dropout=0.0):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.block, self.norm = Block(norm, activation, dropout), norm()
        self.logits = nn.Dense(WIDTH, WORDS, has_bias=False)
        self.numbers = Tensor(np.arange(LENGTH), ms.int32)
        rng = np.random.default_rng(0)
        for p in self.trainable_params():
            whole = "gamma" in p.name or ("norm" in p.name and "weight" in p.name)
            drawn = whole + 0.1 * rng.standard_normal(p.shape)
            p.set_data(Tensor(drawn.astype(np.float32)))

    def construct(self, tokens):
        x = self.words(tokens) + self.places(self.numbers)
        return self.logits(self.norm(self.block(x)))


def text():
    """Tokens and those that follow them."""
    drawn = np.random.default_rng(1).integers(0, WORDS, (1, LENGTH + 1)).astype(np.int32)
    return Tensor(drawn[:, :-1]), Tensor(drawn[:, 1:])


def trained(net, optimizer, loss, mode="pynative", steps=3):
    """Losses of some steps, gradients clipped by their global norm.

    A CPU computes them in PyNative mode, where nothing is compiled.
    """
    net.set_train()
    optimizer = optimizer(net.trainable_params())

    def forward(tokens, labels):
        logits = net(tokens).astype(ms.float32).reshape(-1, WORDS)
        return loss(logits, labels.reshape(-1))

    gradient = ms.value_and_grad(forward, None, optimizer.parameters)

    def step(tokens, labels):
        value, gradients = gradient(tokens, labels)
        optimizer(ops.clip_by_global_norm(gradients, 1.0))
        return value

    if mode != "pynative" and on_ascend():
        step = ms.jit(step, jit_level="O0")
    with context_mode(mode if mode == "graph" and on_ascend() else "pynative"):
        return [float(step(*text()).asnumpy()) for _ in range(steps)]


def layer_norm():
    return nn.LayerNorm((WIDTH,))


def on_ascend():
    return ms.get_context("device_target") == "Ascend"


def marked(cell, dtype):
    """The operators of sparse attention take 16 bits there; a CPU computes in float32."""
    return cell.to_float(dtype) if on_ascend() else cell


def mixed(net, level):
    """`auto_mixed_precision` to float16."""
    return ms.amp.auto_mixed_precision(net, level, ms.float16) if on_ascend() else net


def adam(parameters):
    return nn.Adam(parameters, 1e-2)


def decayed(parameters):
    return nn.AdamWeightDecay(parameters, 1e-2, weight_decay=0.1)


def momentum(parameters):
    return nn.Momentum(parameters, 0.1, 0.9)


@use
def pynative():
    net = marked(GPT(layer_norm, nn.GELU), ms.float16)
    return trained(net, adam, nn.CrossEntropyLoss())


@use
def graph():
    net = mixed(GPT(layer_norm, lambda: nn.GELU(approximate=False)), "O2")
    return trained(net, decayed, nn.CrossEntropyLoss(), "graph")


@use
def jit():
    net = marked(GPT(layer_norm, nn.ReLU), ms.bfloat16)
    return trained(net, adam, nn.CrossEntropyLoss(label_smoothing=0.1), "jit")


@use
def level_auto():
    """It leaves float32 between Cells, so the layer of sparse attention is marked itself."""
    net = GPT(layer_norm, nn.ReLU)
    marked(net.block.attention, ms.float16)
    return trained(mixed(net, "auto"), momentum, nn.CrossEntropyLoss())


@use
def functions_of_mint():
    """Parts that MindSpore has on Ascend alone, beside a CPU's of the same functions."""
    if not on_ascend():
        norm, activation = lambda: nn.LayerNorm((WIDTH,), epsilon=1e-5), nn.GELU
        optimizer, loss = ms.experimental.optim.AdamW, nn.CrossEntropyLoss()
    else:
        norm, activation = (
            lambda: mint.nn.LayerNorm((WIDTH,)),
            lambda: mint.nn.GELU(approximate="tanh"),
        )
        optimizer, loss = mint.optim.AdamW, mint.nn.CrossEntropyLoss()
    net = marked(GPT(norm, activation), ms.float16)
    return trained(net, lambda parameters: optimizer(parameters, 1e-2), loss)


def dropped(mode):
    """Outputs of a layer in training, and the gradients of its last bias for ones."""
    layer = NativeSparseAttention(replace(SETTINGS, dropout=0.5)).to_float(ms.float16).set_train()
    layer.output.bias.set_data(Tensor(np.full(WIDTH, 0.5, np.float32)))
    x = Tensor(np.random.default_rng(2).standard_normal((1, LENGTH, WIDTH)).astype(np.float32))

    def forward(x):
        out = layer(x).astype(ms.float32)
        return out.sum(), out

    gradient = ms.value_and_grad(forward, None, [layer.output.bias], has_aux=True)
    if mode != "pynative":
        gradient = ms.jit(gradient, jit_level="O0")
    found = []
    for _ in range(2):
        (_, out), (bias,) = gradient(x)
        found.append((out.asnumpy(), bias.astype(ms.float32).asnumpy()))
    return found


@use
def dropped_in_pynative():
    return dropped("pynative")


@use
def dropped_in_jit():
    return dropped("jit")


@use
def dropout_of_mint():
    """Outputs, and gradients of the input for ones."""
    x = Tensor(np.ones((4, 70), np.float32))
    cell = mint.nn.Dropout(0.25).set_train()
    out = ms.value_and_grad(lambda x: cell(x).sum(), 0)(x)
    return [each.asnumpy() for each in out]


LAYER, EARLIER = [], []


def called():
    """Outputs and gradients of one layer, in PyNative mode and in a graph, and where they are."""
    if not LAYER:
        ms.set_seed(0)
        LAYER.append(NativeSparseAttention(SETTINGS).to_float(ms.float16))
    x = np.random.default_rng(3).standard_normal((1, LENGTH, WIDTH)).astype(np.float32)

    def energy(x):
        return ops.square(LAYER[0](x).astype(ms.float32)).sum()

    gradient = ms.grad(energy)
    found = [LAYER[0](Tensor(x)), gradient(Tensor(x)), ms.jit(gradient)(Tensor(x))]
    return [(each.device, each.asnumpy()) for each in found]


@use
def device_changed():
    """Results of the layer on the CPU, and since the process has gone to Ascend."""
    return EARLIER, called()


if __name__ == "__main__":
    ms.set_device("CPU")
    EARLIER += called()
    ms.set_device("Ascend")
    main(USES, *sys.argv[1:])
