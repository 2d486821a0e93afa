"""NSA and dense attention inside mindone's models from PyPI."""

import json
import re
import sys

import pytest

from .environments import PROGRAMS, ROOT, run

sys.path.insert(0, str(PROGRAMS))
from mindone_cases import CASES, table  # noqa: E402

sys.path.remove(str(PROGRAMS))
# In make test: decoders with their own masks and with masking_utils, encoders, both, refused ones.
QUICK = ("qwen2", "mistral", "gemma2", "cohere", "siglip", "vit", "bart", "esm")


def test_ascend(tmp_path):
    """A Llama's losses of bfloat16 on device Ascend are near those of a CPU in float32."""
    (losses,) = run("mindone-0.5.0", "mindone_ascend.py", tmp_path, ascend=True)
    found = [float(text) for text in losses.split()[1:]]
    assert found == pytest.approx([5.1220, 4.7621, 4.4350], rel=2**-8)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """{name: words} of what the program printed."""
    page, *lines = run(
        "mindone-0.5.0",
        "mindone_models.py",
        tmp_path_factory.mktemp("mindone"),
        page="mindone.md",
    )
    words = [line.split() for line in lines]
    return {"page": page, **{" ".join(w for w in line if w[0].isalpha()): line for line in words}}


def numbers(line):
    return [float(word) for word in line if word[0] in "-0123456789"]


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_attention_function(results, kind):
    """The output is that of eager attention, also on the real tokens of padded rows."""
    assert numbers(results[f"{kind} function"])[0] <= 1e-6
    assert numbers(results[f"{kind} padded"])[0] <= 2e-6


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_conversion(results, kind):
    """To DenseAttention the loss stays to the bit; to NSA while the blocks hold every token."""
    before, dense = numbers(results[f"{kind} converted"])
    assert before == dense
    assert numbers(results[f"{kind} as NSA"])[0] == pytest.approx(before, abs=2e-6)
    losses = numbers(results[f"{kind} trains"])
    assert losses == sorted(losses, reverse=True) and losses[0] - losses[-1] > 0.2


def test_scaled_rotary_embeddings(results):
    assert max(numbers(results["rotary"])) <= 1e-6


def test_generate_save_and_refuse(results):
    assert results["generate True"]
    assert results["saved and loaded"] and results["refused"]


def test_page(results):
    """The program of the page runs as it stands there."""
    losses = [float(line) for line in results["page"] if re.fullmatch(r"\d+\.\d+", line)]
    assert len(losses) == 1 and 3 < losses[0] < 7 and results["page"][-1] == "(2, 108)"


def walk(tmp_path, numbers):
    """The walk over the families finds the cases."""
    first, *found = run("mindone-0.5.0", "mindone_families.py", tmp_path, *map(str, numbers))
    assert set(json.loads(first)["families"]) == {case["family"] for case in CASES}
    found = [json.loads(line) for line in found]
    assert [line["case"] for line in found] == list(numbers)
    wrong = []
    for line in found:
        case = CASES[line["case"]]
        if line["found"] != case["found"] or case["text"] not in line["text"]:
            wrong.append((case["family"], case["model"], line))
    assert not wrong, wrong


def test_families(tmp_path):
    """Ours is eager attention, with padding on either side, or says what it is not."""
    walk(tmp_path, [n for n, case in enumerate(CASES) if case["family"] in QUICK])


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_all_families(part, tmp_path):
    numbers = [n for n, case in enumerate(CASES) if case["found"] != "not run"]
    walk(tmp_path, numbers[part::4])


def test_table_of_families():
    """The page's table is that of the cases."""
    page = (ROOT / "docs" / "mindone.md").read_text()
    text = page.split("<!-- families -->")[1].split("<!-- end of families -->")[0]
    assert text.strip().splitlines() == table()


def test_generation_from_padded_rows(tmp_path):
    """The tokens of eager attention, with mindone's cache and without."""
    assert run("mindone-0.5.0", "mindone_generate.py", tmp_path) == ["True (2, 17)"] * 2
