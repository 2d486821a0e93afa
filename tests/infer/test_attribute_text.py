"""The text of an attribute is copied into a buffer: all of it, and nothing before or behind."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBE = ROOT / "tests" / "infer" / "attribute_probe.cc"


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    program = tmp_path_factory.mktemp("attribute") / "probe"
    compiler = os.environ.get("CXX", "g++")
    options = ["-std=c++17", "-O0", f"-I{ROOT}"]
    subprocess.run([compiler, *options, PROBE, "-o", program], check=True)
    return program


@pytest.mark.parametrize(
    "letters, capacity, expected",
    [
        (0, 9, "................"),
        (3, 9, "abc............."),
        (9, 9, "abcdefghi......."),
        (10, 9, "abcdefghi......."),
        (12, 0, "................"),
    ],
)
def test_a_buffer_takes_what_it_has_room_for(probe, letters, capacity, expected):
    """The length is that of the whole text, so a caller knows that its buffer is too small."""
    done = subprocess.run([probe, str(letters), str(capacity)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{letters} {expected}")
