"""Training on the Ascend kernels: the program with --target ascend_twin."""

import os
import subprocess
import sys

import numpy as np
import pytest

from model_zoo_demo import checkpoint, runlog, train
from model_zoo_demo import config as configs

from .runs import ROOT, environment, silent, write_folder

CONFIG = train.CONFIGS / "twin.json"
# A rounding to bfloat16 moves a number by at most 2^-9 of it. The losses are means over 384 tokens
# of what many such roundings move either way.
BOUND = 2.0**-10


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("text"))


def losses(out):
    return np.array([record["loss"] for record in runlog.read(out) if "loss" in record])


def losses_on_cpu(out, text, *settings):
    train.set_up("pynative")  # graphs take longer to compile than these steps
    config = configs.override(configs.load(CONFIG), ["eval_bytes=384", *settings])
    train.train(config, out, [text], say=silent)
    return losses(out)


def test_losses_are_those_of_target_cpu(text, tmp_path):
    out = tmp_path / "twin"
    done = subprocess.run(
        [sys.executable, "-m", "model_zoo_demo.train", CONFIG, "--target", "ascend_twin"]
        + ["--out", out, "--data", text, "--set", "sample_bytes=2"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found, expected = losses(out), losses_on_cpu(tmp_path / "cpu", text)
    assert len(found) == len(expected) == 5 and found[-1] < found[0] - 1
    np.testing.assert_allclose(found, expected, rtol=BOUND)
    # Rounded elsewhere, and a branch that is missing would show.
    assert (found != expected).any()
    window = losses_on_cpu(tmp_path / "window", text, "attention=window")
    assert np.abs(window / expected - 1).max() > 4 * BOUND
    for name in ("loss.png", "selection.png", "sample.txt", checkpoint.NAME):
        assert os.path.getsize(out / name) > 0


def test_target_and_device(tmp_path):
    arguments = [str(CONFIG), "--out", str(tmp_path), "--target", "ascend"]
    assert train.main(arguments) == (
        "train: --target: mindspore_nsa: target 'ascend' needs device_target Ascend, got 'CPU'"
    )
