"""The tables of docs/limits.md are those of infer/limits.h."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPS = {
    "nsa_compress": "kCompressOps",
    "nsa_compress_with_cache": "kCacheCompressOps",
    "nsa_compress_attention": "kCompressAttentionOps",
    "nsa_selected_attention": "kSelectedOps",
    "nsa_compress_attention_infer": "kCompressInferOps",
    "nsa_decode": "kCompressInferOps",
    "nsa_selected_attention_infer": "kSelectedInferOps",
    "A layer's cache": "kCompressInferOps",
    "flash_attention_score": "kFlashOps",
}
NUMBERS = {"kKibi": 1024, "kMebi": 1024**2, "kNoLimit": None, "-kNoLimit": None}


def number(text):
    """A bound of the C++ table; None where there is no limit."""
    product = 1
    for factor in text.split("*"):
        factor = factor.strip()
        value = NUMBERS[factor] if factor in NUMBERS else int(factor)
        if value is None:
            return None
        product *= value
    return product


def rows_of_header(ops):
    """(quantity, from, to, multiple) of the operators; `to` is in words for differences."""
    source = (ROOT / "infer" / "limits.h").read_text()
    table = source[source.index("kAscendLimits[] = {") :]
    table = table[: table.index("\n};")]
    bounds = r'\s*([^,"]+),\s*([^,"]+),\s*([^,"}]+)(?:,\s*"([^"]+)")?'
    found = re.findall(r'\{(\w+), Quantity::\w+, "([^"]+)",' + bounds + r"\}", table)
    assert len(found) == table.count("Quantity::")
    for name, quantity, low, high, multiple, words in found:
        if name == ops:
            bounds = (None, words) if words else (number(low), number(high))
            yield (quantity, *bounds, int(multiple))


def rows_of_page(operator):
    page = (ROOT / "docs" / "limits.md").read_text()
    section = page.split(f"\n### {operator}\n")[1].split("\n#")[0]
    for row in re.findall(r"^\| `(.+)` \|(.*)\|(.*)\|(.*)\|$", section, re.MULTILINE):
        low, high, multiple = (cell.strip() for cell in row[1:])
        high = int(high) if high.isdigit() else high or None
        yield (row[0], int(low) if low else None, high, int(multiple))


@pytest.mark.parametrize("operator", OPS)
def test_tables_agree(operator):
    rows = list(rows_of_header(OPS[operator]))
    assert rows and list(rows_of_page(operator)) == rows
