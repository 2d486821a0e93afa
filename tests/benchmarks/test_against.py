"""Cases with the kernels of another commit, here those of this tree a second time."""

import shutil
import subprocess
from pathlib import Path

import pytest

import mindspore_nsa
from benchmarks import against, registry

PACKAGE = Path(mindspore_nsa.__file__).parent
NAMES = ("compress_float32_backward", "selected_float32_forward")


def test_the_same_kernels_take_as_long():
    printed = []
    cases = registry.select(NAMES)
    found = against.run(cases, PACKAGE.parent, quick=True, say=printed.append)
    assert [*found] == [case.name for case in cases] and len(printed) == 1 + len(NAMES)
    # The machine may do other things beside; a wrong unit would show.
    assert all(0.2 < ratio < 5 for ratio in found.values())


def test_which_library_is_called(tmp_path):
    """The one of the folder; a folder without one is an error."""
    shutil.copytree(PACKAGE, tmp_path / "mindspore_nsa", ignore=shutil.ignore_patterns("twin"))
    copy = against.Library(tmp_path)
    copy.close()
    with pytest.raises(AssertionError, match="no library in"):
        against.Library(tmp_path / "nothing")


def test_a_slower_library_has_a_ratio_above_one(tmp_path):
    class Timed:
        def __init__(self, seconds):
            self.each = seconds

        def seconds(self, path, threads, count):
            return self.each

    ours, theirs, ratio = against.paired(Timed(0.3), Timed(0.2), tmp_path, 1, 4)
    assert (ours, theirs) == (0.3, 0.2) and ratio == pytest.approx(1.5)


def test_a_commit_that_is_not_there():
    if subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=against.ROOT, capture_output=True
    ).returncode:
        pytest.skip("not a clone")
    with pytest.raises(ValueError, match="--against nothing-of-that-name: "):
        against.built("nothing-of-that-name")
