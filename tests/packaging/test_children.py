"""Programs that tests start: they import the package under test, and end with their tests."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mindspore_nsa
from mindspore_nsa import _ascend_twin
from tests.common.children import python

from .conftest import ROOT

TEST = """
import subprocess, sys
import mindspore_nsa
def test_child(tmp_path):
    code = "import mindspore_nsa; print(mindspore_nsa.__file__)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == mindspore_nsa.__file__, done.stderr
    print("IT IS", mindspore_nsa.__file__)
"""


def test_they_import_what_the_tests_import(tmp_path):
    """From a folder that Python finds because the tests were started there."""
    (tmp_path / "tests").mkdir()
    for package in (mindspore_nsa, _ascend_twin.package()):
        folder = Path(package.__file__).parent
        (tmp_path / folder.name).symlink_to(folder)
    for name in ("conftest.py", "common"):
        (tmp_path / "tests" / name).symlink_to(ROOT / "tests" / name)
    (tmp_path / "tests" / "test_child.py").write_text(TEST)
    # Its folder is the first that this one looks in, and comes after installed ones elsewhere.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"IT IS {tmp_path / 'mindspore_nsa'}" in done.stdout


FORKS = """
import os, sys, time
child = os.fork()
if child:
    with open(sys.argv[1], "w") as file:
        file.write(str(child))
time.sleep(600)
"""


def test_they_end_with_what_they_started(tmp_path):
    file = tmp_path / "child"
    with pytest.raises(subprocess.TimeoutExpired):
        python(FORKS, file, timeout=5)
    stat = Path("/proc", file.read_text(), "stat")
    for _ in range(100):
        # Ended, it is a zombie until somebody asks for its exit code.
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX":
            return
        time.sleep(0.1)
    raise AssertionError("a program's child goes on")
