"""Which blocks BlockIndexer chooses: of equal scores, of NaN, of parts of the queries; memory."""

import numpy as np
import pytest

from mindspore_nsa import _native, reference
from mindspore_nsa.testing.dtypes import decode
from tests.common.cases import make_case
from tests.common.tiles import around, tile

TILE = tile("kTileKeys")
SCORES = ("max", "mean", "relu_weighted", "softmax_max")


def choose(query, key, q_offset=None, weights=None, **attrs):
    lists = [np.array([len(x)], np.int64) for x in (query, key)]
    offset = None if q_offset is None else np.array([q_offset], np.int64)
    return _native.run("BlockIndexer", [query, key, weights, *lists, offset], attrs)[0]


def whole(rng, *shape):
    """Small integers: every sum of their products is exact."""
    return rng.integers(-2, 3, shape).astype(np.float32)


def window(score):
    return {"compress_block_size": 4, "compress_stride": 2} if score == "softmax_max" else {}


def ties(score, block, tokens):
    """(ours, the definition's) choice by integer scores, most of them equal to others."""
    rng = np.random.default_rng(block)
    query, key = whole(rng, tokens, 6, 5), whole(rng, tokens, 2, 5)
    weights = whole(rng, tokens, 6)
    attrs = {"score": score, "block_size": block, "block_count": 7, "scale": 2.0}
    ours = choose(query, key, weights=weights, **attrs)
    lists = {"actual_seq_qlen": [tokens], "actual_seq_kvlen": [tokens]}
    return ours, reference.block_indexer(query, key, weights, **attrs, **lists)


@pytest.mark.parametrize("score", SCORES[:3])
@pytest.mark.parametrize("block", [1, 4, 16])
def test_ties(isa, score, block):
    """Every query has the very order of the definition."""
    np.testing.assert_array_equal(*ties(score, block, 90))


@pytest.mark.parametrize("score", SCORES[:3])
@pytest.mark.parametrize("block, tokens", list(zip((1, 4, 16), around(TILE, 2))))
def test_ties_behind_a_tile(isa, score, block, tokens):
    ours, expected = ties(score, block, tokens)
    seen = np.arange(tokens) % block + 1  # keys of its own block that a query sees
    # The mean of three is rounded, and may tie with one that is not.
    exact = (seen & (seen - 1) == 0) | (score != "mean")
    np.testing.assert_array_equal(ours[exact], expected[exact])


@pytest.mark.parametrize("score", SCORES)
def test_equal_scores_by_index(isa, score):
    """Equal keys decide nothing: blocks come in order, the forced ones first."""
    query, key = np.zeros((64, 2, 8), np.float32), np.ones((64, 1, 8), np.float32)
    attrs = {"score": score, "block_size": 8, **window(score)}
    if score == "softmax_max":
        key = key[:31]
    ours = choose(query, key, block_count=3, **attrs)
    if score != "softmax_max":  # there the last block may have no window yet
        assert ours[63, 0].tolist() == [0, 1, 2]
        assert ours[12, 0].tolist() == [0, 1, -1]
    forced = choose(query, key, block_count=4, init_blocks=1, local_blocks=2, **attrs)
    assert forced[63, 0].tolist() == [0, 6, 7, 1]


def test_a_number_ranks_before_nan(isa):
    """A block in which a query sees a NaN comes last, and is none of those of earlier queries."""
    rng = np.random.default_rng(0)
    query, key = (
        rng.standard_normal((64, 1, 8), np.float32),
        rng.standard_normal((64, 1, 8), np.float32),
    )
    good = choose(query, key, score="max", block_size=8, block_count=8)
    spoiled = key.copy()
    spoiled[20] = np.nan
    ours = choose(query, spoiled, score="max", block_size=8, block_count=8)
    np.testing.assert_array_equal(ours[:20], good[:20])
    for i in range(20, 64):
        count = i // 8 + 1
        expected = [block for block in good[i, 0, :count] if block != 2] + [2]
        assert ours[i, 0, :count].tolist() == expected, i


@pytest.mark.parametrize("score", SCORES)
def test_parts_of_the_queries_are_the_whole(isa, score):
    """The bits of a query do not depend on those beside it."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        query = rng.standard_normal((70, 4, 16), np.float32)
        key = rng.standard_normal((33 if window(score) else 70, 2, 16), np.float32)
        attrs = {"score": score, "block_size": 4, "block_count": 5, "scale": 0.25, **window(score)}
        expected = choose(query, key, q_offset=0, **attrs)
        cut = int(rng.integers(1, 70))
        parts = [
            choose(query[:cut], key, q_offset=0, **attrs),
            choose(query[cut:], key, cut, **attrs),
        ]
        np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_threads():
    for seed in range(30):
        case = make_case(seed, "BlockIndexer")
        runs = [_native.run(case.op, case.inputs, case.attrs, num_threads=n)[0] for n in (1, 16)]
        assert np.array_equal(*runs), case


@pytest.mark.parametrize("score", SCORES)
def test_scratch_is_linear(score):
    """Scratch for 100,000 keys: a copy of them, and a tile of scores for each thread."""
    rng = np.random.default_rng(0)
    query, key = whole(rng, 64, 4, 16), whole(rng, 100_000, 1, 16)
    attrs = {"score": score, "block_size": 64, "block_count": 16, **window(score)}
    _native.reset_scratch_high_water()
    ours = choose(query, key, q_offset=100_000 - 64, **attrs)
    assert (ours >= 0).all()
    threads = _native.num_threads()
    assert _native.scratch_high_water() <= key.nbytes * 1.01 + threads * (4 << 20)


def test_more_candidates_than_keys(isa):
    """Blocks past the last key have the score -inf, and are chosen last."""
    query, key = np.ones((2, 1, 4), np.float32), np.ones((10, 1, 4), np.float32)
    for score in SCORES[:3]:
        ours = choose(query, key, 30, score=score, block_size=4, block_count=9)
        assert ours[0, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, -1]
    assert decode(ours).dtype == np.int32
