"""ruff and clang-format are clean."""

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT


def listed(*patterns):
    """Files under version control."""
    done = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.split("\n") if name and (ROOT / name).exists()]


CHECKS = {
    "ruff check": lambda: ["ruff", "check", "--no-cache", *listed("*.py")],
    "ruff format": lambda: ["ruff", "format", "--no-cache", "--check", *listed("*.py")],
    "clang-format": lambda: [
        "clang-format",
        "--dry-run",
        "-Werror",
        *listed("*.cc", "*.cpp", "*.h"),
    ],
}


@pytest.mark.parametrize("check", CHECKS)
def test_clean(check):
    program, *arguments = CHECKS[check]()
    # The version of the test extras, not one that happens to be on PATH.
    program = Path(sys.executable).with_name(program)
    done = subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
