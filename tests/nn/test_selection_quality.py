"""How good a selection is, against the sums of a plain softmax, and the plots of it."""

import builtins

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.nn import (
    SelectionQuality,
    plot_selected_blocks,
    plot_selection_quality,
    selection_plots,
)
from mindspore_nsa.nn import selection_quality as module
from tests.ops.calls import context_mode

from .cells import ENDS, config, filled, tokens

SETTINGS = config()


def plain(layer, x, ends):
    """The masses by loops in float64, from the layer's queries, keys and blocks."""
    selected, _, _ = layer._selection("test", Tensor(x), ends)
    query, key = (x.asnumpy().astype(np.float64) for x in selected[:2])
    blocks = layer.selected_blocks(Tensor(x), ends).asnumpy()
    size, group = SETTINGS.select_block_size, SETTINGS.num_heads // SETTINGS.num_kv_heads
    found = np.zeros((3, len(x), SETTINGS.num_kv_heads))
    for begin, end in zip((0, *ends), ends):
        for t in range(begin, end):
            for h in range(SETTINGS.num_kv_heads):
                masses = np.zeros((t - begin) // size + 1)
                for g in range(group):
                    scores = key[begin : t + 1, h] @ query[t, h * group + g] * layer.scale
                    weights = np.exp(scores - scores.max())
                    for place, weight in enumerate(weights / weights.sum()):
                        masses[place // size] += weight / group
                chosen = sorted({b for b in blocks[t, h] if b >= 0})
                found[0, t, h] = masses[chosen].sum()
                found[1, t, h] = masses[-len(chosen) :].sum()
                found[2, t, h] = np.sort(masses)[-len(chosen) :].sum()
    return found


@pytest.mark.parametrize("scores", [module._SCORES, 50])
def test_masses(scores, monkeypatch):
    """In packed documents and in a batch, also where a document takes several steps."""
    monkeypatch.setattr(module, "_SCORES", scores)
    layer, _ = filled("sparse", SETTINGS)
    x, ends = tokens(SETTINGS), ENDS[1:]
    quality = layer.selection_quality(Tensor(x), ends)
    expected = plain(layer, x, ends)
    for ours, exact in zip(quality, expected):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, exact, atol=2e-6)
    assert quality.positions.tolist() == [i for a, b in zip(ENDS, ENDS[1:]) for i in range(b - a)]
    size, count = SETTINGS.select_block_size, SETTINGS.select_block_count
    assert quality.choosing.tolist() == (quality.positions // size >= count).tolist()
    assert np.allclose(expected[:, ~quality.choosing], 1) and quality.choosing.any()
    assert (quality.best >= quality.selected - 1e-6).all()
    means = quality.mean()
    assert means["newest"] == pytest.approx(expected[1][quality.choosing].mean(), abs=1e-5)
    batch = layer.selection_quality(Tensor(x.reshape(2, 30, -1)))
    packed = layer.selection_quality(Tensor(x), Tensor([30, 60]))
    for ours, its in zip(batch, packed):
        np.testing.assert_array_equal(ours, its)


def test_what_it_takes():
    layer, _ = filled("sparse", SETTINGS)
    short = layer.selection_quality(Tensor(tokens(SETTINGS, 10)), (10,))
    assert np.isnan(short.mean()["best"]) and np.allclose(short.selected, 1)
    x = Tensor(tokens(SETTINGS))
    with context_mode("graph"):
        again = layer.selection_quality(x, ENDS[1:])
    np.testing.assert_allclose(again.selected, layer.selection_quality(x, ENDS[1:]).selected)
    narrow = layer.selection_quality(x.astype(ms.bfloat16), ENDS[1:])
    assert np.isfinite(narrow.selected).all()
    with pytest.raises(ValueError, match="actual_seq_len must be given for packed x"):
        layer.selection_quality(x)


def test_what_becomes_of_a_block():
    settings = config(select_block_size=2, compress_block_size=2, compress_stride=2)
    blocks = np.full((8, 3), -1)
    blocks[0, :1] = blocks[1, :1] = 0
    blocks[2] = blocks[3] = (0, 1, -1)
    blocks[4] = (0, 2, 1)
    blocks[5] = (0, 2, -1)
    blocks[6] = blocks[7] = (0, 3, 2)
    found = selection_plots.block_states(blocks, settings)
    always, chosen, empty, future = (
        *(selection_plots.ALWAYS, selection_plots.CHOSEN),
        *(selection_plots.EMPTY, selection_plots.FUTURE),
    )
    assert found.tolist() == [
        *([[always, future, future, future]] * 2),
        *([[always, always, future, future]] * 2),
        [always, chosen, always, future],
        [always, empty, always, future],
        *([[always, empty, chosen, always]] * 2),
    ]


def test_plots(tmp_path):
    pytest.importorskip("matplotlib")
    layer, _ = filled("sparse", SETTINGS)
    x = Tensor(tokens(SETTINGS))
    quality, blocks = layer.selection_quality(x, (60,)), layer.selected_blocks(x, (60,)).asnumpy()
    figure = plot_selection_quality({"one": quality, "two": quality}, tmp_path / "quality.png")
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [f"{name}, key head {i}" for name in ("one", "two") for i in (1, 2)]
    places, drawn = figure.axes[1].lines[0].get_data()
    chosen = quality.choosing
    assert places.tolist() == (quality.positions[chosen] + 0.5).tolist()
    np.testing.assert_allclose(drawn, quality.selected[chosen, 1])
    figure = plot_selected_blocks(blocks, SETTINGS, tmp_path / "blocks.png", unit="byte")
    assert figure.axes[0].get_ylabel() == "byte that asks" and len(figure.axes) == 2
    shown = figure.axes[0].images[0].get_array()
    assert np.array_equal(shown, selection_plots.block_states(blocks[:, 0], SETTINGS))
    for name in ("quality", "blocks"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(TypeError, match="blocks must be an array, or a dict of them by title"):
        plot_selected_blocks([1], SETTINGS)
    with pytest.raises(TypeError, match="config must be an NSAConfig"):
        plot_selected_blocks(blocks, 3)
    with pytest.raises(ValueError, match="quality must hold at least one layer"):
        plot_selection_quality({})


def test_without_matplotlib(monkeypatch):
    imported = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError("no")
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    one = np.ones((1, 1), np.float32)
    quality = SelectionQuality(one, one, one, np.zeros(1, np.int64), np.ones(1, bool))
    with pytest.raises(ImportError, match="plot_selection_quality needs matplotlib: pip install"):
        plot_selection_quality(quality)
