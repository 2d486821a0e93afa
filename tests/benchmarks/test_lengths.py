"""The curves over the length of the text: what is measured, and what is kept."""

import csv
import sys

import mindspore as ms
import numpy as np
import pytest

from benchmarks import attentions, lengths


def _row(tokens, name, both):
    row = {"tokens": tokens, "attention": name, "forward_seconds": both / 3, "both_seconds": both}
    return row | {"bytes": 1e6, "calls": 5, "shape": "one text, float32"}


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
    """The first call compiles and never counts; one other call is always made."""
    monkeypatch.setattr(attentions, "_seconds", lambda function: function())
    monkeypatch.setattr(attentions.timing, "PAUSE", 0)
    short, middle = iter([5.0, 1.0, 3.0, 2.0, 2.0, 2.0]), iter([5.0, 4.0])
    long = iter([30.0, 5.5])
    functions = {"short": short.__next__, "middle": middle.__next__, "long": long.__next__}
    found = attentions.time_of(functions, budget=6.0)
    assert found == {"short": (2.0, 2), "middle": (4.0, 1), "long": (5.5, 1)}


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
