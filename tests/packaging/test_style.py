"""ruff and clang-format are clean, and comments begin like sentences."""

import collections
import re
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


# A comment that begins so lacks a subject or a verb: it has to say what or why.
FRAGMENT = re.compile(r'("""|# |// |/// )(What|The same|As|Of|Those|That) ')
# How many such lines a folder may still have; all others have none. Lower a number with its folder.
ALLOWED = {
    "tests/cann": 12,
    "twin": 187,
}


def folder(name):
    """The folder of a file; tests count by their own folders."""
    parts = Path(name).parts
    return "/".join(parts[: 2 if parts[0] == "tests" else 1])


def test_comments_are_sentences():
    counts = collections.Counter()
    for name in listed("*.py", "*.cc", "*.cpp", "*.h", "*.cmake", "*.sh", "Makefile"):
        if name == Path(__file__).relative_to(ROOT).as_posix():
            continue
        lines = (ROOT / name).read_text().splitlines()
        counts[folder(name)] += sum(FRAGMENT.search(line) is not None for line in lines)
    assert {name: n for name, n in counts.items() if n > ALLOWED.get(name, 0)} == {}
