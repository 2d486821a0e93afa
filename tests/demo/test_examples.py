"""The scripts of examples/ run, and print what they are there to show."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"
MOST_LINES = 40


@pytest.fixture
def printed(capfd):
    """A function that runs an example in this process and returns what it printed."""

    def run(name):
        capfd.readouterr()
        try:
            runpy.run_path(str(FOLDER / name))
        finally:
            ms.set_context(mode=ms.PYNATIVE_MODE)
        return capfd.readouterr().out

    return run


def numbers(pattern, text):
    return [float(found) for found in re.findall(pattern, text)]


def test_they_are_short_and_listed():
    page = (FOLDER / "README.md").read_text()
    files = [path for path in FOLDER.iterdir() if path.suffix in (".py", ".cpp")]
    assert len(files) == 16
    for path in files:
        assert path.read_text().count("\n") <= MOST_LINES, path
        assert f"]({path.name})" in page, path


@pytest.mark.parametrize("name", ["train_gpt", "mixed_precision", "two_workers"])
def test_training(printed, name):
    losses = numbers(r"loss (\S+?),?\s", printed(f"{name}.py"))
    assert len(losses) >= 4 and losses[-1] < losses[0]


def test_dsa(printed):
    text = printed("dsa.py")
    for stage in ("warm_up", "sparse"):
        losses = numbers(rf"{stage} \d+ loss (\S+)", text)
        assert len(losses) == 15 and losses[-1] < losses[0]


def test_convert_dense(printed):
    known, beyond, loaded = numbers(r": (\S+)\n", printed("convert_dense.py"))
    assert known < 1e-5 < 1e-3 < beyond and loaded == 0


def test_generate(printed):
    text = printed("generate.py")
    assert "tokens of the rows: [29 15 38]" in text
    assert [len(row.split(",")) for row in re.findall(r"\[(.*,.*)\]", text)] == [8, 8, 8]


def test_packed_documents(printed):
    text = printed("packed_documents.py")
    assert numbers(r"alone: (\S+)", text)[0] < 1e-5 and "8 gradients" in text


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_compare_torch(printed):
    differences = numbers(r": (\S+)\n", printed("compare_torch.py"))
    assert len(differences) == 4 and max(differences) < 1e-4


def _child(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd="/",
        env={**os.environ, "GLOG_v": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def test_profiler():
    """In a process of its own: it leaves MindSpore's profiler on."""
    rows = re.findall(r"^(\w+): \S+ ms, \d+$", _child(FOLDER / "profiler.py"), re.MULTILINE)
    assert len(rows) == 5


def test_own_kernel():
    assert "1 0 255" in _child("-m", "ascendc_twin", "run", FOLDER / "own_kernel.cpp")
