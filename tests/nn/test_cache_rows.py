"""Rows of a cache: selected, copied, with more room, or used by two layers."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from mindspore_nsa.nn import AttentionCache
from tests.ops.calls import context_mode

from .test_cache import CAPACITY, HIDDEN, draw, make, stepper

CACHES = [
    *(("sparse", dtype) for dtype in ("float16", "bfloat16", "float32")),
    *(("dense", "bfloat16"), ("window", "float32")),
]
MODES = ("pynative", "graph")
# Tokens of every row; one is empty, one has gone back, one has never filled a ring.
LENGTHS = (90, 0, 33, 71)


def bits(tensor):
    return tensor.astype(ms.float32).asnumpy().tobytes()


def fed(layer, cache, rows, counts):
    """Feed every row the first `counts` of its tokens [rows, tokens, hidden]."""
    tokens = np.concatenate([row[:count] for row, count in zip(rows, counts)])
    return layer(Tensor(tokens), np.cumsum(counts).tolist(), cache=cache)


def filled(layer, x, dtype, capacity=CAPACITY):
    """A cache of rows of LENGTHS tokens of x; the last one was rolled back to its length."""
    cache = layer.new_cache(len(LENGTHS), capacity, dtype)
    fed(layer, cache, x, LENGTHS)
    extra = layer(Tensor(x[3, 71:76]), [0, 0, 0, 5], cache=cache)
    assert extra.shape == (5, HIDDEN)
    cache.truncate(list(LENGTHS))
    return cache


def goes_on(step, cache, tokens):
    """The bits that 3 more tokens of every row give, one by one."""
    return [bits(step(Tensor(tokens[:, t : t + 1]), cache)) for t in range(3)]


@pytest.mark.parametrize("kind, dtype", CACHES)
def test_selected_rows_are_rows_filled_afresh(kind, dtype):
    """Repeated, reordered and left out, to the bit, in both modes."""
    layer, x = make(kind), draw(4, 100, HIDDEN)
    cache, rows = filled(layer, x, getattr(ms, dtype)), [3, 0, 3, 2, 1]
    more, before = draw(5, 3, HIDDEN, seed=4), [bits(t) for t in cache]
    fresh = layer.new_cache(len(rows), CAPACITY, getattr(ms, dtype))
    fed(layer, fresh, x[rows], [LENGTHS[row] for row in rows])
    expected = goes_on(stepper(layer, "pynative"), fresh, more)
    for mode in MODES:
        chosen = cache.select(Tensor(rows) if mode == "graph" else rows)
        assert isinstance(chosen, AttentionCache) and chosen[1].dtype == getattr(ms, dtype)
        assert chosen.lengths.asnumpy().tolist() == [LENGTHS[row] for row in rows]
        with context_mode(mode):
            assert goes_on(stepper(layer, mode), chosen, more) == expected
    assert [bits(t) for t in cache] == before
    one = cache.select(2)
    assert one.lengths.asnumpy().tolist() == [33]
    step = stepper(layer, "pynative")
    twice = goes_on(step, cache.select([2, 2]), more[[3, 3]])
    assert [2 * part for part in goes_on(step, one, more[3:4])] == twice
    assert one.lengths.asnumpy().tolist() == [36]


@pytest.mark.parametrize("kind, dtype", CACHES[1:3])
def test_a_row_that_is_copied(kind, dtype):
    """In place: a graph that has run with the cache goes on with it."""
    layer, x = make(kind), draw(4, 100, HIDDEN)
    more = draw(4, 3, HIDDEN, seed=4)
    rows = [0, 0, 2, 0]
    fresh = layer.new_cache(4, CAPACITY, getattr(ms, dtype))
    fed(layer, fresh, x[rows], [LENGTHS[row] for row in rows])
    expected = goes_on(stepper(layer, "pynative"), fresh, more)
    for mode in MODES:
        cache = filled(layer, x, getattr(ms, dtype))
        with context_mode(mode):
            step = stepper(layer, mode)
            step(Tensor(more[:, :1]), cache)
            cache.truncate(list(LENGTHS))
            cache.copy_row([1, 3] if mode == "graph" else (3, 1), 0)
            assert cache.lengths.asnumpy().tolist() == [90, 90, 33, 90]
            assert goes_on(step, cache, more) == expected
    cache.copy_row([], 0)
    cache.copy_row(np.int64(2), np.int64(2))


@pytest.mark.parametrize("kind, dtype", CACHES[1:])
def test_a_cache_that_grows(kind, dtype):
    """From one too short for the rings to one that is longer than they are."""
    layer, x = make(kind), draw(4, 140, HIDDEN)
    counts = (9, 0, 4, 7)
    small = layer.new_cache(4, 9, getattr(ms, dtype))
    large = layer.new_cache(4, 140, getattr(ms, dtype))
    fed(layer, small, x, counts)
    fed(layer, large, x, counts)
    for mode, capacity in zip(MODES, (60, 140), strict=True):
        # Twice: the rings of 60 are full of tokens when it grows once more.
        small = small.grow(capacity)
        assert small.capacity == capacity and small[1].dtype == getattr(ms, dtype)
        more = draw(4, 45, HIDDEN, seed=capacity)
        with context_mode(mode):
            step = stepper(layer, mode)
            for part in (more[:, :44], more[:, 44:]):
                assert bits(step(Tensor(part), small)) == bits(step(Tensor(part), large))
    same = small.grow(140)
    assert [bits(t) for t in same] == [bits(t) for t in small] and same[1] is not small[1]


def test_what_users_do_by_hand():
    """The state of a row goes with the row, so a gather of all Tensors is right."""
    layer, x = make("sparse"), draw(4, 100, HIDDEN)
    cache, rows = filled(layer, x, ms.float32), Tensor([3, 0, 0, 2])
    by_hand = AttentionCache(ops.gather(tensor, rows, 0) for tensor in cache)
    ours, more = cache.select(rows), draw(4, 3, HIDDEN, seed=4)
    assert [bits(t) for t in by_hand] == [bits(t) for t in ours]
    step = stepper(layer, "pynative")
    assert goes_on(step, by_hand, more) == goes_on(step, ours, more)
    text = r"of the same rows, as cache.select\(rows\) makes them, got Tensors of 2 and 4 rows"
    parts = AttentionCache((cache[0], *ours.select([0, 1])[1:]))
    for mode in MODES:
        with context_mode(mode), pytest.raises(ValueError, match=text):
            stepper(layer, mode)(Tensor(more[:, :1]), parts)


def test_wrong_rows():
    cache = filled(make("sparse"), draw(4, 100, HIDDEN), ms.float32)
    for rows, error, text in (
        ([0, 4], ValueError, r"rows must be in \[0, 4\), got 4"),
        (-1, ValueError, r"rows must be in \[0, 4\), got -1"),
        ([], ValueError, "rows must name at least one row, got none"),
        (1.0, TypeError, "rows must be ints"),
        (None, TypeError, "rows must be ints"),
        ([[0]], TypeError, "rows must be ints"),
    ):
        with pytest.raises(error, match=f"AttentionCache.select: {text}"):
            cache.select(rows)
    for to, source, error, text in (
        (4, 0, ValueError, r"to must be in \[0, 4\), got 4"),
        (0, 4, ValueError, r"source must be in \[0, 4\), got 4"),
        ("a", 0, TypeError, "to must be ints"),
        (0, [1], TypeError, r"source must be an int, got \[1\] .list"),
        (0, True, TypeError, "source must be an int, got True"),
    ):
        with pytest.raises(error, match=f"AttentionCache.copy_row: {text}"):
            cache.copy_row(to, source)
    views = AttentionCache(ops.stack([t, t])[1] for t in cache)
    with pytest.raises(ValueError, match="AttentionCache.copy_row: .* must be no views"):
        views.copy_row(0, 1)
    for capacity, error, text in (
        (CAPACITY - 1, ValueError, "must be at least that of this cache .150., got 149"),
        (2.0, TypeError, "must be an int, got 2.0"),
        (10**20, ValueError, "must be one that the .* bytes of memory of this machine"),
    ):
        with pytest.raises(error, match=f"AttentionCache.grow: capacity {text}"):
            cache.grow(capacity)
    assert cache.lengths.asnumpy().tolist() == list(LENGTHS)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_two_layers_with_one_cache(mode):
    """Tokens of one layer are none of the other's; an empty row is anybody's."""
    first, second = make("sparse"), make("sparse")
    x, cache = Tensor(draw(2, 5, HIDDEN)), second.new_cache(2, CAPACITY)
    error = ValueError if mode == "pynative" else RuntimeError
    with context_mode(mode):
        one, other = stepper(first, mode), stepper(second, mode)
        expected = one(x, cache).asnumpy()
        before = [bits(t) for t in cache]
        with pytest.raises(
            error, match="one that no other layer writes to.*another layer in row 0"
        ):
            other(x, cache).asnumpy()
        assert [bits(t) for t in cache] == before
        cache.reset()
        stepper(second, mode)(x, cache)
        cache.reset()
        assert one(x, cache).asnumpy().tobytes() == expected.tobytes()


def test_what_a_cache_looks_like():
    cache = make("dense").new_cache(3, 40, ms.bfloat16)
    assert repr(cache) == "AttentionCache(capacity=40, lengths=[0, 0, 0], dtype=bfloat16)"
    assert f"{[cache]}".count("\n") == 0
