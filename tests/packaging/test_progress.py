"""A run of several folders prints where it is."""

import re
import subprocess
import sys

import pytest

from .conftest import ROOT

FILES = ["tests/infer/test_dropout_mask.py", "tests/reference/test_dropout.py"]


def _lines(*arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("processes", [[], ["-n", "2", "--dist", "loadscope"]], ids=["1", "2"])
def test_folders_are_named(processes):
    lines = _lines(*processes, *FILES)
    first = next(line for line in lines if " tests in 2 folders" in line)
    assert "some thirty minutes on two processors" in first
    for folder in ("tests/infer", "tests/reference"):
        begun, done = (line for line in lines if line.startswith(f"{folder}: "))
        assert re.fullmatch(rf"{folder}: [1-9]\d* tests", begun)
        assert re.fullmatch(rf"{folder}: done after \d+ s", done)
        row = re.compile(rf" *\d+\.\d s +\d+\.\d%  {folder} \([1-9]\d* tests\)")
        assert sum(bool(row.fullmatch(line)) for line in lines) == 1
    assert re.match(r"\d+ passed in ", lines[-1])


def test_one_folder_prints_nothing():
    assert not [line for line in _lines(FILES[0]) if "tests/infer" in line or "by folder" in line]
