"""The preconditions of the kernels' loops are checked in the builds with sanitizers, and only
there."""

import os
import re
import signal
import subprocess

import pytest

from .builds import ROOT

PROBE = ROOT / "tests" / "native" / "precondition_probe.cc"


@pytest.mark.parametrize("checked", [True, False])
def test_broken_precondition(checked, tmp_path):
    program = tmp_path / "probe"
    flag = ["-DNSA_CHECK_PRECONDITIONS"] if checked else []
    compiler = os.environ.get("CXX", "g++")
    subprocess.run([compiler, "-std=c++17", *flag, f"-I{ROOT}", PROBE, "-o", program], check=True)
    assert subprocess.run([program, "48"]).returncode == 0
    broken = subprocess.run([program, "47"], capture_output=True, text=True)
    assert broken.returncode == (-signal.SIGABRT if checked else 0)
    assert ("kLanePad" in broken.stderr) == checked


def test_sanitizers_check():
    """The definition stands in the branch of the flags that sanitizers take."""
    flags = (ROOT / "cmake" / "flags.cmake").read_text()
    branch = re.search(r"if\(NSA_SANITIZE\)(.*?)endif\(\)", flags, re.DOTALL).group(1)
    assert "NSA_CHECK_PRECONDITIONS" in branch
    assert flags.count("NSA_CHECK_PRECONDITIONS") == 1
