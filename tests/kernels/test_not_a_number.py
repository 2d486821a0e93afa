"""A NaN in a token reaches the rows that see it and no others, forward and backward."""

import numpy as np
import pytest

from mindspore_nsa import _native, reference
from mindspore_nsa.reference.segments import compressed_seq_len

pytestmark = pytest.mark.usefixtures("isa")
S, HEADS, D, AT = 150, 2, 24, 101


def _tensors(seed):
    draw = np.random.default_rng(seed)
    return [draw.standard_normal((S, HEADS, D)).astype(np.float32) for _ in range(4)]


def _flash_attrs():
    return {
        "head_num": HEADS, "keep_prob": 1.0, "scalar_value": 0.2, "pre_tokens": 2147483647,
        "next_tokens": 2147483647, "input_layout": "TND", "sparse_mode": 2, "pse_type": 1,
    }  # fmt: skip


def _forward(query, key, value):
    lengths = np.array([S], np.int64)
    inputs = [query, key, value, None, None, None, None, lengths, lengths, None, None, None]
    return _native.run("FlashAttentionScore", inputs, _flash_attrs())


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
        return _native.run("FlashAttentionScoreGrad", inputs + [None] * 5, attrs)[:3]

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


BLOCK, COUNT = 16, 10  # every block of the 150 tokens is selected
ENDS = np.array([S], np.int64)


def _selected(query, key, value):
    rows = np.arange(S)[:, None, None]
    blocks = np.arange(COUNT, dtype=np.int32)[None, None, :]
    indices = np.where(blocks <= rows // BLOCK, blocks, -1).repeat(HEADS, 1).astype(np.int32)
    attrs = {
        "scale_value": 0.2, "head_num": HEADS, "select_block_size": BLOCK,
        "select_block_count": COUNT, "causal": 1,
    }  # fmt: skip
    inputs = [query, key, value, indices, ENDS, ENDS, None]
    return indices, attrs, _native.run("NsaSelectedAttention", inputs, attrs)


@pytest.mark.parametrize("poisoned", ["query", "key", "value", "dy"])
def test_selected(poisoned):
    query, key, value, dy = _tensors(3)

    def both():
        indices, attrs, (out, top, total) = _selected(query, key, value)
        inputs = [query, key, value, out, dy, top, total, indices, ENDS, ENDS, None, None]
        return [out, *_native.run("NsaSelectedAttentionGrad", inputs, attrs)]

    clean = both()
    {"query": query, "key": key, "value": value, "dy": dy}[poisoned][AT] = np.nan
    out, dq, dk, dv = both()
    if poisoned in ("key", "value"):
        for got, want in ((out, clean[0]), (dq, clean[1])):
            np.testing.assert_allclose(got[:AT], want[:AT], rtol=1e-4, atol=1e-5)
            assert np.isnan(got[AT:]).all()
    else:
        others = np.arange(S) != AT
        np.testing.assert_allclose(dq[others], clean[1][others], rtol=1e-4, atol=1e-5)
        for got, want in ((dk, clean[2]), (dv, clean[3])):
            np.testing.assert_allclose(got[AT + 1 :], want[AT + 1 :], rtol=1e-4, atol=1e-5)
        assert np.isnan(dk[: AT + 1]).all()


def test_compress():
    x, _, _, dy = _tensors(4)
    weight = np.random.default_rng(5).standard_normal((8, HEADS)).astype(np.float32)
    attrs = {"compress_block_size": 8, "compress_stride": 4}
    clean = _native.run("NsaCompress", [x, weight, ENDS], {**attrs, "num_windows": -1})[0]
    windows = np.arange(len(clean)) * 4
    sees = (windows <= AT) & (AT < windows + 8)
    x[AT] = np.nan
    out = _native.run("NsaCompress", [x, weight, ENDS], {**attrs, "num_windows": -1})[0]
    assert np.isnan(out[sees]).all() and sees.sum() == 2
    np.testing.assert_array_equal(out[~sees], clean[~sees])
    # The gradient of the input does not read the input; a weight's sums over the tokens it meets.
    dx, dw = _native.run("NsaCompressGrad", [dy[: len(clean)], x, weight, ENDS], attrs)
    met = np.isin(np.arange(8), AT - windows)
    assert np.isfinite(dx).all() and np.isfinite(dw[~met]).all()
    assert np.isnan(dw[met]).all() and met.sum() == 2


@pytest.mark.parametrize("importance", ["overlap", "cann"])
@pytest.mark.parametrize("masked", [False, True])
def test_compress_attention(importance, masked):
    """Rows that see the NaN choose their blocks as the reference does: those blocks come last."""
    query, *_ = _tensors(6)
    draw = np.random.default_rng(7)
    compressed = int(compressed_seq_len([S], 8, 4)[-1])
    key, value = (draw.standard_normal((compressed, 1, D)).astype(np.float32) for _ in range(2))
    lists = {"actual_seq_qlen": ENDS, "actual_cmp_seq_kvlen": np.array([compressed], np.int64)}
    mask = (draw.random((S, compressed)) < 0.3).astype(np.uint8) if masked else None
    options = {"causal": not masked, "importance": importance}
    names = ("scale_value", "head_num", "compress_block_size", "compress_stride")
    numbers = (0.2, HEADS, 8, 4, 16, 4)
    attrs = dict(zip((*names, "select_block_size", "select_block_count"), numbers, strict=True))
    at = 20
    key[at] = np.nan
    inputs = [query, key, value, None, mask, *lists.values(), None, None]
    out, indices, _, _ = _native.run(
        "NsaCompressAttention", inputs, {**attrs, **options, "causal": int(not masked)}
    )
    expected = reference.nsa_compress_attention(
        query, key, value, *numbers, atten_mask=mask, **options, **lists
    )
    seen = mask[:, at] == 0 if masked else np.arange(S) >= at * 4 + 8 - 1
    assert np.isnan(out[seen]).all() and np.isfinite(out[~seen]).all()
    np.testing.assert_array_equal(indices[seen], expected[1][seen])
