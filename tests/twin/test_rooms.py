"""Which way the twin's includes point, and what counts as an operator."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the sources of a room may include of the others.
BELOW = {
    "clock": (),
    "device": ("clock",),
    "vector": ("device",),
    "cube": ("device", "vector"),
    "adv": ("device", "vector"),
    "host": ("clock", "device", "vector", "cube", "adv"),
    "cann": ("host",),
    "built_in": ("host",),
}


@pytest.mark.parametrize("room", BELOW)
def test_includes_point_down(room):
    files = [path for path in (ROOT / "twin" / room).rglob("*") if path.suffix in (".cc", ".h")]
    assert files
    for path in files:
        for other in re.findall(r'#include "twin/(\w+)/', path.read_text()):
            assert other == room or other in BELOW[room], f"{path.name} includes from {other}"


def test_the_twin_includes_no_operator():
    for path in (ROOT / "twin").rglob("*.[ch]*"):
        assert not re.search(r'#include "(ascendc|infer|cpu|binding)/', path.read_text()), path


def test_operators_are_the_folders_with_a_kernel():
    """The files of their host side and of their kernel are named after them."""
    operators = {path.parent for path in (ROOT / "ascendc").glob("*/op_kernel")}
    assert operators
    for folder in operators:
        assert (folder / "op_kernel" / f"{folder.name}.cpp").exists()
        assert (folder / "op_host" / f"{folder.name}.cpp").exists()
    definitions = {
        path.parents[1]
        for path in (ROOT / "ascendc").rglob("*.cpp")
        if re.search(r"^OP_ADD\(", path.read_text(), re.MULTILINE)
    }
    assert definitions == operators
