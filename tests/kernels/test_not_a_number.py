"""A NaN in a token reaches the rows that see it and no others, forward and backward."""

import numpy as np
import pytest

from mindspore_nsa import _native

S, HEADS, D, AT = 150, 2, 24, 101


def _tensors(seed):
    draw = np.random.default_rng(seed)
    return [draw.standard_normal((S, HEADS, D)).astype(np.float32) for _ in range(4)]


def _flash_attrs():
    return {
        "head_num": HEADS, "keep_prob": 1.0, "scalar_value": 0.2, "pre_tokens": 2147483647,
        "next_tokens": 2147483647, "input_layout": "TND", "sparse_mode": 2, "pse_type": 1,
        "q_start_idx": 0, "kv_start_idx": 0,
    }  # fmt: skip


def _forward(query, key, value):
    lengths = np.array([S], np.int64)
    inputs = [query, key, value, None, None, None, None, lengths, lengths, None]
    return _native.run("FlashAttentionScore", inputs, _flash_attrs())


@pytest.fixture(params=_native.available_isas(), autouse=True)
def isa(request):
    before = _native.isa()
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa(before)


@pytest.mark.parametrize("poisoned", ["key", "value"])
def test_causal_forward(poisoned):
    query, key, value, _ = _tensors(1)
    clean = _forward(query, key, value)[0]
    {"key": key, "value": value}[poisoned][AT] = np.nan
    out = _forward(query, key, value)[0]
    np.testing.assert_allclose(out[:AT], clean[:AT], rtol=1e-5, atol=1e-6)
    assert np.isnan(out[AT:]).all()


@pytest.mark.parametrize("poisoned", ["query", "key", "value", "dy"])
def test_causal_gradient(poisoned):
    query, key, value, dy = _tensors(2)
    lengths = np.array([S], np.int64)

    def grads():
        out, top, total = _forward(query, key, value)
        inputs = [query, key, value, dy, None, None, None, top, total, out, None, lengths, lengths]
        attrs = {**_flash_attrs(), "compress_block_size": 0, "compress_stride": 0}
        return _native.run("FlashAttentionScoreGrad", [*inputs, None, None], attrs)[:3]

    clean = grads()
    {"query": query, "key": key, "value": value, "dy": dy}[poisoned][AT] = np.nan
    dq, dk, dv = grads()
    if poisoned in ("key", "value"):
        # Later queries see the token; earlier ones do not, and so keep their gradient.
        np.testing.assert_allclose(dq[:AT], clean[0][:AT], rtol=1e-4, atol=1e-5)
        assert np.isnan(dq[AT:]).all()
    else:
        # The row sees keys up to its own; later keys and other queries are not touched.
        others = np.arange(S) != AT
        np.testing.assert_allclose(dq[others], clean[0][others], rtol=1e-4, atol=1e-5)
        for got, want in ((dk, clean[1]), (dv, clean[2])):
            np.testing.assert_allclose(got[AT + 1 :], want[AT + 1 :], rtol=1e-4, atol=1e-5)
        assert np.isnan(dk[: AT + 1]).all()
