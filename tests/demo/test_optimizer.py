"""Schedule, AdamW, SGD, clipping and accumulation against their formulas."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from model_zoo_demo.config import Config
from model_zoo_demo.optimizer import Step, learning_rate

BOTH = pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE], ids=["graph", "pynative"])


def test_schedule():
    config = Config(steps=101, warmup=10, learning_rate=2.0, final_rate=0.1)
    rates = [learning_rate(step, config) for step in range(101)]
    assert rates[:10] == pytest.approx([0.2 * i for i in range(1, 11)])
    assert rates[10] == 2.0 and rates[100] == pytest.approx(0.2)
    assert rates[55] == pytest.approx(1.1)
    assert all(a > b for a, b in zip(rates[10:], rates[11:]))
    assert learning_rate(150, config) == pytest.approx(0.2)


@pytest.mark.parametrize("steps, warmup", [(1, 0), (1, 1), (5, 10), (3, 3)])
def test_short_schedules(steps, warmup):
    config = Config(steps=steps, warmup=warmup)
    assert all(0 < learning_rate(i, config) <= config.learning_rate for i in range(steps))


class Linear(nn.Cell):
    """Its gradient is the batch, whatever the weights."""

    def __init__(self):
        super().__init__()
        self.matrix = Parameter(Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)))
        self.vector = Parameter(Tensor(np.array([5, -5], np.float32)))

    def construct(self, matrix, vector):
        return ops.sum(self.matrix * matrix) + ops.sum(self.vector * vector)


def draw(count):
    rng = np.random.default_rng(3)
    return [
        (rng.standard_normal((2, 3)).astype(np.float32), rng.standard_normal(2).astype(np.float32))
        for _ in range(count)
    ]


def norm(gradients):
    return np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in gradients))


def values(cell):
    return [cell.matrix.asnumpy().copy(), cell.vector.asnumpy().copy()]


@BOTH
def test_adamw(mode):
    ms.set_context(mode=mode)
    config = Config(steps=9, warmup=3, learning_rate=0.1, weight_decay=0.3, beta2=0.9, clip=0.0)
    cell = Linear()
    step = Step(cell, [cell.matrix], config)
    weights = [w.astype(np.float64) for w in values(cell)]
    first, second = [0.0, 0.0], [0.0, 0.0]
    for t, (matrix, vector) in enumerate(draw(9), 1):
        batch = matrix, np.float32(1e-8) * vector  # so small that epsilon counts
        _, found = step((batch,), t - 1)
        assert found == pytest.approx(norm(batch), rel=1e-5)
        rate = learning_rate(t - 1, config)
        for i, (g, decay) in enumerate(zip(batch, (0.3, 0))):
            first[i] = config.beta1 * first[i] + (1 - config.beta1) * g
            second[i] = config.beta2 * second[i] + (1 - config.beta2) * g**2
            corrected = second[i] / (1 - config.beta2**t)
            move = first[i] / (1 - config.beta1**t) / (np.sqrt(corrected) + 1e-8)
            weights[i] = weights[i] - rate * (decay * weights[i] + move)
    for ours, expected in zip(values(cell), weights):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


@BOTH
def test_sgd_and_clipping(mode):
    ms.set_context(mode=mode)
    config = Config(steps=4, warmup=0, learning_rate=0.5, optimizer="sgd", clip=1.5)
    cell = Linear()
    step = Step(cell, [], config)
    weights = values(cell)
    batches = draw(4)
    batches[2] = tuple(0.01 * g for g in batches[2])  # too small to be clipped
    norms = [norm(batch) for batch in batches]
    assert min(norms) < 1.5 < max(norms)
    for t, batch in enumerate(batches):
        assert step((batch,), t)[1] == pytest.approx(norms[t], rel=1e-5)
        rate = learning_rate(t, config) * min(1, 1.5 / norms[t])
        weights = [w - rate * g for w, g in zip(weights, batch)]
    for ours, expected in zip(values(cell), weights):
        np.testing.assert_allclose(ours, expected, rtol=1e-5)


@BOTH
def test_accumulation_is_the_mean(mode):
    ms.set_context(mode=mode)
    common = {"steps": 2, "warmup": 0, "learning_rate": 0.5, "optimizer": "sgd", "clip": 1.0}
    batches = draw(3)
    whole = tuple(sum(parts) / 3 for parts in zip(*batches))
    results = []
    for config, given in (
        (Config(**common, accumulation=3), batches),
        (Config(**common), [whole]),
    ):
        cell = Linear()
        loss, found = Step(cell, [], config)(given, 0)
        results.append([loss, found, *values(cell)])
    for ours, expected in zip(*results):
        np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_steps_share_their_graphs():
    """A graph per step would take a hundred times as long."""
    ms.set_context(mode=ms.GRAPH_MODE)
    step = Step(Linear(), [], Config(steps=9))
    for t, batch in enumerate(draw(4)):
        step((batch, batch), t)
    for cell in (step.gradient, step.add, step.update):
        assert len(cell.compile_cache) == 1, cell
