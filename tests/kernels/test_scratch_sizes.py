"""Scratch is for what a call has to do, whatever its sizes would allow."""

import numpy as np
import pytest

from mindspore_nsa import _native
from tests.common.children import python

HEADS, D = 4, 8


def _normal(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def _held(op, inputs, attrs):
    """The outputs of a call, and the most scratch that it held."""
    _native.reset_scratch_high_water()
    outputs = _native.run(op, inputs, attrs, num_threads=2)
    return outputs, _native.scratch_high_water()


def _decode(count, lengths):
    tokens = max(lengths)
    rows = len(lengths)
    query, gates = _normal(rows, HEADS, D), _normal(rows, 3, HEADS)
    compressed, all_keys = _normal(rows, tokens // 4, 2, D), _normal(rows, tokens, 2, D)
    caches = [compressed, compressed, all_keys, all_keys, all_keys, all_keys]
    attrs = {"scale_value": 0.3, "head_num": HEADS, "compress_block_size": 8, "compress_stride": 4,
             "select_block_size": 16, "select_block_count": count, "window_size": 20,
             "init_blocks": 1, "local_blocks": 2}  # fmt: skip
    return _held("NsaDecode", [query, gates, *caches, None, None, None, np.array(lengths)], attrs)


@pytest.mark.parametrize("lengths", [[200], [200, 37, 1, 160]])
@pytest.mark.parametrize("count", [14, 1000, 2**31, 2**59])
def test_more_blocks_than_there_are(count, lengths):
    """13 of them are all."""
    (expected,), scratch = _decode(13, lengths)
    (ours,), ours_scratch = _decode(count, lengths)
    assert ours.tobytes() == expected.tobytes() and expected.any()
    assert ours_scratch == scratch


def test_keys_that_no_query_selects_from():
    """Keys of a segment without queries are not packed."""
    queries, keys, many = 30, 70, 50000
    query = _normal(queries, HEADS, D)
    key = _normal(many + keys, 2, D)
    indices = np.tile(np.array([0, 1, 4], np.int32), (queries, 2, 1))
    attrs = {"scale_value": 0.3, "head_num": HEADS, "select_block_size": 16,
             "select_block_count": 3, "causal": 1}  # fmt: skip

    def run(key, q_ends, ends):
        lists = [np.array(q_ends), np.array(ends), None]
        return _held("NsaSelectedAttention", [query, key, key, indices, *lists], attrs)

    expected, scratch = run(key[many:], [queries], [keys])
    ours, ours_scratch = run(key, [0, queries, queries], [many, many + keys, many + keys])
    for a, b in zip(ours, expected, strict=True):
        assert a.tobytes() == b.tobytes() and a.any()
    assert ours_scratch == scratch


@pytest.mark.parametrize("twice", [False, True])
def test_more_indices_than_blocks(twice):
    """The index of a selection has room for the blocks that there are."""
    queries, keys = 300, 70
    query, dy = _normal(queries, HEADS, D), _normal(queries, HEADS, D)
    key = _normal(keys, 2, D)
    order = np.random.default_rng(4).permuted(np.tile(np.arange(5), (queries, 2, 1)), axis=-1)

    def run(count):
        indices = np.full((queries, 2, count), -1, np.int32)
        indices[..., -5:] = order
        if twice:
            indices[..., -5] = 0
        attrs = {"scale_value": 0.3, "head_num": HEADS, "select_block_size": 16,
                 "select_block_count": count, "causal": 1}  # fmt: skip
        lists = [np.array([100, queries]), np.array([0, keys]), None]
        forward, held = _held("NsaSelectedAttention", [query, key, key, indices, *lists], attrs)
        inputs = [query, key, key, forward[0], dy, *forward[1:], indices, *lists, None]
        grads, held_too = _held("NsaSelectedAttentionGrad", inputs, attrs)
        return forward + grads, (held, held_too)

    expected, scratch = run(5)
    ours, ours_scratch = run(3000)
    for a, b in zip(ours, expected, strict=True):
        assert a.tobytes() == b.tobytes() and a.any()
    assert ours_scratch == scratch


def test_no_memory_names_the_function():
    """Each of a million indices may stand for a block with an output of its own."""
    done = python(
        """
import resource
import numpy as np
from mindspore_nsa import _native
cache, count = np.ones((1, 256, 1, 128), np.float32), 10**6
inputs = [np.ones((1, 64, 128), np.float32), cache, cache, np.zeros((1, 1, count), np.int32)]
attrs = {"scale_value": 0.1, "head_num": 64, "key_value_head_num": 1, "select_block_size": 256,
         "select_block_count": count, "page_block_size": 256, "layout": "TND"}
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    _native.run("NsaSelectedAttentionInfer", [*inputs, None, None, np.array([256])], attrs)
except MemoryError as error:
    print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "nsa_selected_attention_infer: no memory for the scratch of the call\n"
