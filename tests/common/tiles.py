"""Sizes of tiles, by the names that the sources give them: tests have lengths at their ends."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NUMBER = r"constexpr \w+ {name} = (\d+);"


def tile(name, header="cpu/engine/plan/attention_plan.h"):
    """A constant of a header."""
    found = re.search(_NUMBER.format(name=name), (ROOT / header).read_text())
    assert found, f"{header} has no constant {name}"
    return int(found[1])


def around(size, times=1):
    """One less than so many tiles, as many, and one more."""
    return [times * size - 1, times * size, times * size + 1]
