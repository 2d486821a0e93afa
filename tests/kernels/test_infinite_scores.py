"""Infinities and NaN in any input: the kernels give what IEEE arithmetic of the formula gives.

A score of +inf or NaN makes its row NaN; a score of -inf is masked; a key of probability 0
touches nothing. Every instruction set, forward and backward, against the reference.
"""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import compare
from mindspore_nsa.testing.dtypes import DTYPES, ULP, decode, encode
from tests.common.planted import OPERATORS, nan_row_cases, planted_cases, vanishing_cases

pytestmark = pytest.mark.usefixtures("isa")

SEEDS = 40


def _check(case):
    outputs = _native.run(case.op, case.inputs, case.attrs)
    with np.errstate(invalid="ignore"):
        compare(case, outputs)


@pytest.mark.parametrize("op", OPERATORS)
def test_random_calls(op):
    for seed in range(SEEDS):
        for case in planted_cases(op, seed):
            _check(case)


def test_a_value_of_probability_zero_touches_nothing():
    """Also where it became 0 by a larger score later, a step or several after."""
    for case in vanishing_cases():
        _check(case)


def test_importance_in_a_row_that_is_nan():
    for case in nan_row_cases():
        _check(case)


def _causal(rows, dim, dtype):
    draw = np.random.default_rng(3)
    return [encode(draw.standard_normal((1, 2, rows, dim)), dtype) for _ in range(3)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_one_infinite_key(dtype, value):
    """A row with a score of +inf is NaN, also in softmax_sum; with -inf the key is masked."""
    rows, at = 150, 101
    query, key, values = _causal(rows, 24, dtype)
    spoiled = decode(key).copy()
    spoiled[0, :, at, 5] = value
    attrs = {"head_num": 2, "input_layout": "BNSD", "sparse_mode": 3, "scalar_value": 0.2}

    def run(key, mask=None):
        mode = {"sparse_mode": 3} if mask is None else {"sparse_mode": 1}
        inputs = [query, key, values, None, None, mask] + [None] * 6
        return _native.run("FlashAttentionScore", inputs, {**attrs, **mode})

    out, top, total = (decode(x) for x in run(encode(spoiled, dtype)))
    hides = np.triu(np.ones((rows, rows), np.uint8), 1)
    hides[:, at] = 1
    expected = [decode(x) for x in run(key, hides)]
    infinite = (np.arange(rows) >= at) & (decode(query)[0, :, :, 5] * value > 0)
    assert 20 < infinite.sum() < 80
    assert np.isnan(out[0][infinite]).all() and np.isnan(total[0][infinite]).all()
    assert (top[0][infinite] == np.inf).all()
    for ours, masked in zip((out, top, total), expected, strict=True):
        np.testing.assert_allclose(
            ours[0][~infinite], masked[0][~infinite], rtol=3 * ULP[dtype], atol=3 * ULP[dtype]
        )


def test_scores_beyond_float32():
    """Scores are float32: one beyond its range is infinite."""
    one = np.ones((1, 1, 8, 16), np.float32)
    attrs = {"head_num": 1, "input_layout": "BNSD", "scalar_value": 1.0}
    for sign in (1, -1):
        key = one.copy()
        key[0, 0, 3] = sign * 1e30
        inputs = [one * 1e30, key] + [np.arange(128, dtype=np.float32).reshape(1, 1, 8, 16)]
        out = _native.run("FlashAttentionScore", inputs + [None] * 9, attrs)[0]
        # 1e30 * 1e30 overflows, and so every row sees one infinite score.
        assert np.isnan(out).all() if sign > 0 else np.isfinite(out).all()
