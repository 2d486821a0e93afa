"""The glossary is short, and its words are those of the code."""

import re

import pytest

from .conftest import ROOT

PAGE = (ROOT / "docs" / "glossary.md").read_text()
# Word, meaning, file.
ROWS = re.findall(r"^\| (\w[\w ]*) \| (.+?) \| \[\S+\]\(\.\./(\S+)\) \|$", PAGE, re.MULTILINE)


def test_length():
    words = [word for word, _, _ in ROWS]
    assert 10 <= len(words) == PAGE.count("\n| ") - 1 <= 25
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("word, meaning, file", ROWS, ids=[word for word, _, _ in ROWS])
def test_word(word, meaning, file):
    assert meaning[0].isupper() and meaning.endswith(".")
    # "KV block" in a comment, KvBlock in code; a comment may go on in the next line.
    source = re.sub(r"\s*\n\s*(// )?", " ", (ROOT / file).read_text())
    name = word.title().replace(" ", "")
    assert re.search(rf"(?i:(?<![a-z]){word}s?(?![a-z]))|{name}", source)


@pytest.mark.parametrize("page", ["README", "contributing", "cpu_kernels", "ascend_attention"])
def test_linked(page):
    assert "](glossary.md)" in (ROOT / "docs" / f"{page}.md").read_text()


# Names and phrases that used a word of the glossary in another sense.
RETIRED = {
    "cpu": (
        *("kBlockKeys", "KeyBlocks", "kPairLanes", "kTilePairs", "PairRows", "kGroupRows"),
        *("GradGroups", "GroupStep", "kAmxUnit", "GatheredUnit", "CompressUnit", "kPieceUnit"),
        *("key_pairs", "amx_block", "thread_part", "masked pair", "pairs of bf16", "packed block"),
        *("groups of rows", "unit for AMX"),
    ),
    "ascendc": (
        *("RowGroup", "GroupRows", "GroupInputs", "kBlockKeys", "kGroupTokens", "kRowUnit"),
        *("kStepGroup", "groups of rows", "groups of tokens", "groups of 16"),
    ),
    "docs": ("masked pair", "pairs of bf16", "packed block", "unit for AMX", "groups of rows"),
}


@pytest.mark.parametrize("folder", RETIRED)
def test_retired(folder):
    files = [
        path for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cc", ".cpp", ".md")
    ]
    assert len(files) > 10
    for path in files:
        # A phrase of a comment may go on in the next line.
        text = re.sub(r"\s*\n\s*(// )?", " ", path.read_text()).replace("translation unit", "")
        assert not [name for name in RETIRED[folder] if re.search(rf"\b{name}", text)], path
