"""The demo trains: the loss falls, the same bits in both modes and from run to run."""

import math
from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import ops

from model_zoo_demo import operators
from model_zoo_demo.operators import Config, Model, draw_batch, source_bytes, train

SMALL = replace(
    Config(),
    layers=1,
    width=64,
    head_dim=16,
    compress_block=16,
    compress_stride=8,
    select_block=16,
    select_count=4,
    window=16,
    length=128,
    batch=2,
    learning_rate=1e-2,
)
STEPS = 12


@pytest.fixture(scope="module")
def graph_losses():
    return train(SMALL, STEPS, 1, ms.GRAPH_MODE)


def test_the_loss_falls(graph_losses):
    # An untrained network knows nothing: about ln 256.
    assert abs(graph_losses[0] - math.log(256)) < 1
    assert sum(graph_losses[-3:]) / 3 < graph_losses[0] - 1


def test_both_modes_give_the_same_losses(graph_losses):
    losses = train(SMALL, STEPS, 1, ms.PYNATIVE_MODE)
    assert losses == pytest.approx(graph_losses, rel=1e-4)


def test_a_seed_gives_the_same_bits(graph_losses):
    assert train(SMALL, STEPS, 1, ms.GRAPH_MODE) == graph_losses


def test_another_seed_gives_others(graph_losses):
    assert train(SMALL, 1, 2, ms.GRAPH_MODE) != graph_losses[:1]


def test_every_operator_gets_a_gradient():
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    model = Model(SMALL)
    batch = draw_batch(source_bytes(), SMALL, np.random.default_rng(1))
    parameters = model.trainable_params()
    gradients = ms.grad(model, grad_position=None, weights=parameters)(*batch)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert float(ops.abs(gradient).max()) > 0, parameter.name


def run_main(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["operators.py", *arguments])
    monkeypatch.setattr(operators, "Config", lambda: SMALL)
    operators.main()


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_program(mode, monkeypatch, capsys):
    run_main(monkeypatch, "--steps", "7", "--every", "3", "--mode", mode)
    lines = capsys.readouterr().out.splitlines()
    steps = [line.split() for line in lines if line.startswith("step")]
    assert [words[1] for words in steps] == ["0", "3", "6"]
    for words in steps:
        loss, bits = float(words[3]), float(words[7])
        assert bits == pytest.approx(loss / math.log(2), abs=1e-3)
    assert lines[-1].startswith(f"first loss {steps[0][3]} (")


def test_program_fails_where_the_loss_does_not_fall(monkeypatch):
    monkeypatch.setattr(operators, "train", lambda *_: [5.0, 5.5, 6.0])
    with pytest.raises(SystemExit) as caught:
        run_main(monkeypatch, "--steps", "3")
    assert caught.value.code == "the loss did not fall"
