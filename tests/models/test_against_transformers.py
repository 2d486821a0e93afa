"""Every layer equals transformers' attention, and the comparison finds planted errors."""

import numpy as np
import pytest
from mindspore import nn, ops

from mindspore_nsa.models import (
    _cases,
    _compressor,
    compare,
    deepseek_v4,
)

from .conftest import CASES


@pytest.mark.parametrize("architecture", _cases.ARCHITECTURES)
def test_equal_forward_gradients_and_picks(architecture, oracle):
    for seed in range(CASES):
        case = _cases.draw(architecture, seed)
        result = compare.compare(case, oracle(architecture, seed))
        assert result.good, (case, result)


@pytest.mark.parametrize("architecture", _cases.ARCHITECTURES)
def test_cases_are_not_all_alike(architecture):
    cases = [_cases.draw(architecture, seed) for seed in range(20)]
    lengths = {case.shape[1] for case in cases}
    assert 1 in lengths and len(lengths) >= 4, lengths
    if architecture == "deepseek_v4":
        assert len({case.config["layer_types"][0] for case in cases}) == 3


class _Function(nn.Cell):
    """A function in the place of a Cell."""

    def __init__(self, function):
        super().__init__()
        self.construct = function


def _rope_of_the_other_form(layer, patch):
    layer.indexer.pairs = not layer.indexer.pairs


def _window_of_one_more(layer, patch):
    layer.window += 1


def _not_turned_back(layer, patch):
    right = deepseek_v4.turned_in_place

    def wrong(x, cos, sin, sign=1):
        return x if sign == -1 else right(x, cos, sin)

    patch.setattr(deepseek_v4, "turned_in_place", wrong)


def _entry_hidden_where_it_ends(layer, patch):
    def wrong(text, size):
        entries = ops.arange(max(text[4] // size, 1))
        ended = ops.expand_dims(text[1] // size, 1)
        return ops.where(entries < ended, entries, ops.full_like(entries, -1)).int()

    patch.setattr(deepseek_v4, "all_ended", wrong)


def _entries_turned_at_their_last_token(layer, patch):
    if layer.compressor is not None:
        right, size = layer.compressor.angles, layer.compressor.size
        layer.compressor.angles = _Function(lambda positions: right(positions + size - 1))


def _one_bias_for_both_halves(layer, patch):
    if layer.indexed:
        bias, dim = layer.compressor.position_bias, layer.compressor.dim
        bias.set_data(ops.concat((bias[:, :dim], bias[:, :dim]), 1))


def _sinks_scaled(layer, patch):
    layer.sinks.set_data(layer.sinks * layer.scale)


def _norm_before_pooling(layer, patch):
    if layer.compressor is not None:
        right, norm = _compressor.pooled_windows, layer.compressor.kv_norm
        dim, bias = layer.compressor.dim, layer.compressor.position_bias

        def wrong(values, gate, of_gate, own, before=None):
            if of_gate is bias:
                shape = values.shape
                values = norm(values.reshape(-1, dim)).reshape(shape)
            return right(values, gate, of_gate, own, before)

        patch.setattr(_compressor, "pooled_windows", wrong)
        layer.compressor.kv_norm = _Function(lambda x: x)


def _weight_in_place_of_one_and_weight(layer, patch):
    layer.q_norm.offset = 0.0


def _no_local_block(layer, patch):
    if layer.indexer is not None:
        layer.indexer.local = 0


def _open_group_left_out(layer, patch):
    from mindspore_nsa.models import qwen4_exp

    right = qwen4_exp.with_open_block

    def wrong(picks, text, size):
        found = right(picks, text, size)
        return ops.concat((picks, ops.full_like(found[:, -1:], -1)), 1)

    patch.setattr(qwen4_exp, "with_open_block", wrong)


def _key_of_the_wrong_norm(layer, patch):
    layer.kv_a_layernorm.eps = 1e-1


PLANTED = [
    ("deepseek_v32", _rope_of_the_other_form),
    ("glm_moe_dsa", _rope_of_the_other_form),
    ("glm5_next_text", _key_of_the_wrong_norm),
    ("deepseek_v4", _window_of_one_more),
    ("deepseek_v4", _not_turned_back),
    ("deepseek_v4", _entry_hidden_where_it_ends),
    ("deepseek_v4", _entries_turned_at_their_last_token),
    ("deepseek_v4", _one_bias_for_both_halves),
    ("deepseek_v4", _sinks_scaled),
    ("deepseek_v4", _norm_before_pooling),
    ("minimax_m3_vl_text", _weight_in_place_of_one_and_weight),
    ("minimax_m3_vl_text", _no_local_block),
    ("qwen4_exp_text", _open_group_left_out),
]


@pytest.mark.parametrize("architecture, plant", PLANTED)
def test_a_planted_error_is_found(architecture, plant, oracle, monkeypatch):
    for seed in range(CASES):
        case = _cases.draw(architecture, seed)
        layer = compare.make(case)
        plant(layer, monkeypatch)
        # Outputs and picks tell; gradients would take most of the time.
        forward, differ, _, _ = compare.compare_forward(case, oracle(architecture, seed), layer)
        if forward > compare.FORWARD or differ:
            return
    pytest.fail("no case tells the wrong layer from the right one")


def test_the_program_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    said = compare.main(["--cases", "1"])
    assert "needs PyTorch and transformers 5.24.0" in said


@pytest.mark.parametrize("options", [[], ["--all"]])
def test_the_program_prints_what_is_not_equal(options, monkeypatch, capsys):
    """A line of each layer that is not, or of every one; the largest errors and the sums."""
    given = iter(
        compare.Result(*numbers)
        for numbers in ((1e-7, 3e-6, "x", 0, 2), (2e-5, 1e-6, "x", 0, 1), (1e-6, 1e-6, "x", 3, 0))
    )
    monkeypatch.setattr(compare._oracle, "require", lambda: None)
    monkeypatch.setattr(compare._oracle, "run", lambda case: None)
    monkeypatch.setattr(compare, "compare", lambda case, theirs: next(given))
    arguments = ["--cases", "1", "--of", "deepseek_v32", "glm_moe_dsa", "deepseek_v4", *options]
    assert compare.main(arguments) == 1
    header, *lines = capsys.readouterr().out.splitlines()
    single = [line.split()[0] for line in lines if line.startswith("  ")]
    wrong = ["glm_moe_dsa", "deepseek_v4"]
    assert single == (["deepseek_v32", *wrong] if options else wrong)
    assert [line.split() for line in lines if not line.startswith("  ")] == [
        ["deepseek_v32", "1", "1.0e-07", "3.0e-06", "0", "2"],
        ["glm_moe_dsa", "1", "2.0e-05", "1.0e-06", "0", "1"],
        ["deepseek_v4", "1", "1.0e-06", "1.0e-06", "3", "0"],
    ]
    several = iter(compare.Result(10.0**-n, 10.0**-n, "x", 0, n) for n in (6, 7, 8))
    monkeypatch.setattr(compare, "compare", lambda case, theirs: next(several))
    assert compare.main(["--cases", "3", "--of", "qwen4_exp_text"]) == 0
    (line,) = capsys.readouterr().out.splitlines()[1:]
    assert line.split() == ["qwen4_exp_text", "3", "1.0e-06", "1.0e-06", "0", "21"]


def test_near_ties_are_not_compared():
    scores = np.float32([[[3, 2, 2, 1]], [[4, 2, 1, 1]]])
    found = {"scores": scores, "picks": np.int64([[[0, 2]], [[0, 1]]])}
    differ, wrong, near, theirs = compare._compared_picks(np.int32([[[0, 1]], [[0, 2]]]), found)
    assert differ.tolist() == [[True], [True]]
    assert wrong.tolist() == [[False], [True]] and near.tolist() == [[True], [False]]
    np.testing.assert_array_equal(theirs, found["picks"])
