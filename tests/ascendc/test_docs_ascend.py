"""The program of docs/ascend.md builds, runs and fails as the page says."""

import re

import pytest

from tests.twin.builds import ROOT
from tests.twin.host.programs import flags

from .shell import shell

PAGE = (ROOT / "docs" / "ascend.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
KERNEL, MAIN = (text for kind, text in BLOCKS if kind == "cpp")
OUTPUT, ERROR, *_ = (text for kind, text in BLOCKS if kind == "text")


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
        done = program(KERNEL, MINDSPORE_NSA_TWIN_SEED=str(seed))
        assert (done.returncode, done.stdout) == (0, OUTPUT)


def test_the_error_is_the_one_of_the_page(program):
    without = KERNEL
    for line in ("  in.EnQue(a);\n", "  a = in.DeQue<float>();\n"):
        assert without.count(line) == 1
        without = without.replace(line, "")
    done = program(without)
    assert done.returncode == 1
    assert " ".join(ERROR.split()) in " ".join((done.stdout + done.stderr).split())
