"""Several workers train as one does, and each goes on from the checkpoints of the others."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from model_zoo_demo import checkpoint, runlog, train

from .runs import ROOT, environment, write_folder
from .workers import BEGUN, STEPS, StoppedStep, run


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def msrun(logs, workers, *command):
    """Returns what workers of a command print; they must end with 0."""
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"  # msrun calls "python"
    done = subprocess.run(
        [
            *(programs / "msrun", f"--worker_num={workers}", f"--local_worker_num={workers}"),
            *(f"--master_port={free_port()}", f"--log_dir={logs}", "--cluster_time_out=120"),
            *("--join=True", *map(str, command)),
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


def trained(folder, workers, kinds):
    """Do everything that the tests look at in a folder."""
    text = write_folder(folder / "text")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "Step", StoppedStep)
        patch.setattr(train, "finish", lambda *_: None)
        assert run(folder / "one", text, "pynative") == train.INTERRUPTED
        for kind in kinds:
            shutil.copytree(folder / "one", folder / f"{kind} on")
        program = Path(__file__).with_name("workers.py")
        msrun(folder / "logs", workers, program, folder, text, *kinds)
        for kind in kinds:
            shutil.copytree(folder / kind, folder / f"{kind} alone")
        for name in ("one", *(f"{kind} alone" for kind in kinds)):
            assert run(folder / name, text, "pynative", "--resume") == 0
    return folder


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("two"), 2, ("rows", "context", "tensor"))


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("four"), 4, ("context", "grid"))


def records(folder, key):
    return [r[key] for r in runlog.read(folder) if key in r]


def check(folder, kind):
    """Losses and norms of all steps, whoever did them; moments and weights in the checkpoint."""
    one, last = folder / "one", checkpoint.load(folder / "one")[0]
    assert len(records(one, "loss")) == STEPS
    for name in (kind, f"{kind} on", f"{kind} alone"):
        steps = BEGUN if name == kind else STEPS
        for key in ("loss", "norm"):
            np.testing.assert_allclose(
                records(folder / name, key), records(one, key)[:steps], rtol=2e-6, err_msg=name
            )
        seen = records(one, "validation")[: 1 + steps // BEGUN]
        seen = seen[: len(records(folder / name, "validation"))]
        np.testing.assert_allclose(records(folder / name, "validation"), seen, rtol=1e-5)
        arrays, _, about = checkpoint.load(folder / name)
        assert about["step"] == steps and arrays.keys() == last.keys()
        for parameter, array in arrays.items() if steps == STEPS else ():
            # The steps of AdamW do not shrink with the gradient: where that is 0 but for rounding,
            # weights are as far apart as the rate says.
            limit = 1e-5 if parameter.startswith("adamw") else 1e-3
            assert np.abs(array - last[parameter]).max() <= limit * np.abs(last[parameter]).max()


@pytest.mark.parametrize("kind", ["rows", "context", "tensor"])
def test_two_workers(two, kind):
    check(two, kind)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["context", "grid"])
def test_four_workers(four, kind):
    """Half of the rows each or half of the heads, and in both cases half of the text."""
    check(four, kind)


def test_only_one_worker_writes(two):
    """The log, and the plots and the sample at the end."""
    names = {path.name for path in (two / "tensor on").iterdir()}
    assert names >= {checkpoint.NAME, runlog.NAME, "loss.png", "sample.txt"}
    assert not any(name.startswith("tmp-") for name in names)
    assert [r["step"] for r in runlog.read(two / "rows") if "loss" in r] == list(range(BEGUN))
