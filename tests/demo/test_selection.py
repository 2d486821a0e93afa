"""The pictures of the selected blocks: which document, and the program."""

import numpy as np
from mindspore import Tensor

from mindspore_nsa.nn import selection_plots
from model_zoo_demo import data, selection, train

from .runs import TINY, write_folder


def test_document():
    corpus = data.join([b"ab", b"c" * 9, b"d" * 30, b"e" * 40])
    assert (selection.document(corpus, 8) == [0, *b"c" * 7]).all()
    assert (selection.document(corpus, 31) == [0, *b"d" * 30]).all()
    assert len(selection.document(corpus, 100)) == 41


def test_program(tmp_path, capsys):
    folder = str(write_folder(tmp_path / "text"))
    arguments = [str(train.CONFIGS / "tiny.json"), "--data", folder, "--mode", "pynative"]
    arguments += ["--set", "eval_bytes=256", "--set", "sample_bytes=4"]
    assert train.main([*arguments, "--set", "steps=1", "--out", str(tmp_path / "nsa")]) == 0
    made = tmp_path / "nsa" / selection.NAME
    assert str(made) in capsys.readouterr().out
    before = made.read_bytes()
    assert before.startswith(b"\x89PNG")
    made.unlink()
    again = ["--data", folder, "--mode", "pynative"]
    assert selection.main([str(tmp_path / "nsa"), *again]) == 0
    assert made.read_bytes() == before
    assert made.with_name(selection.QUALITY).read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "layer 1: dense attention on blocks: selected " in printed and "best " in printed
    dense = [*arguments, "--set", "steps=1", "--set", "attention=dense"]
    assert train.main([*dense, "--out", str(tmp_path / "dense")]) == 0
    assert not (tmp_path / "dense" / selection.NAME).exists()
    message = selection.main([str(tmp_path / "dense"), *again])
    assert message == f"selection: {tmp_path / 'dense'} holds a model with dense attention"
    assert selection.main([str(tmp_path), *again]).startswith("selection: no checkpoint in")


def test_a_short_document_stands_alone(tmp_path, monkeypatch):
    """Padding to the graph's length lies in its future."""
    train.set_up("pynative")
    model = train.Model(TINY)
    corpus = data.join([b"short text" * 4])
    drawn, picture = [], selection_plots.block_states

    def seen(blocks, config):
        drawn.append(blocks)
        return picture(blocks, config)

    monkeypatch.setattr(selection_plots, "block_states", seen)
    selection.draw(model, TINY, corpus, tmp_path / "selection.png")
    assert (tmp_path / "selection.png").read_bytes().startswith(b"\x89PNG")
    tokens = selection.document(corpus, TINY.context)
    alone = selection.Selection(model)(Tensor(tokens), (41,))
    expected = [x.asnumpy()[:, head] for x in alone for head in range(TINY.kv_heads)]
    assert len(drawn) == len(expected) == TINY.layers * TINY.kv_heads
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(drawn, expected))
