"""Infinities and NaN in any input: the kernels give what IEEE arithmetic of the formula gives.

A score of +inf or NaN makes its row NaN; a score of -inf is a masked pair; a pair of probability 0
touches nothing. Every instruction set, forward and backward, against the reference.
"""

import numpy as np
import pytest

from mindspore_nsa import _native
from tests.common.cases import GENERATORS, INPUTS, compare
from tests.common.draw import Draw
from tests.common.dtypes import DTYPES, ULP, decode, dtype_name, encode
from tests.common.flash_cases import flash_attention_score_grad_of
from tests.common.nsa_cases import selected_attention_grad_of

SEEDS = 40
GRADIENT_OF = {
    "FlashAttentionScore": flash_attention_score_grad_of,
    "NsaSelectedAttention": selected_attention_grad_of,
}
INTO_FORWARD = {"query", "key", "value", "real_shift", "sink"}
INTO_GRADIENT = {"dy", "attention_out_grad"}  # the others belong to the statistics
VALUES = np.array([np.inf, -np.inf, np.nan])


@pytest.fixture(params=_native.available_isas(), autouse=True)
def isa(request):
    before = _native.isa()
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa(before)


def _plant(draw, case, names):
    """A few numbers of one or two inputs become infinite or NaN."""
    tensors = [
        place
        for place, name in enumerate(INPUTS[case.op])
        if name in names and case.inputs[place] is not None and decode(case.inputs[place]).size
    ]
    for place in draw.rng.permutation(tensors)[: draw.pick((1, 1, 2))]:
        x = decode(case.inputs[place]).copy()
        for _ in range(draw.pick((1, 1, 3))):
            x.flat[draw.rng.integers(x.size)] = draw.rng.choice(VALUES)
        case.inputs[place] = encode(x, dtype_name(case.inputs[place]))


def _check(case):
    outputs = _native.run(case.op, case.inputs, case.attrs)
    with np.errstate(invalid="ignore"):
        compare(case, outputs)


@pytest.mark.parametrize(
    "op", ["FlashAttentionScore", "NsaSelectedAttention", "NsaCompressAttention"]
)
def test_random_calls(op):
    for seed in range(SEEDS):
        draw = Draw(seed)
        forward = GENERATORS[op](draw)
        forward.name = f"seed {seed}"
        _plant(draw, forward, INTO_FORWARD)
        with np.errstate(invalid="ignore"):
            _check(forward)
            if op == "NsaCompressAttention":
                continue
            grad_of = GRADIENT_OF[op]
            gradient = grad_of(forward, draw)
        if draw.chance(0.3):
            _plant(draw, gradient, INTO_GRADIENT)
        _check(gradient)


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
        inputs = [query, key, values, None, None, mask] + [None] * 4
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
        out = _native.run("FlashAttentionScore", inputs + [None] * 7, attrs)[0]
        # 1e30 * 1e30 overflows, and so every row sees one infinite score.
        assert np.isnan(out).all() if sign > 0 else np.isfinite(out).all()
