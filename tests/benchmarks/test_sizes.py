"""Sizes for short contexts: attention of each runs, and the tables show what they cost."""

import sys

import mindspore as ms
import numpy as np

from benchmarks import attentions, sizes, table_rows


def test_keys_of():
    """Windows, blocks and the window of the last query, as far as there are tokens."""
    assert sizes.keys_of(attentions.PAPER, 4096) == 255 + 1024 + 512
    assert sizes.keys_of(sizes.SIZES[3], 1024) == 63 + 128 + 64
    assert sizes.keys_of(attentions.PAPER, 20) == 0 + 20 + 20


def test_attention_of_these_sizes():
    out = attentions.nsa(130, "forward", "float32", sizes.SHARING)()[0].asnumpy()
    assert out.shape == (130, 8, 64) and np.isfinite(out).all() and out.any()
    ms.set_context(mode=ms.PYNATIVE_MODE)


def test_tables(monkeypatch, capsys, tmp_path):
    """Medians of the rounds, NSA over the dense attention of the same heads."""
    calls = []

    def form(name):
        def build(tokens, direction, dtype, variant):
            assert direction == "both"
            calls.append((name, variant.heads, variant.kv_heads))
            return lambda: None

        return build

    monkeypatch.setattr(attentions, "nsa", form("nsa"))
    monkeypatch.setattr(attentions, "flash_attention_score", form("dense"))
    times = iter([3.0, 2.0, 9.0, 2.0, 1.0, 2.0] * 100)
    monkeypatch.setattr(sizes, "processor_seconds", lambda function: next(times))
    assert sizes.ratios([sizes.BASE], 64, "float32", 3) == [1.5]
    assert calls == [("dense", 8, 1), ("nsa", 8, 1)]
    calls.clear()
    path = tmp_path / "sizes.csv"
    command = ["sizes", "--tokens", "512", "256", "--rounds", "3", "--csv", str(path)]
    monkeypatch.setattr(sys, "argv", command)
    sizes.main()
    assert "sharing" in capsys.readouterr().out
    assert [found for found in calls if found[0] == "dense"][2:] == [
        ("dense", 8, 8), ("dense", 8, 4), ("dense", 8, 2), ("dense", 8, 1)
    ]  # fmt: skip
    rows = table_rows.read(path)
    lines = table_rows.sizes(rows)
    assert lines[0][:3] == ["16 of 64", "512", "1055 keys, 1.50"]
    assert lines[3][:2] == ["4 of 32", "64"] and lines[3][2].startswith("223 keys, ")
    assert [len(line) for line in lines] == [4] * 4
    assert len(table_rows.sharing(rows)[0]) == 5 and rows[0]["isa"] and rows[0]["date"]
