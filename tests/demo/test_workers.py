"""Two workers with half the batch each compute what one does with the whole of it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from model_zoo_demo import checkpoint, runlog, train

from .runs import ROOT, environment, write_folder
from .workers import STEPS, compute


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def msrun(logs, *command):
    """The exit code of a command run by two workers; their output where it is not 0."""
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"  # msrun calls "python"
    done = subprocess.run(
        [
            *(programs / "msrun", "--worker_num=2", "--local_worker_num=2", "--join=True"),
            *(f"--master_port={free_port()}", f"--log_dir={logs}", "--cluster_time_out=120"),
            *map(str, command),
        ],
        cwd=ROOT,
        env=environment(PATH=path, OMP_NUM_THREADS="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    printed = "".join(p.read_text(errors="replace")[-3000:] for p in sorted(logs.glob("worker_*")))
    assert done.returncode == 0, printed + done.stdout[-3000:]
    return printed


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Folders with the results of one worker and of two."""
    folder = tmp_path_factory.mktemp("workers")
    text = write_folder(folder / "text")
    one, two = folder / "one", folder / "two"
    one.mkdir(), two.mkdir()
    train.set_up("graph")
    compute(one, text, 0, 1)
    msrun(folder / "logs", Path(__file__).with_name("workers.py"), two, text)
    return one, two


def sgd(both, kind):
    found = [dict(np.load(folder / "sgd.npz")) for folder in both]
    assert found[0].keys() == found[1].keys()
    names = [name for name in found[0] if name.startswith(kind)]
    assert len(names) > 10
    return [[arrays[name] for name in names] for arrays in found]


def test_gradients(both):
    one, two = sgd(both, "gradient")
    largest = max(np.abs(g).max() for g in one)
    assert max(np.abs(a - b).max() for a, b in zip(one, two)) <= 1e-6 * largest


def test_weights_after_sgd(both):
    for a, b in zip(*sgd(both, "weight")):
        assert np.abs(a - b).max() <= 1e-5 * np.abs(a).max()


def test_losses_of_adamw(both):
    one, two = ([r["loss"] for r in runlog.read(folder / "run") if "loss" in r] for folder in both)
    assert len(one) == STEPS and one[-1] < one[0] - 1
    np.testing.assert_allclose(two, one, rtol=1e-4)


def test_only_one_worker_writes(both):
    """And what it writes, one process can use."""
    arrays, _, about = checkpoint.load(both[1] / "run")
    assert about["step"] == STEPS and len(arrays) > 10
    assert len(runlog.read(both[1] / "run")) == STEPS + 2
