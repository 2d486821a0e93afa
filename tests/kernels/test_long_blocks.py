"""A selection block that is longer than the keys costs what the keys cost."""

import numpy as np
import pytest

from mindspore_nsa import _native

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
    inputs = [query, key, value, out, dy, top, total, indices, *lists]
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
