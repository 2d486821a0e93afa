"""The layers and a training program on MindSpore's device Ascend, CANN's own operators included."""

import json
import pickle

import numpy as np
import pytest

from mindspore_nsa.nn.parallel.plan import ORDERS
from mindspore_nsa.testing.dtypes import ULP
from tests.ascendc.test_target_layers import computed, errors, named

from .judge import ROOT, by_type, called_by_type, run
from .worker import WANTED_LAYERS

# Operators of CANN's without an aclnn function ("aclop") that MindSpore calls for the layers.
BY_TYPE = {
    "AddN": "MindSpore's compiler adds gradients that meet, in every network, by this one",
    "Cumsum": "adds up the windows of documents, of lists that are Tensors in a graph",
    "Range": "numbers the tokens of a row with padding, in PyNative mode",
    # A context alone calls it.
    "UnsortedSegmentSum": "adds rows by their numbers and leaves out those of -1; aclnn has none",
}
ADDED = {"pynative": set(), "graph": {"AddN", "Cumsum"}}


@pytest.fixture(scope="module", params=["pynative", "graph"])
def found(request, tmp_path_factory):
    """(mode, folder of the program, what the worker wrote)."""
    folder = tmp_path_factory.mktemp(request.param)
    program = ("-m", "tests.cann.worker", "layers", request.param, folder / "results")
    done = run(*program, folder=folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return request.param, folder, pickle.loads((folder / "results").read_bytes())


def judge_layers(mode, found, monkeypatch):
    """Hold what the worker wrote of the layers to the errors of target cpu."""
    for kind, dtype in WANTED_LAYERS[mode]:
        results, blocks = found[kind, dtype]
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


def test_as_exact_as_target_cpu(found, monkeypatch):
    """The output and the gradient of every parameter, against float64."""
    judge_layers(found[0], found[2], monkeypatch)


def test_context_of_one_worker(found):
    """The layer's way with a context, which exchanges nothing then, beside the one without."""
    one = named(found[2]["sparse", "float16"][0])
    for order in ORDERS:
        for name, got in named(found[2][order]).items():
            assert np.abs(got - one[name]).max() <= 4 * ULP["float16"] * np.abs(one[name]).max()


def test_padding(found):
    """A mask makes lists that the device computes; tokens are those of packed rows."""
    out, packed, mask = found[2]["padding"]
    np.testing.assert_array_equal(out[~mask], packed)
    assert not out[mask].any() and packed.any()


def test_called_by_type(found):
    """The layers call aclnn functions, forward and backward, but for those that are named."""
    mode, folder, results = found
    assert by_type(results["called"]) == ADDED[mode]
    padding = {"Range"} if mode == "pynative" else set()
    assert called_by_type(folder) == {"UnsortedSegmentSum"} | ADDED[mode] | padding
    assert called_by_type(folder) <= set(BY_TYPE)


def test_training(tmp_path):
    """Five steps of the demo's program give the losses of the CPU's kernels, but for rounding."""
    config = ROOT / "model_zoo_demo" / "configs" / "twin.json"
    program = ["-m", "model_zoo_demo.train", config, "--data", ROOT / "docs"]
    program += ["--set", "sample_bytes=0"]
    losses = {}
    # One graph for the documents of all steps, whose lengths it reads when it runs.
    for device, mode in (("Ascend", "graph"), ("CPU", "pynative")):
        out = tmp_path / device
        chosen = [*program, "--mode", mode, "--out", out, "--set", f"device={device}"]
        done = run(*chosen, folder=tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        losses[device] = [line["loss"] for line in lines if "loss" in line]
    assert len(losses["CPU"]) == 5
    assert losses["Ascend"] != losses["CPU"]
    assert losses["Ascend"] == pytest.approx(losses["CPU"], rel=2e-3)
