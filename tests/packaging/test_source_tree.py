"""A program in the source folder sees the sources and not the installed package: it is told so."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mindspore_nsa
from mindspore_nsa import _ascend_twin

from .conftest import ROOT

PROGRAMS = {
    "operator": ["program.py", "import mindspore_nsa\nmindspore_nsa.nsa_compress"],
    "show_config": ["program.py", "import mindspore_nsa\nmindspore_nsa.show_config()"],
    "module": ["-m", "mindspore_nsa"],
    "cflags": ["-m", "mindspore_nsa.twin", "--cflags"],
    "libs": ["-m", "mindspore_nsa.twin", "--libs"],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The source folder as it is cloned, without anything built."""
    folder = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("*.so", "include", "__pycache__")
    package = Path(mindspore_nsa.__file__).parent
    shutil.copytree(package, folder / "mindspore_nsa", ignore=ignored)
    twin = Path(_ascend_twin.package().__file__).parent
    shutil.copytree(twin, folder / "twin" / "ascendc_twin", ignore=ignored)
    for name in ("setup.py", "CMakeLists.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def _run(source, arguments):
    if arguments[0] == "program.py":
        (source / "program.py").write_text(arguments[1])
        arguments = ["program.py"]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONSAFEPATH")
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=source, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_message(source, name):
    done = _run(source, PROGRAMS[name])
    assert done.returncode == 1 and done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert f"has not been built in {source}, the source folder of mindspore_nsa" in last
    assert "run the program from another folder, or build in place with 'make build'" in last
    if name in ("module", "cflags", "libs"):
        assert "Traceback" not in done.stderr


def test_elsewhere(source, tmp_path):
    """A package without its libraries that is no source folder is told to build them."""
    shutil.copytree(source / "mindspore_nsa", tmp_path / "mindspore_nsa")
    done = _run(tmp_path, PROGRAMS["module"])
    assert done.returncode == 1
    assert done.stderr == (
        "the native library of mindspore_nsa is missing; build it with 'pip install .' or "
        "'make build'\n"
    )
