"""LightningIndexer: which keys it picks and in which order, its memory, and its gradient."""

import numpy as np
import pytest

from mindspore_nsa import _native, reference
from mindspore_nsa.testing.case import Case, compare
from tests.common.cases import make_case

NAMES = [spec["name"] for spec in _native.schema("LightningIndexer")["inputs"]]


def pick(query, key, weights, count, return_value=1, **more):
    """Batches [B, S, heads, d]; lists and attributes by name."""
    given = {"query": query, "key": key, "weights": weights, **more}
    inputs = [given.get(name) for name in NAMES]
    attrs = {name: x for name, x in more.items() if name not in NAMES}
    attrs |= {"sparse_count": count, "return_value": return_value}
    return _native.run("LightningIndexer", inputs, attrs)


def of_scores(scores):
    """One query whose scores are these: two heads, for what is positive and what is negative."""
    scores = np.asarray(scores, np.float32)
    query = np.array([[[[1.0], [-1.0]]]], np.float32)
    return query, scores.reshape(1, -1, 1, 1), np.array([[[1.0, -1.0]]], np.float32)


def best(scores, count):
    """By definition."""
    scores = np.asarray(scores, np.float32)
    falling = np.where(np.isnan(scores), np.inf, -scores)
    order = np.lexsort((np.arange(len(scores)), falling, np.isnan(scores)))[:count]
    return np.pad(order, (0, count - len(order)), constant_values=-1)


def test_the_example_of_the_definition(isa):
    """Scores 1, -1, 0, 1, 0."""
    query = np.array([[[1, 0], [0, 1]]] * 2, np.float32)[None]
    key = np.array([[1, 0], [0, 1], [-1, -1], [1, 0], [0, 0]], np.float32)[None, :, None]
    weights = np.array([[[1, -1]] * 2], np.float32)
    for count, expected in ((3, [0, 3, 2]), (6, [0, 3, 2, 4, 1, -1])):
        indices, values = pick(query[:, :1], key, weights[:, :1], count)
        assert indices[0, 0, 0].tolist() == expected
    assert values[0, 0, 0].tolist() == [1, 1, 0, 0, -1, -np.inf]
    indices, _ = pick(query, key, weights, 6)  # the first of two sees four keys
    assert indices[0, :, 0].tolist() == [[0, 3, 2, 1, -1, -1], [0, 3, 2, 4, 1, -1]]


@pytest.mark.parametrize("kinds", [1, 3, 50, 10**6])
def test_order(isa, kinds):
    """Few or many different scores, in any order, for any number of picks."""
    rng = np.random.default_rng(kinds)
    for keys in (1, 127, 128, 129, 1000, 5000):
        for count in (1, 2, 47, 48, 49, 300, 1024, 2048):
            scores = rng.integers(-kinds, kinds, keys).astype(np.float32)
            for one in (scores, np.sort(scores), -np.sort(-scores)):
                indices, values = pick(*of_scores(one), count)
                expected = best(one, count)
                np.testing.assert_array_equal(indices[0, 0, 0], expected)
                found = np.where(expected >= 0, one[expected], -np.inf)
                np.testing.assert_array_equal(values[0, 0, 0], found)


def test_infinities_and_nan(isa):
    """+inf first, -inf before NaN, and zeros of both signs are equal."""
    scores = np.array([0.0, np.nan, -1, np.inf, -0.0, 0.0, -np.inf, 5, np.nan, -np.inf], np.float32)
    query, key = np.ones((1, 1, 1, 1), np.float32), scores.reshape(1, -1, 1, 1)
    # With one head, what is negative is 0; with a negative weight, what is positive is negative.
    indices, _ = pick(query, key, np.ones((1, 1, 1), np.float32), 11)
    assert indices[0, 0, 0].tolist() == [3, 7, 0, 2, 4, 5, 6, 9, 1, 8, -1]
    indices, _ = pick(query, key, -np.ones((1, 1, 1), np.float32), 11)
    assert indices[0, 0, 0].tolist() == [0, 2, 4, 5, 6, 9, 7, 3, 1, 8, -1]


def test_parts_of_the_queries_are_the_whole(isa):
    """The bits of a query do not depend on those beside it: the last part sees as much."""
    rng = np.random.default_rng(0)
    query, weights = rng.standard_normal((1, 70, 8, 16), np.float32), None
    key = rng.standard_normal((1, 300, 2, 16), np.float32)
    indices, values = pick(query, key, weights, 40)
    for cut in (1, 13, 69):
        first = pick(query[:, :cut], key[:, : 300 - 70 + cut], weights, 40)
        last = pick(query[:, cut:], key, weights, 40)
        for whole, *parts in ((indices, first[0], last[0]), (values, first[1], last[1])):
            np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_what_a_query_sees():
    """The counts of the definition: keys of one token and of four, fewer keys than queries."""
    rng = np.random.default_rng(0)

    def counts(queries, keys, **more):
        query = rng.standard_normal((1, queries, 2, 4), np.float32)
        key = rng.standard_normal((1, keys, 1, 4), np.float32)
        indices, _ = pick(query, key, None, 3, **more)
        return (indices[0, :, 0] >= 0).sum(-1).tolist()

    assert counts(5, 2) == [0, 0, 0, 1, 2]
    assert counts(5, 2, sparse_mode=0) == [2] * 5
    residual = np.array([2], np.int64)
    assert counts(10, 2, compress_ratio=4, compress_residual=residual) == [
        *(0, 0, 0, 1, 1, 1, 1, 2, 2, 2)
    ]


def test_pages_are_the_keys_in_order(isa):
    rng = np.random.default_rng(0)
    query = rng.standard_normal((2, 3, 4, 8), np.float32)
    pages = rng.standard_normal((9, 16, 1, 8), np.float32)
    table = np.array([[4, 0, 7], [2, 8, 1]], np.int32)
    lengths = np.array([48, 21], np.int64)
    paged, _ = pick(
        query, pages, None, 20, return_value=0, layout_key="PA_BSND", block_table=table,
        actual_seq_lengths_key=lengths)  # fmt: skip
    key = pages[table].reshape(2, 48, 1, 8)
    plain, _ = pick(query, key, None, 20, return_value=0, actual_seq_lengths_key=lengths)
    np.testing.assert_array_equal(paged, plain)
    table[1, 1] = 9
    with pytest.raises(ValueError, match=r"block_table must be of pages in \[0, 9\), got 9"):
        pick(query, pages, None, 20, return_value=0, layout_key="PA_BSND", block_table=table,
             actual_seq_lengths_key=lengths)  # fmt: skip


@pytest.mark.parametrize("op", ["LightningIndexer", "LightningIndexerGrad"])
def test_threads(op):
    for seed in range(30):
        case = make_case(seed, op)
        one, many = (_native.run(case.op, case.inputs, case.attrs, num_threads=n) for n in (1, 16))
        for a, b in zip(one, many, strict=True):
            a, b = (x[1] if isinstance(x, tuple) else x for x in (a, b))
            assert a.tobytes() == b.tobytes(), case


def test_scratch_is_linear():
    """Scratch for 131,072 keys and 2048 of them: a copy of the keys, and tiles of each thread."""
    rng = np.random.default_rng(0)
    query = rng.standard_normal((1, 8, 16, 16), np.float32)
    key = rng.standard_normal((1, 131_072, 1, 16), np.float32)
    _native.reset_scratch_high_water()
    indices, _ = pick(query, key, None, 2048)
    assert (indices >= 0).all()
    limit = key.nbytes * 1.01 + _native.num_threads() * (2 << 20)
    assert _native.scratch_high_water() <= limit


def test_gradient_by_finite_differences():
    """In float64, off the kink of ReLU: the definition that the kernels are compared with."""
    rng = np.random.default_rng(0)
    query, key = rng.standard_normal((1, 4, 3, 5)), rng.standard_normal((1, 9, 1, 5))
    weights, dy = rng.standard_normal((1, 4, 3)), rng.standard_normal((1, 4, 1, 6))
    indices, _ = reference.lightning_indexer(query, key, weights, sparse_count=6)
    valid = indices >= 0

    def value(*operands):
        # The scores of the same picks.
        scores = reference.lightning_indexer(
            *operands, sparse_count=9, sparse_mode=0, return_scores=True
        )[2][0].scores[0]
        picked = np.take_along_axis(scores, np.maximum(indices[0, :, 0], 0), -1)
        return (np.where(valid, dy, 0)[0, :, 0] * picked).sum()

    slopes = reference.lightning_indexer_grad(query, key, dy, indices, weights)
    operands = [query, key, weights]
    for place, slope in enumerate(slopes):
        for at in np.ndindex(operands[place].shape):
            step = np.zeros_like(operands[place])
            step[at] = 1e-6
            up, down = (
                value(*operands[:place], operands[place] + sign * step, *operands[place + 1 :])
                for sign in (1, -1)
            )
            assert abs((up - down) / 2e-6 - slope[at]) < 1e-7


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradient_of_many_picks(isa, dtype):
    """Several waves of queries, picks that repeat, a key that nobody picked, and no weights."""
    from mindspore_nsa.testing.dtypes import encode

    rng = np.random.default_rng(0)

    def quarters(*shape):
        return encode(rng.integers(-6, 7, shape).astype(np.float32) / 4, dtype)

    indices = rng.integers(0, 299, (1, 70, 1, 1024)).astype(np.int32)
    inputs = {
        "query": quarters(1, 70, 4, 128),
        "key": quarters(1, 300, 1, 128),
        "sparse_values_grad": quarters(1, 70, 1, 1024),
        "sparse_indices": indices,
    }
    case = Case.of("LightningIndexerGrad", inputs, {}, dtype)
    outputs = _native.run(case.op, case.inputs, case.attrs)
    compare(case, outputs)
    dk = outputs[1][1] if isinstance(outputs[1], tuple) else outputs[1]
    assert not dk[0, 299].any() and dk[0, :299].any()
