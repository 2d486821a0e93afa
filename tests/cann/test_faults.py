"""A wrong call shows on MindSpore's device Ascend; a trap says what was asked for."""

import json

from ascendc_twin import _elf

from .judge import run

FAULTS = (
    "absent tensors",
    "views",
    "order of arguments",
    "an optional input shifted",
    "order of outputs",
    "a tensor freed before its call",
    "a tensor freed after its call",
)


def test_planted_faults(tmp_path):
    """Calls that the plugin does not prepare for MindSpore, swaps, and memory that is gone."""
    program = ("-m", "tests.cann.faults", tmp_path / "found", "no fault", *FAULTS)
    done = run(*program, folder=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads((tmp_path / "found").read_text())
    assert found.pop("no fault") == ""
    assert list(found) == list(FAULTS) and all(found.values()), found
    # By the operator, not by MindSpore's own check of types.
    shifted = found["an optional input shifted"]
    assert "dropMaskOptional must be of dtype uint8" in shifted, shifted
    assert "key was freed after the first phase" in found["a tensor freed before its call"]
    late = found["a tensor freed after its call"]
    assert "input was freed before the stream was waited for" in late


def test_one_registration(tmp_path):
    """MindSpore takes the second set of attributes for an operator of its own, and ends."""
    program = ("-m", "tests.cann.faults", tmp_path / "found", "one registration")
    done = run(*program, folder=tmp_path)
    if done.returncode == 0:
        assert json.loads((tmp_path / "found").read_text())["one registration"]
    else:
        assert "CheckFailed" in done.stderr and not (tmp_path / "found").exists()


def test_trap(tmp_path):
    """A library of traps ends the process with the text of the one that is called."""
    _elf.write_library(tmp_path / "libtraps.so", "libtraps.so", {"one": "asked for one", "two": ""})
    library = _elf.Library(tmp_path / "libtraps.so")
    assert library.names() == (set(), {"one", "two"}) and library.needed == []
    program = tmp_path / "program.py"
    program.write_text(f"import ctypes\nctypes.CDLL({str(tmp_path / 'libtraps.so')!r}).one()\n")
    done = run(program, folder=tmp_path)
    assert (done.returncode, done.stderr) == (1, "asked for one\n")
