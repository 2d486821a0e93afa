"""The glossary is short, and its words are those of the code."""

import re

import pytest

from .conftest import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text()
# Word, meaning, file.
ROWS = re.findall(r"^\| (\w+) \| (.+?) \| \[\S+\]\(\.\./(\S+)\) \|$", PAGE, re.MULTILINE)


def test_length():
    words = [word for word, _, _ in ROWS]
    assert 10 <= len(words) == PAGE.count("\n| ") - 1 <= 25
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("word, meaning, file", ROWS, ids=[word for word, _, _ in ROWS])
def test_word(word, meaning, file):
    assert meaning[0].isupper() and meaning.endswith(".")
    source = (ROOT / file).read_text()
    assert re.search(rf"(?i)(?<![a-z]){word}s?(?![a-z])|{word.capitalize()}", source)


@pytest.mark.parametrize("page", ["README", "contributing", "ascend_attention"])
def test_linked(page):
    assert "](glossary.md)" in (ROOT / "docs" / f"{page}.md").read_text()
