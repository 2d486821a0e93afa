"""The Python examples of docs/ run and print the text below them; links lead somewhere."""

import contextlib
import importlib
import inspect
import io
import re
import sys
from pathlib import Path

import mindspore as ms
import pytest

import mindspore_nsa

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
OPERATORS = (
    "nsa_compress",
    "nsa_compress_attention",
    "nsa_selected_attention",
    "flash_attention_score",
    "block_indexer",
    "lightning_indexer",
    "sparse_flash_attention",
    "lightning_indexer_kl_loss",
)
# Where an operator's signature stands.
PAGE_OF = {
    **{operator: operator for operator in OPERATORS},
    **dict.fromkeys(
        (
            "sparse_lightning_indexer_grad_kl_loss",
            "dense_lightning_indexer_grad_kl_loss",
            "dense_lightning_indexer_softmax_lse",
        ),
        "lightning_indexer_kl_loss",
    ),
    "nsa_decode": "decoding",
    "nsa_compress_with_cache": "decoding",
    "nsa_compress_attention_infer": "decoding",
    "nsa_selected_attention_infer": "decoding",
}
# A fenced python block, and the fenced text that stands directly below it, if any.
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
MARK = "end of example"
LINK = re.compile(r"\]\(([^)#]+)(#[^)]*)?\)")


def examples(page):
    """(source, expected output or None, line number) of every example of a page."""
    text = page.read_text()
    for match in EXAMPLE.finditer(text):
        yield match[1], match[2], text.count("\n", 0, match.start(1))


def program(page):
    """A page as a Python module, lines where they stand; a mark ends what each example prints."""
    lines = [""] * page.read_text().count("\n")
    for source, _, line in examples(page):
        block = [*source.splitlines(), f"print({MARK!r})"]
        lines[line : line + len(block)] = block
    return "\n".join(lines)


# In graphs the examples compile what the tests of the operators and layers do, and take minutes.
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(ms.PYNATIVE_MODE, id="pynative"),
        pytest.param(ms.GRAPH_MODE, id="graph", marks=pytest.mark.soak),
    ],
)
# Chinese pages have the examples of the English ones (tests/packaging/test_readme.py).
@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if ".zh-CN" not in p.name and any(examples(p))],
    ids=lambda page: page.stem,
)
def test_examples(page, mode, tmp_path, monkeypatch):
    """The examples of a page share their names, as a reader who types them in would have it."""
    # A file and a module, because MindSpore compiles functions from their source.
    name = f"docs_{page.stem}"
    (tmp_path / f"{name}.py").write_text(program(page))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    ms.set_context(mode=mode)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        importlib.import_module(name)
    *texts, rest = printed.getvalue().split(f"{MARK}\n")
    assert rest == ""
    for (_, expected, line), text in zip(examples(page), texts, strict=True):
        if expected is not None:
            assert text == expected, f"{page.name}, example at line {line + 1}"


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_has_examples(operator):
    found = list(examples(DOCS / f"{operator}.md"))
    assert len(found) >= 3 and all(expected for _, expected, _ in found)


@pytest.mark.parametrize("operator", PAGE_OF)
def test_signatures(operator):
    """A page begins with the signature as it is, but for types."""
    page = (DOCS / f"{PAGE_OF[operator]}.md").read_text()
    written = re.search(rf"^    {operator}(\(.*?\))\s+->", page, re.DOTALL | re.MULTILINE)[1]
    names = {}
    exec(f"def documented{written}: pass", names)
    real = inspect.signature(getattr(mindspore_nsa, operator))
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in real.parameters.values()]
    assert inspect.signature(names["documented"]) == inspect.Signature(bare)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links(page):
    for target, _ in LINK.findall(page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
