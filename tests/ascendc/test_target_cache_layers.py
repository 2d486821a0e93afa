"""Layers with a cache on target ascend_twin: a sequence in pieces is the uncut sequence."""

import copy
from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

import mindspore_nsa
from mindspore_nsa.nn import AttentionCache, DenseAttention, RopeScaling
from mindspore_nsa.nn.cache_state import HEADER, LAYER, ROLLBACK, STATE
from tests.nn.test_cache import CONFIG, HIDDEN, Step, draw, make
from tests.ops.calls import context_mode

SETTINGS = replace(
    CONFIG,
    head_dim=32,
    value_head_dim=16,
    compress_block_size=16,
    compress_stride=8,
    select_block_size=16,
    window_size=24,
)
SCALED = RopeScaling("yarn", 4.0, original_max_position_embeddings=64)
OPTIONS = {"qk_norm": True, "rope_pairs": "interleaved", "has_bias": True, "rope_scaling": SCALED}
LAYERS = {
    "sparse": ("sparse", SETTINGS),
    "shared": ("sparse", replace(SETTINGS, shared_kv=True, num_kv_heads=1)),
    "options": ("sparse", replace(SETTINGS, importance="overlap", **OPTIONS)),
    "wide": ("sparse", replace(SETTINGS, num_heads=3, num_kv_heads=3, value_head_dim=48)),
    "dense": ("dense", replace(SETTINGS, **OPTIONS)),
    "window": ("window", SETTINGS),
}
CAPACITY = 160
ROUNDING = {"float16": 2.0**-9, "bfloat16": 2.0**-6}


@pytest.fixture(autouse=True)
def on_the_twin():
    with mindspore_nsa.target("ascend_twin"):
        yield


def numbers(tensor):
    return tensor.astype(ms.float32).asnumpy()


def narrow(x, dtype):
    return Tensor(x).astype(getattr(ms, dtype))


def whole(layer, x, dtype):
    """Output of the layer for all of x at once, on the CPU."""
    with mindspore_nsa.target("cpu"):
        return numbers(layer(narrow(x, dtype)))


def close(ours, expected, dtype, scale=None):
    """Within rounding, but for a block that it may choose otherwise: few tokens of many.

    Of less than a hundred tokens none is excused.
    """
    scale = np.abs(expected).max() if scale is None else scale
    errors = np.abs(ours - expected).max(-1) / scale
    excused = 3 * errors.size // 100 if errors.size >= 100 else 0
    assert (errors > 4 * ROUNDING[dtype]).sum() <= excused, np.sort(errors.ravel())[-5:]


def close_in_parts(ours, expected, counts, dtype, scale):
    """Each piece by itself: a few new tokens are few of all."""
    ends = np.cumsum(counts)
    for a, b in zip((0, *ends), ends):
        close(ours[..., a:b, :], expected[..., a:b, :], dtype, scale)


def test_lost_tokens_are_found():
    """Single tokens of a long sequence, which are few of all."""
    expected = np.random.default_rng(0).standard_normal((2, 140, 8))
    lost = expected.copy()
    lost[:, 110:113] = 0
    with pytest.raises(AssertionError):
        close_in_parts(lost, expected, (110, 1, 1, 1, 27), "float16", np.abs(expected).max())


@pytest.mark.parametrize(
    "kind, dtype, mode",
    [
        *((kind, "float16", "pynative") for kind in LAYERS),
        *((kind, "bfloat16", "graph") for kind in ("sparse", "dense")),
    ],
)
def test_pieces_are_the_whole(kind, dtype, mode):
    """A prompt that is longer than the rings go back, tokens, and a chunk; states as on a CPU."""
    layer = make(*LAYERS[kind])
    x = draw(2, 140, HIDDEN)
    expected, caches = whole(layer, x, dtype), []
    for target, its_mode in (("cpu", "pynative"), ("ascend_twin", mode)):
        with mindspore_nsa.target(target), context_mode(its_mode):
            step = Step(layer)
            cache = layer.new_cache(2, CAPACITY, dtype)
            ends = (110, 111, 112, 113, 140)
            parts = [narrow(x[:, a:b], dtype) for a, b in zip((0, *ends), ends)]
            ours = np.concatenate([numbers(step(part, cache)) for part in parts], 1)
        close_in_parts(ours, expected, np.diff((0, *ends)), dtype, np.abs(expected).max())
        caches.append(cache)
    its_state, state = (cache[STATE].asnumpy() for cache in caches)
    assert np.array_equal(state, its_state)
    for other, tensor in zip(*(cache[STATE + 1 :] for cache in caches)):
        # A position's angle may be rounded otherwise.
        error = np.abs(numbers(tensor) - numbers(other)).max()
        assert error <= ROUNDING[dtype] * np.abs(numbers(other)).max()


@pytest.mark.parametrize("kind", ["sparse", "window"])
def test_ragged_rows_that_join_and_go_back(kind):
    layer = make(*LAYERS[kind])
    rows, longest, dtype = 3, 140, "float16"
    rng = np.random.default_rng(3)
    x = draw(rows, longest, HIDDEN, seed=1)
    expected = whole(layer, x, dtype)
    cache = layer.new_cache(rows, CAPACITY, dtype)
    lengths, most = np.zeros(rows, int), np.zeros(rows, int)
    for turn in range(14):
        if turn % 4 == 3:
            lengths = np.maximum(
                np.maximum(0, most - ROLLBACK), lengths - rng.integers(0, 40, rows)
            )
            cache.truncate(lengths.tolist())
        if turn == 9:
            cache.reset(1)
            lengths[1] = 0
        most[lengths == 0] = 0
        counts = np.minimum(rng.choice((0, 1, 1, 3, 17, 100), rows), longest - lengths)
        if counts.sum() == 0:
            continue
        parts = [x[b, lengths[b] : lengths[b] + counts[b]] for b in range(rows)]
        ends = np.cumsum(counts)
        ends = Tensor(ends) if turn % 2 else ends.tolist()
        ours = numbers(layer(narrow(np.concatenate(parts), dtype), ends, cache=cache))
        wanted = [expected[b, lengths[b] : lengths[b] + counts[b]] for b in range(rows)]
        close_in_parts(ours, np.concatenate(wanted), counts, dtype, np.abs(expected).max())
        lengths += counts
        most = np.maximum(most, lengths)
        assert cache.lengths.asnumpy().tolist() == lengths.tolist()
        assert cache[STATE].asnumpy()[:, HEADER + 1].tolist() == most.tolist()


class Rows(nn.Cell):
    """A layer that serves rows of their own lengths."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, ends, cache):
        return self.layer(x, ends, cache=cache)


# New tokens of the rows: always as many in all, so that one graph takes all steps.
COUNTS = ((90, 6, 0), (0, 60, 36), (1, 95, 0), (32, 32, 32), (3, 3, 90))


@pytest.mark.parametrize(
    "kind, mode", [("sparse", "graph"), ("sparse", "jit"), ("dense", "jit"), ("window", "graph")]
)
def test_one_graph_for_rows_that_join_and_go_back(kind, mode):
    """Other lengths, rows that are gone back, chosen, copied and emptied: no new graph."""
    layer, dtype = make(*LAYERS[kind]), "float16"
    x = draw(3, 400, HIDDEN, seed=1)
    expected = whole(layer, x, dtype)
    net, cache = Rows(layer), layer.new_cache(3, 400, dtype)
    step = net
    if mode == "jit":

        @ms.jit
        def step(x, ends, cache):
            return net(x, ends, cache)

    texts, lengths = np.arange(3), np.zeros(3, int)

    def change(turn, cache):
        """Before a step; the cache that the step gets."""
        if turn == 2:
            lengths[:] -= (30, 0, 7)
            cache.truncate(lengths.tolist())
        elif turn == 3:
            lengths[:], texts[:] = lengths[[2, 1, 0]], texts[[2, 1, 0]]
            cache = cache.select([2, 1, 0])
        elif turn == 4:
            cache.copy_row(0, 1)
            cache.reset(2)
            lengths[:], texts[:] = (lengths[1], lengths[1], 0), (texts[1], texts[1], texts[2])
        return cache

    with context_mode("graph" if mode == "graph" else "pynative"):
        for turn, counts in enumerate(COUNTS):
            cache = change(turn, cache)
            places = [np.arange(n, n + k) for n, k in zip(lengths, counts)]
            parts = np.concatenate([x[text, at] for text, at in zip(texts, places)])
            ours = numbers(step(narrow(parts, dtype), Tensor(np.cumsum(counts)), cache))
            wanted = np.concatenate([expected[text, at] for text, at in zip(texts, places)])
            close_in_parts(ours, wanted, counts, dtype, np.abs(expected).max())
            lengths += counts
            assert cache.lengths.asnumpy().tolist() == lengths.tolist()
    if mode == "graph":
        assert len(net.compile_cache) == 1


def test_rows_change_no_bit_of_others():
    """Nor does how many tokens come at a time, and a row that is selected goes on as before."""
    layer = make(*LAYERS["sparse"])
    x = draw(2, 70, HIDDEN)
    both, alone = layer.new_cache(2, 80, "float16"), layer.new_cache(1, 80, "float16")
    first = numbers(layer(narrow(x[:, :60], "float16"), cache=both))
    for a, b in ((0, 31), (31, 60)):
        part = numbers(layer(narrow(x[1:, a:b], "float16"), cache=alone))
        assert np.array_equal(part[0], first[1, a:b])
    joined = both.select([1, 1, 0])
    rest = numbers(layer(narrow(x[[1, 1, 0], 60:], "float16"), cache=joined))
    again = numbers(layer(narrow(x[:, 60:], "float16"), cache=both))
    assert np.array_equal(rest, again[[1, 1, 0]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_loaded_cache_goes_on(dtype):
    """In a model that was made again, to the bit."""
    layer, again = make(*LAYERS["sparse"]), make(*LAYERS["sparse"])
    cache, x = layer.new_cache(2, CAPACITY, dtype), draw(2, 70, HIDDEN)
    layer(narrow(x[:, :66], dtype), cache=cache)
    loaded = AttentionCache.from_dict(cache.to_dict())
    more = narrow(x[:, 66:], dtype)
    assert np.array_equal(numbers(again(more, cache=loaded)), numbers(layer(more, cache=cache)))
    with pytest.raises(ValueError, match="one that no other layer writes to"):
        layer(more, cache=loaded)


# Wrong states and their errors; the operator finds those that the layer does not.
WRONG = {
    "length": (HEADER, -1, "lengths must be >= 0, got -1 of row 1"),
    "rings": (HEADER + 1, 155, "lengths must be such that the rings still hold the"),
    "capacity": (HEADER, CAPACITY, "cache must have a capacity for 161 tokens of row 1"),
    "layer": (LAYER, lambda own: own + 2, "cache must be one that no other layer writes to"),
    "size": (0, 64, "cache must be one made for head_dim 32"),
}


@pytest.mark.parametrize("mode, names", [("pynative", WRONG), ("graph", ("length", "rings"))])
def test_wrong_states_are_errors(mode, names):
    """A wrong state fails like on a CPU, and nothing is written."""
    layer = make(*LAYERS["sparse"])
    x = narrow(draw(2, 1, HIDDEN), "float16")
    right = layer.new_cache(2, CAPACITY, "float16")
    layer(narrow(draw(2, 60, HIDDEN), "float16"), cache=right)
    for place, value, words in (WRONG[name] for name in names):
        cache = copy.deepcopy(right)
        state = cache[STATE].asnumpy().copy()
        state[1, place] = value(state[1, place]) if callable(value) else value
        ms.ops.assign(cache[STATE], Tensor(state))
        before = [tensor.asnumpy().copy() for tensor in cache]
        with context_mode(mode), pytest.raises((ValueError, RuntimeError), match=words):
            Step(layer)(x, cache).asnumpy()
        for tensor, old in zip(cache, before, strict=True):
            assert np.array_equal(tensor.asnumpy(), old)


def test_what_ascend_does_not_take():
    layer = make(*LAYERS["dense"])
    x = Tensor(draw(2, 1, HIDDEN))
    with pytest.raises(TypeError, match="cache must be of dtype float16 or bfloat16 on Ascend"):
        layer(x, cache=layer.new_cache(2, CAPACITY, "float32"))
    narrow_heads = DenseAttention(replace(SETTINGS, value_head_dim=24))
    with pytest.raises(ValueError, match="Dv of value must be a multiple of 16 on Ascend"):
        narrow_heads(x.astype(ms.float16), cache=narrow_heads.new_cache(2, CAPACITY, "float16"))
