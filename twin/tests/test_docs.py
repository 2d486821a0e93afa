"""The programs and commands of docs/: they build, run and fail as the pages say."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from .builds import ROOT
from .programs import PACKAGE

TWIN = ROOT / "twin"


def blocks(page, *kinds):
    """Texts of the page's blocks of these kinds."""
    pattern = rf"^```(?:{'|'.join(kinds)})\n(.*?)^```$"
    return re.findall(pattern, (TWIN / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)


def shell(commands, folder, **environment):
    """A finished run of a page's commands, with the package under test."""
    text = re.sub(r"\bpython -m", f"{shlex.quote(sys.executable)} -m", commands)
    return subprocess.run(
        ["bash", "-ec", text],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PACKAGE, **environment},
        capture_output=True,
        text=True,
    )


KERNEL, MAIN = blocks("kernels.md", "cpp")
COMMAND = blocks("kernels.md", "sh")[0]
OUTPUT, ERROR = blocks("kernels.md", "text")


@pytest.fixture
def program(tmp_path):
    """Builds and runs the page's program with this kernel."""

    def build_and_run(kernel, **environment):
        (tmp_path / "scale.cpp").write_text(kernel)
        (tmp_path / "main.cpp").write_text(MAIN)
        return shell(COMMAND, tmp_path, **environment)

    return build_and_run


def test_the_program_prints_what_the_page_says(program):
    done = program(KERNEL)
    assert (done.returncode, done.stdout) == (0, OUTPUT), done.stderr


def test_the_error_is_the_one_of_the_page(program):
    without = KERNEL
    for line in ("  in.EnQue(a);\n", "  a = in.DeQue<float>();\n"):
        assert without.count(line) == 1
        without = without.replace(line, "")
    done = program(without)
    assert done.returncode == 1
    assert " ".join(ERROR.split()) in " ".join((done.stdout + done.stderr).split())


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """The folder of the example with two halves, and what runs the page's commands in it."""
    folder = tmp_path_factory.mktemp("two_halves")
    for source in (TWIN / "examples" / "two_halves").iterdir():
        shutil.copy(source, folder)
    commands, output = blocks("kernels_of_others.md", "sh", "text")[:2]
    return folder, output, lambda: shell(commands, folder)


def test_two_halves(halves):
    done = halves[2]()
    assert (done.returncode, done.stdout) == (0, halves[1]), done.stderr


def test_two_halves_without_a_wait(halves):
    """The vector cores read the product before it is there."""
    folder, _, run = halves
    header = folder / "scaled_product.h"
    text = header.read_text()
    wait = "      AscendC::CrossCoreWaitFlag(product_ready);\n"
    assert text.count(wait) == 1
    header.write_text(text.replace(wait, ""))
    done = run()
    header.write_text(text)
    assert done.returncode == 1
    assert "hazard, read after write" in done.stderr or "uninitialised read" in done.stderr


def test_an_operator_of_ones_own(tmp_path):
    """The page's commands make a library with the operator's functions."""
    shutil.copytree(TWIN / "tests" / "host" / "operator" / "scale_add", tmp_path / "scale_add")
    (commands,) = blocks("operators.md", "sh")
    done = shell(commands, tmp_path)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", "libscale_add.so"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"aclnnScaleAdd", "aclnnScaleAddGetWorkspaceSize"} <= set(listed.stdout.split())
