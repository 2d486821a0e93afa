"""How programs train on MindSpore's device Ascend: loss scales, mixed precision, checkpoints.

python -m mindspore_nsa.twin run -m tests.cann.training FILE NAME ...
"""

import sys
import tempfile
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.train import Callback, CheckpointConfig, LossMonitor, Model, ModelCheckpoint

from mindspore_nsa.nn import NativeSparseAttention
from tests.ascendc.test_target_layers import SETTINGS
from tests.ops.calls import context_mode

from .usage import main

USES = {}
LENGTH, WIDTH = 48, SETTINGS.hidden_size


def use(function):
    USES[function.__name__] = function
    return function


class Net(nn.Cell):
    """A layer between two of MindSpore's own; parameters are float32."""

    def __init__(self, seed=0):
        super().__init__()
        self.up, self.down = nn.Dense(8, WIDTH), nn.Dense(WIDTH, 1)
        self.layer = NativeSparseAttention(SETTINGS)
        rng = np.random.default_rng(seed)
        for p in self.get_parameters():
            p.set_data(Tensor((rng.standard_normal(p.shape) * 0.2).astype(np.float32)))

    def construct(self, x):
        return self.down(self.layer(self.up(x)))


def batches(count=2):
    """Pairs of input and target."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((count, 1, LENGTH, 8)).astype(np.float32)
    return [(Tensor(one), Tensor(one.sum(-1, keepdims=True))) for one in x]


class Rows:
    """A GeneratorDataset reads the batches from it."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        x, y = batches()[i]
        return x.asnumpy()[0], y.asnumpy()[0]


class Seen(Callback):
    """Every step's loss and, where there is one, overflow and scale."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def on_train_step_end(self, run_context):
        outputs = run_context.original_args().net_outputs
        outputs = outputs[:3] if isinstance(outputs, tuple) else (outputs,)
        self.steps.append([float(x.astype(ms.float32).asnumpy()) for x in outputs])


def trained(level="O0", dtype=None, manager=None, scale=1.0, callbacks=(), net=None):
    """Two epochs of Model.train; what every step gave."""
    net = Net() if net is None else net
    if dtype is not None:
        net.to_float(dtype)
    optimizer = nn.Momentum(net.trainable_params(), 1e-2, 0.9, loss_scale=scale)
    options = {} if manager is None else {"loss_scale_manager": manager}
    model = Model(net, nn.MSELoss(), optimizer, amp_level=level, **options)
    rows = ms.dataset.GeneratorDataset(Rows(), ["x", "y"], shuffle=False).batch(1)
    seen = Seen()
    model.train(2, rows, callbacks=[seen, LossMonitor(2), *callbacks], dataset_sink_mode=False)
    return seen.steps


@use
def float16():
    return trained(dtype=ms.float16)


@use
def bfloat16():
    """Parameters are float32."""
    return trained(dtype=ms.bfloat16)


@use
def fixed_scale():
    manager = ms.FixedLossScaleManager(128, drop_overflow_update=False)
    return trained(dtype=ms.float16, manager=manager, scale=128.0)


@use
def dynamic_scale():
    """It grows every second step."""
    return trained(dtype=ms.float16, manager=ms.DynamicLossScaleManager(2**10, 2, 2))


@use
def overflow():
    """Steps whose gradients are not finite change nothing, and halve the scale."""
    return trained(dtype=ms.float16, manager=ms.DynamicLossScaleManager(2**40, 2, 2))


@use
def level_O2():
    return trained("O2", manager=ms.DynamicLossScaleManager(2**10, 2, 2))


@use
def level_O3():
    return trained("O3")


@use
def checkpoint():
    """Parameters of a training that go on in another network: (its steps, those of the first)."""
    first = Net()
    with tempfile.TemporaryDirectory() as folder:
        saving = ModelCheckpoint("net", folder, CheckpointConfig(4, 1))
        trained(dtype=ms.float16, callbacks=[saving], net=first)
        (file,) = Path(folder).glob("*.ckpt")
        second = Net(seed=2)
        missing = ms.load_param_into_net(second, ms.load_checkpoint(str(file)))
    assert missing[0] == [], missing
    return [trained(dtype=ms.float16, net=net) for net in (second, first)]


@use
def two_networks():
    """Their steps by turns, and those of each alone."""
    nets = [Net(seed).to_float(ms.float16) for seed in (0, 2, 0, 2)]
    steps = []
    for net in nets:
        train = nn.TrainOneStepCell(
            nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 1e-2, 0.9)
        )
        steps.append(train.set_train())
    losses = [[], [], [], []]
    order = (0, 1, 0, 1, 2, 2, 3, 3)
    for i in order:
        losses[i].append(float(steps[i](*batches()[len(losses[i])]).asnumpy()))
    return losses


def scaled(mode, scaler):
    """Steps with mindspore.amp: (loss, finite, scale after the step)."""
    net = Net().to_float(ms.float16)
    optimizer = nn.Momentum(net.trainable_params(), 1e-2, 0.9)

    def forward(x, y):
        return scaler.scale(ops.square(net(x).astype(ms.float32) - y).mean())

    gradient = ms.value_and_grad(forward, None, optimizer.parameters)
    gradient = ms.jit(gradient, jit_level="O0") if mode == "graph" else gradient
    steps = []
    for x, y in batches() * 2:
        before = float(scaler.scale_value.asnumpy())
        loss, gradients = gradient(x, y)
        finite = bool(ms.amp.all_finite(gradients))
        scaler.adjust(Tensor(finite))
        if finite:
            optimizer(tuple(g / before for g in gradients))
        steps.append([float(loss.asnumpy()) / before, finite, float(scaler.scale_value.asnumpy())])
    return steps


@use
def static_scaler():
    return scaled("pynative", ms.amp.StaticLossScaler(64.0))


@use
def dynamic_scaler():
    """The first scale is too large, and so is what it grows to after two steps."""
    return scaled("graph", ms.amp.DynamicLossScaler(2.0**20, 2**10, 2))


@use
def recomputed():
    """Losses in both modes, with and without `recompute`."""
    found = []
    for mode in ("pynative", "graph"):
        for again in (False, True):
            net = Net().to_float(ms.float16)
            if again:
                net.layer.recompute()
            cell = nn.WithLossCell(net, nn.MSELoss())
            step = nn.TrainOneStepCell(cell, nn.Momentum(net.trainable_params(), 1e-2, 0.9))
            step.set_train()
            with context_mode(mode):
                found.append([float(step(*pair).asnumpy()) for pair in batches()])
    return found


def refused(level):
    """Last of all: after an error MindSpore computes the forward of every later step twice."""
    try:
        return trained(level)
    except TypeError as error:
        return str(error)


@use
def level_O1():
    return refused("O1")


@use
def level_auto():
    return refused("auto")


if __name__ == "__main__":
    ms.set_device("Ascend")
    main(USES, *sys.argv[1:])
