"""The README's example runs, pages in two languages say the same, and what they name exists."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mindspore_nsa

from .conftest import ROOT, operators_example

ENGLISH = (ROOT / "README.md").read_text()
OPERATORS = (ROOT / "docs" / "operators.md").read_text()
MOST_LINES = 140


def blocks(text):
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def structure(text):
    """The text as the kinds of its lines: headings by depth, table rows by columns, list items."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    kinds = []
    for line in text.splitlines():
        if heading := re.match(r"#+", line):
            kinds.append(len(heading[0]))
        elif line.startswith("|"):
            kinds.append(f"{line.count('|')} |")
        elif line.startswith("* "):
            kinds.append("*")
    return kinds


def code_words(text):
    return sorted(set(re.findall(r"`([^`\n]+)`", text)))


def numbers(text):
    """The numbers of every row of a table, in whichever order a language has them."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [sorted(re.findall(r"\d+(?:[.,]\d+)*", row)) for row in rows]


CHINESE = [
    path.relative_to(ROOT) for path in (*ROOT.glob("*.zh-CN.md"), *ROOT.glob("docs/*.zh-CN.md"))
]


@pytest.mark.parametrize("page", [str(path).replace(".zh-CN", "") for path in CHINESE])
def test_languages_agree(page):
    """A page and its translation, which link to each other, differ in their prose alone."""
    english, chinese = ((ROOT / page).with_suffix(end).read_text() for end in (".md", ".zh-CN.md"))
    name = Path(page).stem
    assert f"]({name}.zh-CN.md)" in english[:200] and f"]({name}.md)" in chinese[:200]
    assert structure(english)
    assert numbers(english) == numbers(chinese)
    assert blocks(english) == blocks(chinese)
    assert structure(english) == structure(chinese)
    assert code_words(english) == code_words(chinese)


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_it_is_short(name):
    assert (ROOT / name).read_text().count("\n") <= MOST_LINES


def test_examples(tmp_path):
    """The layer comes first, within the first screen; docs/nsa.md ends with the operators."""
    parts = [body for language, body in blocks(ENGLISH) if language == "python"]
    assert ENGLISH[: ENGLISH.index("mindspore_nsa.nn")].count("\n") < 50
    operators = operators_example()
    assert len(parts) == 3 and all(len(part.splitlines()) <= 12 for part in parts)
    assert len(operators.splitlines()) <= 25
    layer = "".join(parts)
    script = tmp_path / "example.py"
    script.write_text(layer + operators)
    package = Path(mindspore_nsa.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *shapes, loss = done.stdout.splitlines()
    assert shapes == re.findall(r"^print.*?# (\(.*?\)):", layer, re.MULTILINE)
    assert 0 < float(loss) < 10, done.stdout


@pytest.mark.parametrize("page", [ENGLISH, OPERATORS], ids=["README.md", "docs/operators.md"])
def test_every_function_is_in_a_table(page):
    table = re.findall(r"^\| .*", page, re.MULTILINE)
    functions = {name for row in table for name in re.findall(r"`(\w+)`", row)}
    public = {name for name in mindspore_nsa.__all__ if not name.startswith("_")}
    assert functions >= public - {"set_target", "show_config", "target"}


def test_make_targets():
    """Also those of the page for who changes something."""
    makefile = (ROOT / "Makefile").read_text()
    pages = ENGLISH + OPERATORS + (ROOT / "docs" / "contributing.md").read_text()
    for target in set(re.findall(r"(?:^|`)make (\w+)", pages, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
