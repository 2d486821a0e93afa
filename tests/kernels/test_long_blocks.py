"""A selection block that is longer than the keys costs what the keys cost."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import INPUTS

ENDS = np.array([5, 70], np.int64)
T, HEADS, D = 70, 2, 8


def _run(block):
    """Outputs and gradients, and the most scratch that they held."""
    draw = np.random.default_rng(3)
    query, key, value, dy = (
        draw.standard_normal((T, HEADS, D)).astype(np.float32) for _ in range(4)
    )
    indices = np.tile(np.array([-1, 0, 1], np.int32), (T, HEADS, 1))
    lists = [ENDS, ENDS, None]
    attrs = {"scale_value": 0.3, "head_num": HEADS, "select_block_size": block,
             "select_block_count": 3, "causal": 1}  # fmt: skip
    _native.reset_scratch_high_water()
    out, top, total = _native.run(
        "NsaSelectedAttention", [query, key, value, indices, *lists], attrs
    )
    inputs = [query, key, value, out, dy, top, total, indices, *lists, None]
    grads = _native.run("NsaSelectedAttentionGrad", inputs, attrs)
    return [out, top, total, *grads], _native.scratch_high_water()


@pytest.mark.parametrize("block", [66, 1000, 2**31, 2**59])
def test_longer_than_every_segment(block):
    expected, scratch = _run(65)
    ours, ours_scratch = _run(block)
    for a, b in zip(ours, expected):
        assert a.tobytes() == b.tobytes() and a.any()
    assert ours_scratch == scratch


@pytest.mark.parametrize("importance", ["cann", "overlap"])
@pytest.mark.parametrize("block", [2**31, 2**58])
def test_importance_of_one_block(block, importance):
    """Its sum has as many terms as there are compressed tokens, whatever it might have."""
    draw = np.random.default_rng(3)
    query = draw.standard_normal((T, HEADS, D)).astype(np.float32)
    key, value = (draw.standard_normal((33, HEADS, D)).astype(np.float32) for _ in range(2))
    attrs = {"scale_value": 0.3, "head_num": HEADS, "compress_block_size": 4, "compress_stride": 2,
             "select_block_count": 1, "causal": 1, "importance": importance}  # fmt: skip

    def run(block):
        named = {**attrs, "select_block_size": block}
        inputs = [query, key, value, None, None, ENDS, None, None, None]
        return _native.run("NsaCompressAttention", inputs, named)

    for a, b in zip(run(block), run(128), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("importance", ["cann", "overlap"])
@pytest.mark.parametrize("window", [2**31, 2**58])
def test_importance_of_long_windows(window, importance):
    """Between the terms of two blocks there may be far more that are none."""
    draw = np.random.default_rng(4)
    query, key, value = (draw.standard_normal((n, HEADS, D)).astype(np.float32) for n in (2, 7, 7))
    lists = [np.array([2], np.int64), np.array([7], np.int64)]

    def run(window):
        attrs = {"scale_value": 0.3, "head_num": HEADS, "compress_block_size": window,
                 "compress_stride": 1, "select_block_size": window, "select_block_count": 3,
                 "causal": 0, "importance": importance}  # fmt: skip
        inputs = [query, key, value, None, None, *lists, None, None]
        return _native.run("NsaCompressAttention", inputs, attrs)

    for a, b in zip(run(window), run(64), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("op", ["NsaSelectedAttentionInfer", "NsaDecode"])
@pytest.mark.parametrize("block", [1024, 2**31, 2**59])
def test_decoding(op, block):
    draw = np.random.default_rng(5)

    def tensor(*shape):
        return draw.standard_normal(shape).astype(np.float32)

    named = {"query": tensor(1, HEADS, D), "actual_seq_kvlen": np.array([T])}
    attrs = {"scale_value": 0.3, "head_num": HEADS, "select_block_count": 2}
    if op == "NsaDecode":
        sizes = {"cmp": (T - 4) // 2 + 1, "slc": T, "win": 9}
        for branch, size in sizes.items():
            named |= {f"{kind}_{branch}": tensor(1, size, HEADS, D) for kind in ("key", "value")}
        named["gates"] = draw.random((1, 3, HEADS), np.float32)
        attrs |= {"compress_block_size": 4, "compress_stride": 2, "window_size": 9}
    else:
        named |= {kind: tensor(1, T, HEADS, D) for kind in ("key", "value")}
        named["topk_indices"] = np.tile(np.array([-1, 0], np.int32), (1, HEADS, 1))
        attrs |= {"key_value_head_num": HEADS, "page_block_size": T, "layout": "TND"}

    def run(block):
        _native.reset_scratch_high_water()
        inputs = [named.get(name) for name in INPUTS[op]]
        named_block = {**attrs, "select_block_size": block}
        (out,) = _native.run(op, inputs, named_block, num_threads=1)
        return out, _native.scratch_high_water()

    ours, expected = run(block), run(512)
    assert ours[0].tobytes() == expected[0].tobytes() and ours[0].any()
    assert ours[1] == expected[1]
