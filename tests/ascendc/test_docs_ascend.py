"""The program of docs/ascend.md builds, runs and fails as the page says."""

import re
import shlex
import shutil
import sys

import pytest

from tests.ascendc.programs import EXAMPLES, PACKAGE, flags
from twin.tests.builds import ROOT

from .shell import shell

PAGE = (ROOT / "docs" / "ascend.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
KERNEL, MAIN = (text for kind, text in BLOCKS if kind == "cpp")
OUTPUT, ERROR, *_ = (text for kind, text in BLOCKS if kind == "text")
HALVES = PAGE[PAGE.index("### Two halves") :]
HALVES_COMMANDS, HALVES_OUTPUT = re.findall(
    r"^```(?:sh|text)\n(.*?)^```$", HALVES, re.DOTALL | re.M
)[:2]


@pytest.fixture
def program(tmp_path):
    """Builds the page's program with this kernel; returns what it printed and its status."""

    def build_and_run(kernel, **environment):
        (tmp_path / "scale.cpp").write_text(kernel)
        (tmp_path / "main.cpp").write_text(MAIN)
        command = ["g++", "-std=c++17", "-g", "main.cpp", *flags("--cflags", "--libs")]
        built = shell([*command, "-o", "scale"], tmp_path)
        assert built.returncode == 0, built.stderr
        return shell([tmp_path / "scale"], tmp_path, **environment)

    return build_and_run


def test_the_program_prints_what_the_page_says(program):
    for seed in range(3):
        done = program(KERNEL, ASCENDC_TWIN_SEED=str(seed))
        assert (done.returncode, done.stdout) == (0, OUTPUT)


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
    for source in (EXAMPLES / "two_halves").iterdir():
        shutil.copy(source, folder)
    commands = HALVES_COMMANDS.replace("$(python ", f"$({shlex.quote(sys.executable)} ")

    def run():
        return shell(["bash", "-ec", commands], folder, PYTHONPATH=PACKAGE)

    return folder, run


def test_two_halves(halves):
    done = halves[1]()
    assert (done.returncode, done.stdout) == (0, HALVES_OUTPUT), done.stderr


def test_two_halves_without_a_wait(halves):
    """The vector cores read the product before it is there."""
    folder, run = halves
    header = folder / "scaled_product.h"
    text = header.read_text()
    wait = "      AscendC::CrossCoreWaitFlag(product_ready);\n"
    assert text.count(wait) == 1
    header.write_text(text.replace(wait, ""))
    done = run()
    header.write_text(text)
    assert done.returncode == 1
    assert "hazard, read after write" in done.stderr or "uninitialised read" in done.stderr
