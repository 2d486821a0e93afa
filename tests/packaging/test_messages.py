"""A machine that cannot build or run the package is told why in one sentence."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mindspore_nsa

from .conftest import ROOT

PACKAGE = str(Path(mindspore_nsa.__file__).parents[1])

OTHER_PYTHON = """
import sys
sys.version_info = (3, 13, 1, "final", 0)
sys.version = "3.13.1 (main)"
exec(open("setup.py").read())
"""


def test_unsupported_python():
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PYTHON], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("mindspore_nsa needs Python 3.10, 3.11 or 3.12")
    assert "got 3.13.1" in done.stderr and "Traceback" not in done.stderr


BUILD = """
import setuptools, sys, sysconfig
given = {}
setuptools.setup = lambda **arguments: given.update(arguments)
__file__ = "setup.py"
exec(open("setup.py").read())
if "headers" in sys.argv:
    sysconfig.get_path = lambda name: "/nowhere"
given["cmdclass"]["build_ext"](setuptools.Distribution()).build_extension(None)
"""


@pytest.mark.parametrize("absent, package", [("compiler", "g++"), ("headers", "python3-dev")])
def test_building_without(absent, package, tmp_path):
    """`pip install .` names the Debian package that is missing."""
    path = str(tmp_path) if absent == "compiler" else os.environ["PATH"]
    environment = {name: value for name, value in os.environ.items() if name != "CXX"}
    done = subprocess.run(
        [sys.executable, "-c", BUILD, absent],
        cwd=ROOT,
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith(f"apt-get install {package}"), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("absent", [("pybind11",), ("cmake", "ninja"), ("setuptools", "cmake")])
def test_make_build_without(absent, tmp_path):
    """`make build PYTHON=...` names all the packages that the environment lacks, and nothing else.

    An environment of links to this one's packages and commands, less those that are absent.
    """
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    parts = {"setuptools": ("setuptools", "_distutils_hack"), "pybind11": ("pybind11",)}
    for part in (part for package in parts if package not in absent for part in parts[package]):
        origin = Path(importlib.util.find_spec(part).origin).parent
        Path(site.stdout.strip(), part).symlink_to(origin)
    commands = tmp_path / "commands"
    commands.mkdir()
    for command in ("bash", "mkdir", "flock", "make", "g++"):
        (commands / command).symlink_to(shutil.which(command))
    for command in {"cmake", "ninja"} - set(absent):
        (python.parent / command).write_text("#!/bin/sh\n")
    done = subprocess.run(
        ["make", "-s", "build", f"PYTHON={python}"],
        cwd=ROOT,
        env={"PATH": str(commands)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    first, *rest = done.stderr.strip().splitlines()
    assert first == (
        f"building mindspore_nsa needs {', '.join(absent)}: "
        f"{python} -m pip install {' '.join(absent)}"
    )
    assert all(line.startswith("make") for line in rest), done.stderr


def test_numpy_2(tmp_path):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text('__version__ = "2.1.0"\n')
    done = subprocess.run(
        [sys.executable, "-c", "import mindspore_nsa.ops"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), PACKAGE])},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "numpy<2" in last and "2.1.0" in last, done.stderr


COMMANDS = {"g++": "g++", "make": "make", "git": "git"}


@pytest.mark.parametrize("absent", [(), ("g++",), ("make", "git")])
def test_prerequisites(absent, tmp_path):
    for command in ("bash", *COMMANDS):
        if command not in absent:
            (tmp_path / command).symlink_to(shutil.which(command))
    done = subprocess.run(
        [shutil.which("bash"), ROOT / "tools" / "check_prerequisites.sh", sys.executable],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    packages = " ".join(COMMANDS[name] for name in absent)
    expected = f"missing: {packages}; install with: apt-get install {packages}\n" if absent else ""
    assert done.stderr == expected
    assert (done.returncode == 0) == (not absent)


def test_prerequisites_of_python(tmp_path):
    """A Python without headers and venv: the packages that bring them are named."""
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\n[ "$1" != -c ]\n')
    fake.chmod(0o755)
    done = subprocess.run(
        [ROOT / "tools" / "check_prerequisites.sh", fake], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "apt-get install python3-venv python3-dev" in done.stderr
