"""Which way the twin's includes point."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The sources of a room may include these of the others.
BELOW = {
    "clock": (),
    "device": ("clock",),
    "vector": ("device",),
    "cube": ("device", "vector"),
    "adv": ("device", "vector"),
    "host": ("clock", "device", "vector", "cube", "adv"),
    "cann": ("host",),
}


@pytest.mark.parametrize("room", BELOW)
def test_includes_point_down(room):
    files = [path for path in (ROOT / "twin" / room).rglob("*") if path.suffix in (".cc", ".h")]
    assert files
    for path in files:
        for other in re.findall(r'#include "twin/(\w+)/', path.read_text()):
            assert other == room or other in BELOW[room], f"{path.name} includes from {other}"


def test_nothing_outside_is_included():
    """Headers of CANN and of the system, and files of the twin by their path."""
    outside = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"twin"}
    for room in (*BELOW, "include"):
        for path in (ROOT / "twin" / room).rglob("*.[ch]*"):
            for first in re.findall(r'#include "(\w+)/', path.read_text()):
                # CANN has a folder of headers of the same name as that of the kernels here.
                assert first not in outside - {"ascendc"}, path
            assert not re.search(r'#include "ascendc/(?!host_api/)', path.read_text()), path
