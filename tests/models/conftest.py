"""Small layers of every architecture, and what transformers gives for random cases."""

import fcntl
import hashlib
import inspect
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mindspore_nsa
from mindspore_nsa.models import _cases, _oracle
from tests.integrations.environments import ROOT, python_of
from tests.ops.conftest import pynative_mode, scratch_directory  # noqa: F401

CASES = 6


@pytest.fixture(scope="session")
def oracle():
    """A function of architecture and seed: what transformers' attention gives for the case."""
    python = python_of("transformers-5.24.0")
    sources = inspect.getsource(_cases) + inspect.getsource(_oracle) + str(CASES)
    made_of = hashlib.sha256(sources.encode()).hexdigest()[:16]
    folder = ROOT / "build" / "integrations" / f"oracle-{made_of}"
    folder.mkdir(parents=True, exist_ok=True)
    ready = folder / "ready"
    with open(folder / ".lock", "w") as lock:
        # The processes of the tests meet here; the first one computes for all.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            paths = os.pathsep.join([str(Path(mindspore_nsa.__file__).parents[1])])
            command = [python, "-m", "mindspore_nsa.models._oracle", folder, "--cases", str(CASES)]
            env = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                list(map(str, command)), env=env, capture_output=True, text=True, timeout=600
            )
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
            ready.touch()

    def found(architecture, seed):
        with np.load(folder / f"{architecture}-{seed}.npz") as arrays:
            return dict(arrays)

    return found
