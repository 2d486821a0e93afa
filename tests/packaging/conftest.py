"""The wheels under test, built once."""

import contextlib
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "wheel"


def operators_example():
    """The last program of docs/nsa.md: the operators by themselves, with their gradients."""
    page = (ROOT / "docs" / "nsa.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[-1]


@contextlib.contextmanager
def alone():
    """setuptools builds in the source tree, where two processes of the tests would meet."""
    lock = ROOT / "build" / ".packaging.lock"
    lock.parent.mkdir(exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def built(tmp_path_factory, source, name, **environment):
    """Path of the wheel of the package in the folder `source`, built once for all workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the other workers' too
    folder /= name
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    with alone():
        if not list(folder.glob("*.whl")):
            done = subprocess.run(
                [*command, "--quiet", "--wheel-dir", str(folder), str(source)],
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Path of a wheel of mindspore_nsa; its CMake folder is BUILD."""
    return built(tmp_path_factory, ROOT, "wheel", NSA_BUILD_DIR=str(BUILD))


@pytest.fixture(scope="session")
def twin_wheel(wheel, tmp_path_factory):
    """Path of a wheel of ascendc_twin, from what was compiled for the other."""
    variable = {"ASCENDC_TWIN_BUILD_DIR": str(BUILD)}
    return built(tmp_path_factory, ROOT / "twin", "twin_wheel", **variable)


def install(folder, *wheels):
    """Make a folder hold nothing but the installed wheels."""
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", folder]
    subprocess.run([*command, *wheels], check=True)
    return folder


@pytest.fixture(scope="session")
def installed(wheel, twin_wheel, tmp_path_factory):
    """A folder that holds nothing but the installed wheels."""
    return install(tmp_path_factory.mktemp("site"), wheel, twin_wheel)
