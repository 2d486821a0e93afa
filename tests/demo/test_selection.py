"""The picture of the selected blocks: which document, what the colors mean, and the program."""

from types import SimpleNamespace

import numpy as np
from mindspore import Tensor

from model_zoo_demo import data, selection, train

from .runs import TINY, write_folder


def test_document():
    corpus = data.join([b"ab", b"c" * 9, b"d" * 30, b"e" * 40])
    assert (selection.document(corpus, 8) == [0, *b"c" * 7]).all()
    assert (selection.document(corpus, 31) == [0, *b"d" * 30]).all()
    assert len(selection.document(corpus, 100)) == 41


def test_what_becomes_of_a_block():
    config = SimpleNamespace(select_block_size=2, init_blocks=1, local_blocks=1)
    blocks = np.full((8, 3), -1)
    blocks[0, :1] = blocks[1, :1] = 0
    blocks[2] = blocks[3] = (0, 1, -1)
    blocks[4] = (0, 2, 1)
    blocks[5] = (0, 2, -1)
    blocks[6] = blocks[7] = (0, 3, 2)
    found = selection.picture(blocks, config)
    always, chosen, empty, future = (
        *(selection.ALWAYS, selection.CHOSEN),
        *(selection.EMPTY, selection.FUTURE),
    )
    assert found.tolist() == [
        *([[always, future, future, future]] * 2),
        *([[always, always, future, future]] * 2),
        [always, chosen, always, future],
        [always, empty, always, future],
        *([[always, empty, chosen, always]] * 2),
    ]


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
    dense = [*arguments, "--set", "steps=1", "--set", "attention=dense"]
    assert train.main([*dense, "--out", str(tmp_path / "dense")]) == 0
    assert not (tmp_path / "dense" / selection.NAME).exists()
    message = selection.main([str(tmp_path / "dense"), *again])
    assert message == f"selection: {tmp_path / 'dense'} holds a model with dense attention"
    assert selection.main([str(tmp_path), *again]).startswith("selection: no checkpoint in")


def test_a_short_document_stands_alone(tmp_path, monkeypatch):
    """What fills the graph's length up is in its future."""
    train.set_up("pynative")
    model = train.Model(TINY)
    corpus = data.join([b"short text" * 4])
    drawn, picture = [], selection.picture

    def seen(blocks, config):
        drawn.append(blocks)
        return picture(blocks, config)

    monkeypatch.setattr(selection, "picture", seen)
    selection.draw(model, TINY, corpus, tmp_path / "selection.png")
    assert (tmp_path / "selection.png").read_bytes().startswith(b"\x89PNG")
    tokens = selection.document(corpus, TINY.context)
    alone = selection.Selection(model)(Tensor(tokens), (41,))
    expected = [x.asnumpy()[:, head] for x in alone for head in range(TINY.kv_heads)]
    assert len(drawn) == len(expected) == TINY.layers * TINY.kv_heads
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(drawn, expected))
