"""Compiles and runs C++ programs as a user of the package does."""

import os
import subprocess
import sys
from pathlib import Path

import mindspore_nsa

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "ascendc" / "examples"
# The package under test, wherever it is installed.
PACKAGE = str(Path(mindspore_nsa.__file__).parents[1])


def python(*arguments):
    """A finished Python process that finds the package under test."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": PACKAGE},
        cwd="/",
        capture_output=True,
        text=True,
    )


def flags(*options):
    """Output of `python -m mindspore_nsa.twin`, which must be one line."""
    done = python("-m", "mindspore_nsa.twin", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return done.stdout.split()


def build(source, folder, *options):
    """The program of one source file, by the documented command."""
    program = folder / Path(source).stem
    command = ["g++", "-std=c++17", *options, source, *flags("--cflags", "--libs"), "-o", program]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def run(program, **environment):
    """Standard output of a program that succeeds."""
    done = subprocess.run(
        [str(program)], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout
