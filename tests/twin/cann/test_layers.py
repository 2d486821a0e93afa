"""The layers and a training program on MindSpore's device Ascend, CANN's own operators included."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.ascendc.test_target_layers import computed, errors, named
from tests.common.dtypes import ULP

from .judge import ROOT, called_by_type, run
from .worker import WANTED_LAYERS

# Operators of CANN's without an aclnn function ("aclop") that MindSpore calls for the layers.
BY_TYPE = {
    "AddN": "MindSpore's compiler adds gradients that meet, in every network, by this one",
    # Of a context alone.
    "UnsortedSegmentSum": "adds rows by their numbers and leaves out those of -1; aclnn has none",
}
ADDED = {"pynative": (), "graph": ("AddN",)}


def check_types(folder, *allowed):
    """The program called no other operators by their types."""
    assert called_by_type(folder) <= set(allowed) <= set(BY_TYPE)


def judge_layers(file, monkeypatch):
    """Hold what the worker wrote of the layers to the errors of target cpu."""
    found = pickle.loads(Path(file).read_bytes())
    assert set(found) == set(WANTED_LAYERS)
    for (kind, dtype), (results, blocks) in found.items():
        got = errors(kind, dtype, monkeypatch, results, blocks)
        cpu, its_blocks = computed(kind, dtype, "cpu", "pynative")
        allowed = errors(kind, dtype, monkeypatch, cpu, its_blocks)
        # CANN's products and sums round where the CPU's fused ones do not.
        wrong = {
            name: f"{e:.2e}, on target cpu {allowed[name]:.2e}"
            for name, e in got.items()
            if not e <= 4 * max(allowed[name], ULP[dtype])
        }
        assert not wrong, (kind, dtype)
        assert all(e > 0 for e in got.values())
        if blocks is not None:
            assert (blocks == its_blocks).all(-1).mean() > 0.95


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_as_exact_as_target_cpu(mode, tmp_path, monkeypatch):
    """The output and the gradient of every parameter, against float64."""
    program = ("-m", "tests.twin.cann.worker", "layers", mode, tmp_path / "results")
    done = run(*program, folder=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    judge_layers(tmp_path / "results", monkeypatch)
    check_types(tmp_path, *ADDED[mode])


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_context_of_one_worker(mode, tmp_path):
    """The layer's way with a context, which exchanges nothing then, beside the one without."""
    program = ("-m", "tests.twin.cann.worker", "context", mode, tmp_path / "results")
    done = run(*program, folder=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = pickle.loads((tmp_path / "results").read_bytes())
    one = named(found.pop(None))
    assert len(found) == 2
    for results in found.values():
        for name, got in named(results).items():
            assert np.abs(got - one[name]).max() <= 4 * ULP["float16"] * np.abs(one[name]).max()
    check_types(tmp_path, "UnsortedSegmentSum", *ADDED[mode])


def test_training(tmp_path):
    """Five steps of the demo's program give the losses of the CPU's kernels, but for rounding."""
    config = ROOT / "model_zoo_demo" / "configs" / "twin.json"
    program = ["-m", "model_zoo_demo.train", config, "--mode", "pynative", "--data", ROOT / "docs"]
    # Documents of one length for all: the lists of lengths are host data on Ascend.
    program += ["--set", "documents=joined", "--set", "sample_bytes=0"]
    losses = {}
    for device in ("Ascend", "CPU"):
        out = tmp_path / device
        chosen = [*program, "--out", out, "--set", f"device={device}"]
        done = run(*chosen, folder=tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        losses[device] = [line["loss"] for line in lines if "loss" in line]
    assert len(losses["CPU"]) == 5
    assert losses["Ascend"] != losses["CPU"]
    assert losses["Ascend"] == pytest.approx(losses["CPU"], rel=2e-3)
