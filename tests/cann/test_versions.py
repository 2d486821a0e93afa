"""Another MindSpore on device Ascend, and its runs without a device ("DryRun")."""

import pickle
import subprocess
import sys

import pytest

from mindspore_nsa import _native
from tests.packaging.conftest import twin_wheel, wheel  # noqa: F401

from .judge import ROOT, differences, inputs_of, run
from .test_check import judge_check
from .test_layers import judge_layers
from .test_operators import BACKWARD, FORWARD

pytestmark = pytest.mark.soak

OTHER = "2.9.0"  # the oldest that can pass strings


@pytest.fixture(scope="module")
def python(wheel, twin_wheel):  # noqa: F811
    """A Python with that MindSpore and the wheels."""
    folder = ROOT / f".venv-ms{OTHER.replace('.', '')}"
    if not (folder / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"mindspore=={OTHER}", "pytest", wheel, twin_wheel], check=True)
    subprocess.run([*install, "--no-deps", "--force-reinstall", wheel, twin_wheel], check=True)
    return python


@pytest.mark.parametrize("options", [(), ("--graph",)], ids=("pynative", "graph"))
def test_operators(python, options, tmp_path):
    """Against the references."""
    program = ("-m", "mindspore_nsa.check", "--device", "Ascend", *options)
    done = run(*program, folder=tmp_path, python=python)
    judge_check(done)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_layers(python, mode, tmp_path, monkeypatch):
    program = ("-m", "tests.cann.worker", "layers", mode, tmp_path / "results")
    done = run(*program, folder=tmp_path, python=python)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    judge_layers(mode, pickle.loads((tmp_path / "results").read_bytes()), monkeypatch)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("level", [1, 3])
def test_dry_run(level, mode, tmp_path):
    """Level 1 infers and chooses kernels, level 3 runs them."""
    cases = [f"{op}:0:2" for op in FORWARD + BACKWARD]
    program = ("-m", "tests.cann.worker", "operators", mode, tmp_path / "results", *cases)
    environment = {"MS_SIMULATION_LEVEL": str(level), "GLOG_v": "2"}
    done = run(*program, folder=tmp_path, **environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    # The warning of a kernel that MindSpore does not find.
    assert "Can not find custom" not in done.stdout + done.stderr
    if level == 3:
        assert differences(tmp_path / "results")[2] == []
        return
    results = pickle.loads((tmp_path / "results").read_bytes())
    assert len(results) == 2 * len(cases)
    for label, case, ours in results:
        assert not isinstance(ours, str), f"{label}: {ours}"
        theirs = _native.run(case.op, inputs_of(case), case.attrs, target="ascend_twin")
        for pair in zip(ours, theirs, strict=True):
            a, b = (x[1] if isinstance(x, tuple) else x for x in pair)
            assert (a.shape, a.dtype) == (b.shape, b.dtype), label
