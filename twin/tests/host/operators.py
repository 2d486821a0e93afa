"""Operators of a test's own: what a project adds to the twin, built as the project's are."""

import subprocess

import ascendc_twin

from ..builds import ROOT

HERE = ROOT / "twin" / "tests" / "host" / "operator"
MAIN = ROOT / "twin" / "host" / "opbuild_main.cc"


def compile_with_twin(*arguments):
    """Run the compiler with the flags of the twin."""
    command = ["g++", "-std=c++17", "-O1", "-fPIC", *ascendc_twin.cflags(), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def generate(folder, *sources, options=()):
    """A finished run of the generator for the operators of these sources."""
    compile_with_twin(*sources, MAIN, "-o", folder / "opbuild", *ascendc_twin.libs())
    command = [folder / "opbuild", folder / "out", f"{HERE}/", *options]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def library(folder, name, *sources):
    """Path of a library of these sources with what the generator made of them in `folder`."""
    out, target = folder / "out", folder / f"lib{name}.so"
    generated = sorted(out.glob("*.cc"))
    compile_with_twin(
        *(
            "-shared",
            f"-I{out}",
            f"-I{out / 'include'}",
            *sources,
            *generated,
            "-o",
            target,
            *ascendc_twin.libs(),
        )
    )
    return target
