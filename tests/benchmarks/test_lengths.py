"""The curves over the length of the text: what is measured, what is kept, what is drawn."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest

from benchmarks import attentions, lengths

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "figures"


def _row(tokens, name, both):
    row = {"tokens": tokens, "attention": name, "forward_seconds": both / 3, "both_seconds": both}
    return row | {"bytes": 1e6, "calls": 5, "shape": "one text, float32"}


def _own_folder():
    """The environment of a script that imports its neighbour, as `make figures` runs it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


def test_a_slow_dense_attention_is_left_out_of_long_texts():
    rows = [_row(8192, name, both) for name, both in (("nsa", 1), ("torch", 8), ("mindspore", 13))]
    asked = [name for name in lengths.DENSE if lengths.worth_asking(name, 16384, rows)]
    assert asked == ["torch"]  # the fastest, and what was not measured is not asked
    assert all(lengths.worth_asking(name, 4096, rows) for name in lengths.DENSE)
    assert all(lengths.worth_asking(name, 65536, rows) for name in lengths.DENSE)


def test_a_stopped_run_goes_on(tmp_path, monkeypatch, capsys):
    """Lengths that are in the file are not measured again; the file is in order."""
    path, asked = tmp_path / "lengths.csv", []

    def measure(tokens, rows, description, dtype):
        asked.append(tokens)
        return [_row(tokens, "torch", 2.0), _row(tokens, "nsa", 1.0)]

    monkeypatch.setattr(lengths, "measure", measure)
    command = ["lengths", "--csv", str(path), "--tokens"]
    for tokens in (["2048"], ["2048", "1024"]):
        monkeypatch.setattr(sys, "argv", [*command, *tokens])
        lengths.main()
    assert asked == [2048, 1024]
    with open(path, newline="") as file:
        found = [(int(row["tokens"]), row["attention"]) for row in csv.DictReader(file)]
    assert found == [(n, name) for n in (1024, 2048) for name in ("nsa", "torch")]
    assert "1024  nsa " in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*command, "1024", "--again"])
    lengths.main()
    assert asked == [2048, 1024, 1024]


def test_what_is_called_how_often(monkeypatch):
    """The first call compiles and does not count, unless it is long and not that of NSA."""
    monkeypatch.setattr(attentions, "_seconds", lambda function: function())
    monkeypatch.setattr(attentions.timing, "PAUSE", 0)
    short, middle = iter([5.0, 1.0, 3.0, 2.0, 2.0, 2.0]), iter([5.0, 4.0])
    over, nsa = iter([8.0, 7.0]), iter([9.5, 9.0])
    functions = {"short": short.__next__, "middle": middle.__next__, "over": over.__next__}
    functions |= {"long": lambda: 9.0, "nsa": nsa.__next__}
    found = attentions.time_of(functions, budget=6.0, long=8.5)
    once = {"middle": (4.0, 1), "over": (7.0, 1), "long": (9.0, 1), "nsa": (9.0, 1)}
    assert found == {"short": (2.0, 2)} | once


def test_dense_forms_agree():
    names = ("flash_attention_score", "mindspore")
    ours, theirs = (attentions.FORMS[n](40, "forward", "float32")()[0].asnumpy() for n in names)
    assert ours.shape == theirs.shape and ours.any()
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_nsa_runs(dtype):
    """All of it, with its gradient in every input, and only finite numbers."""
    outputs = attentions.nsa(100, "forward", dtype)()
    assert outputs[0].shape == (100, attentions.HEADS, attentions.DIM)
    gradients = attentions.nsa(100, "both", dtype)()
    assert len(gradients) == 10
    for gradient in gradients:
        numbers = gradient.astype(ms.float32).asnumpy()
        assert np.isfinite(numbers).all() and numbers.any()
    ms.set_context(mode=ms.PYNATIVE_MODE)


def test_the_figures_are_those_of_the_measurements(tmp_path):
    """Pictures and the tables of the pages are what the script makes of the files."""
    lengths_row, case_row = (r"\d[\d,]*", "1"), (r"`\w+_b?float\d+_\w+`", "`a_float32_b`")
    pages = dict.fromkeys(("README.md", "README.zh-CN.md"), lengths_row)
    pages["docs/measurements.md"] = case_row
    (tmp_path / "docs").mkdir()
    for name, (row, other) in pages.items():
        text = (ROOT / name).read_text()
        emptied = re.sub(rf"(?m)(?:^\| {row} \|.*\n)+", f"| {other} | |\n", text)
        assert emptied != text
        (tmp_path / name).write_text(emptied)
    command = [sys.executable, FIGURES / "curves.py", tmp_path, tmp_path]
    subprocess.run(command, check=True, env=_own_folder())
    for name in pages:
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), name
    for name in ("time.svg", "memory.svg", "recall.svg", "conversion.svg"):
        assert (tmp_path / name).read_text() == (FIGURES / name).read_text(), name


def test_the_drawing_is_that_of_its_script(tmp_path):
    for name in ("branches.py", "svg.py"):
        (tmp_path / name).write_text((FIGURES / name).read_text())
    subprocess.run([sys.executable, tmp_path / "branches.py"], check=True, env=_own_folder())
    assert (tmp_path / "branches.svg").read_text() == (FIGURES / "branches.svg").read_text()


@pytest.mark.parametrize("name", ["time", "memory", "recall", "conversion", "branches"])
def test_no_text_leaves_its_picture(name):
    """In the widest font that a browser may take: a caption was cut off at both ends."""
    picture = (FIGURES / f"{name}.svg").read_text()
    width, height = map(int, re.search(r'width="(\d+)" height="(\d+)"', picture).groups())
    line = re.compile(
        r'<text x="([\d.]+)" y="([\d.]+)" font-size="([\d.]+)" .*?text-anchor="(\w+)" '
        r'font-weight="(\w+)">(.*?)</text>'
    )
    found = line.findall(picture)
    assert len(found) >= 10
    for x, y, size, anchor, weight, words in found:
        taken = float(size) * len(words) * (0.68 if weight == "bold" else 0.6)
        begin = float(x) - {"start": 0, "middle": taken / 2, "end": taken}[anchor]
        assert 0 <= begin and begin + taken <= width and 0 < float(y) < height, words
