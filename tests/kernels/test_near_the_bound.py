"""Thirteen of 500 random calls whose errors came nearest to the tolerance: half of it and more.

They are given by their sizes, at most two for an output of an operator; the values are other ones.
"""

from functools import partial

import numpy as np
import pytest

from mindspore_nsa import _native
from tests.common.cases import Case, compare
from tests.common.draw import Draw
from tests.common.flash_cases import flash_attention_score_grad_of
from tests.common.nsa_cases import selected_attention_grad_of
from tests.common.parity import compress, compress_attention, flash, selected

DRAWS = 3


def _more(make, draw, attrs=None, **inputs):
    """A case with further inputs, functions of the draw, and other attributes."""
    case = make(draw)
    named = {**case.named(), **{name: give(draw) for name, give in inputs.items()}}
    return Case.of(case.op, named, {**case.attrs, **(attrs or {})}, case.dtype)


def _sink(heads):
    return {"sink": lambda draw: draw.floats(heads)}


def _gradient(make, draw):
    case = make(draw)
    selects = case.op == "NsaSelectedAttention"
    return (selected_attention_grad_of if selects else flash_attention_score_grad_of)(case, draw)


def _sum_of_scores(draw):
    """Few keys of a causal text, of which three have no query."""
    inputs = {
        "query_index": draw.tensor(1, 17, 16, 192),
        "key_index": draw.tensor(1, 20, 1, 192),
        "weights": draw.floats(1, 17, 16),
        "actual_seq_klen": np.array([17]),
    }
    attrs = {"sparse_mode": 3, "layout": "BSND"}
    return Case.of("DenseLightningIndexerSoftmaxLse", inputs, attrs, draw.dtype)


def _flash(*sizes, **options):
    return lambda draw: flash(draw, *sizes, **options)


# The dtype, and what makes the call of a draw; with the output that came near.
CALLS = {
    "indexer, softmax_sum": ("bfloat16", _sum_of_scores),
    "prefix and dropout, dsink": ("float32", partial(_gradient, partial(
        _more, _flash("BNSD", 3, 8, 2, 2, 2, 16, mode=6, prefix=[1, 0, 0], keep_prob=0.5),
        attrs={"scalar_value": 0.125}, **_sink(8)))),
    "bias of 31 keys, softmax_sum": ("bfloat16", partial(
        _more, _flash("SBH", 2, 2, 2, 2, 31, 64, pse=(2, 2, 2, 31)), **_sink(2))),
    "windows of 65 tokens": ("float32", lambda draw: compress(
        draw, [65, 146, 212, 277, 342, 343], 4, 96, 65, 16)),
    "blocks of one key, softmax_sum": ("float16", lambda draw: selected(
        draw, [1, 6, 7], [1, 6, 7], 4, 1, 128, 128, 16, select=1, causal=True)),
    "causal": ("float32", partial(
        _more, _flash("BNSD", 1, 3, 3, 32, 32, 64, mode=3), attrs={"scalar_value": 0.25})),
    "blocks of three keys, softmax_sum": ("bfloat16", lambda draw: selected(
        draw, [2, 5, 7], [1, 8, 12], 3, 1, 40, 40, 4, select=3)),
    "roots of distances, softmax_sum": ("float32", partial(
        _more, _flash("BSH", 1, 16, 16, 17, 17, 192, mode=3, pse="slopes", pse_type=3),
        kv_start_idx=lambda _: np.array([4]))),
    "band": ("float32", _flash("SBH", 3, 1, 1, 16, 16, 64, 40, mode=4, pre=18, next_tokens=9)),
    "windows of two tokens, softmax_sum": ("float16", partial(
        _more, lambda draw: compress_attention(
            draw, [22], [38], None, 4, 1, 96, 96, l=2, s=1, select=5, count=1, causal=True),
        q_offset=lambda _: np.array([17]))),
    "compressed segments, softmax_sum": ("float16", lambda draw: compress_attention(
        draw, [81, 130, 177, 226, 228, 228], [57, 63, 63, 68, 88, 94], None, 2, 2, 96, 192,
        l=48, s=16, select=80, count=5)),
    "bias and prefixes, rows": ("float32", _flash(
        "BSND", 3, 16, 1, 2, 15, 96, 40, mode=6, prefix=[2, 3, 15], pse=(3, 16, 1, 15),
        pse_type=0)),
    "blocks of 64 keys, dv": ("float32", partial(_gradient, partial(
        _more, lambda draw: selected(
            draw, [0, 17, 82], [323, 387, 450], 2, 2, 64, 64, 7), attrs={"scale_value": 0.25}))),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call(isa, name):
    dtype, make = CALLS[name]
    for number in range(DRAWS):
        case = make(Draw(number, dtype))
        case.name = f"{name}, draw {number}"
        compare(case, _native.run(case.op, case.inputs, case.attrs, num_threads=2))
