"""Which blocks NsaCompressAttention chooses, and in which order: of many, with ties, any number."""

import numpy as np
import pytest

from mindspore_nsa import _native

BLOCK = 16


def chosen(levels, forced, count):
    """Blocks of queries 0, 1 and -1: a block is a compressed token, its logit query times level.

    Equal levels are equal probabilities, and a larger one is a larger probability.
    """
    query = np.array([0.0, 1.0, -1.0], np.float32).reshape(3, 1, 1)
    key = levels.astype(np.float32).reshape(-1, 1, 1)
    lists = [np.array([n], np.int64) for n in (3, len(levels))]
    attrs = {
        "scale_value": 1.0,
        "head_num": 1,
        "compress_block_size": BLOCK,
        "compress_stride": BLOCK,
        "select_block_size": BLOCK,
        "select_block_count": count,
        "causal": 0,
        "importance": "overlap",
    }
    inputs = [query, key, np.ones_like(key), forced, None, *lists, None, None]
    return _native.run("NsaCompressAttention", inputs, attrs)[1][:, 0]


def best(levels, forced, count):
    """By definition: forced ones, then those of a larger probability; equal ones by index."""
    rows = []
    for query, force in zip((0, 1, -1), forced, strict=True):
        order = np.argsort(np.where(force, -np.inf, -query * levels), kind="stable")[:count]
        rows.append(np.pad(order, (0, count - len(order)), constant_values=-1))
    return np.array(rows, np.int32)


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 48, 64, 150])
def test_order(isa, count):
    draw = np.random.default_rng(count)
    for blocks in (1, 15, 16, 17, 63, 64, 65, 80, 130, 700):
        for kinds in (1, 3, 20, blocks):
            # Differences that float32 tells apart, and that no probability becomes 0 by.
            levels = draw.permuted(np.arange(blocks) % kinds) * 0.02
            forced = (draw.random((3, blocks)) < draw.choice([0.0, 0.05])).astype(np.uint8)
            expected = best(levels, forced, count)
            np.testing.assert_array_equal(chosen(levels, forced, count), expected)


def test_the_best_come_last(isa):
    """Rising levels: every block is better than all before it, so that the choice is made anew."""
    levels = np.arange(1000) * 0.01
    forced = np.zeros((3, 1000), np.uint8)
    for count in (1, 16, 40):
        expected = best(levels, forced, count)
        np.testing.assert_array_equal(chosen(levels, forced, count), expected)


@pytest.mark.parametrize("importance", ["cann", "overlap"])
def test_rows_without_compressed_tokens(importance):
    """Without lengths in tokens candidates are the blocks that a compressed token counts for, and a
    row that has none lists none."""
    rng = np.random.default_rng(0)
    query = rng.standard_normal((3, 2, 8), np.float32)
    pages = rng.standard_normal((3, 4, 1, 8), np.float32)
    attrs = {"scale_value": 0.5, "head_num": 2, "select_block_size": 8, "select_block_count": 3,
             "compress_block_size": 8, "compress_stride": 2, "importance": importance}  # fmt: skip
    of_caches = {"key_value_head_num": 1, "page_block_size": 4}
    inputs = [query, pages, pages, None, None, np.array([0, 4, 0]), None]
    names = [spec["name"] for spec in _native.schema("NsaCompressAttentionInfer")["inputs"]]
    given = dict(query=query, key=pages, value=pages, actual_cmp_seq_kvlen=np.array([0, 4, 0]))
    inputs = [given.get(name) for name in names]
    out, blocks = _native.run("NsaCompressAttentionInfer", inputs, attrs | of_caches)
    assert (blocks[[0, 2]] == -1).all() and (blocks[1, 0, :1] >= 0).all()
    assert not out[[0, 2]].any()
    lists = [np.array([1, 2, 3]), np.array([0, 4, 4]), None, None]
    inputs = [query, pages[1], pages[1], None, None, *lists]
    whole = _native.run("NsaCompressAttention", inputs, attrs | {"causal": 0})
    np.testing.assert_array_equal(whole[1], blocks)
