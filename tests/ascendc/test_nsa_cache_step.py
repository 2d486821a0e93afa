"""NsaCacheStep in Ascend C, on the twin: cores, waves, and what a device's Tensors may say."""

import numpy as np
import pytest

from mindspore_nsa.nn.cache import HEADER
from mindspore_nsa.nn.cache import LAYER as LAYER_PLACE

from .cache_step_runner import LAYER, Sizes

KINDS = {
    "sparse": Sizes(),
    "shared": Sizes(shared=True),
    "dense": Sizes(sparse=False, window=2**31),
    "window": Sizes(sparse=False),
}
# New tokens of the rows: prompts, then a token, none, and more than the rings hold beside a window.
STEPS = ((40, 0, 25), (1, 1, 0), (3, 50, 30), (0, 1, 1))


def texts(sizes, longest=64):
    """What the projections give for the tokens of every row, and parameters."""
    rng = np.random.default_rng(3)

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    rows, n2 = sizes.batch, sizes.n2
    tokens = {
        "query": draw(rows, longest, sizes.n1, sizes.d),
        "key": draw(rows, longest, sizes.sets * n2, sizes.d),
        "value": draw(rows, longest, sizes.sets * n2, sizes.dv),
    }
    if not sizes.sparse:
        return tokens, {}
    tokens["gates"] = rng.random((rows, longest, 3, sizes.n1), np.float32)
    weights = {name: draw(sizes.block_size, n2) / sizes.block_size for name in ("k", "v")}
    positions = {
        "k": draw(sizes.block_size, n2, sizes.d),
        "v": draw(sizes.block_size, n2, sizes.dv),
    }
    parameters = {f"weight_{name}": weight for name, weight in weights.items()}
    return tokens, parameters | {f"position_{name}": x for name, x in positions.items()}


def step(runner, sizes, cache, texts, lengths, counts, cores, **options):
    """(output of the new tokens of every row, Counts)."""
    tokens, parameters = texts
    parts = {
        name: np.concatenate([x[b, n : n + k] for b, (n, k) in enumerate(zip(lengths, counts))])
        for name, x in tokens.items()
    }
    ends = np.cumsum(counts)
    out, launched = runner.run(sizes, cache, {**parts, **parameters}, ends, cores, **options)
    return np.split(out, ends[:-1]), launched


def rounded(x):
    return x.astype(np.float16).astype(np.float64)


def turned(x, positions):
    """Rotary positions of x [T, N, D], in float64."""
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * 10000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half].astype(np.float64), x[..., half:].astype(np.float64)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)


def attended(query, key, value, seen, scale):
    """Attention of query t over the keys that seen[t] marks, 0 where there are none."""
    out = np.zeros((len(query), query.shape[1], value.shape[-1]))
    group = query.shape[1] // key.shape[1]
    for t, which in enumerate(seen):
        for head in range(query.shape[1] if which.any() else 0):
            scores = key[which, head // group] @ query[t, head] * scale
            weights = np.exp(scores - scores.max())
            out[t, head] = weights @ value[which, head // group] / weights.sum()
    return out


def expected(sizes, texts, row, length):
    """All outputs of a row from the definition in float64, where every block is chosen."""
    tokens, parameters = texts
    q, k, v = (tokens[name][row, :length] for name in ("query", "key", "value"))
    at, n2, scale = np.arange(length), sizes.n2, sizes.d**-0.5
    q = rounded(turned(q, at))
    sets = [(k[:, i * n2 : (i + 1) * n2], v[:, i * n2 : (i + 1) * n2]) for i in range(sizes.sets)]
    last = (at <= at[:, None]) & (at > at[:, None] - sizes.window)
    key, value = sets[-1]
    window = attended(q, rounded(turned(key, at)), rounded(value), last, scale)
    if not sizes.sparse:
        return window
    key, value = sets[1 if sizes.sets == 3 else 0]
    causal = at <= at[:, None]
    selected = attended(q, rounded(turned(key, at)), rounded(value), causal, scale)
    starts = np.arange(0, length - sizes.block_size + 1, sizes.stride)
    compressed = []
    for x, name in zip(sets[0], "kv"):
        weight, position = parameters[f"weight_{name}"], parameters[f"position_{name}"]
        sums = [np.einsum("jn,jnd->nd", rounded(weight), rounded(x[s : s + sizes.block_size]))
                for s in starts]  # fmt: skip
        encoding = np.einsum("jn,jnd->nd", weight.astype(np.float64), position)
        compressed.append(rounded(np.array(sums).reshape(-1, *position.shape[1:])) + encoding)
    keys, values = rounded(turned(compressed[0], starts)), rounded(compressed[1])
    complete = starts + sizes.block_size <= at[:, None] + 1
    first = attended(q, keys, values, complete, scale)
    gates = tokens["gates"][row, :length].astype(np.float64)[..., None]
    return gates[:, 0] * first + gates[:, 1] * selected + gates[:, 2] * window


@pytest.mark.parametrize("kind", KINDS)
def test_steps_against_the_definition(cache_step_runner, kind):
    """And neither cores, the order in which they advance, nor waves change a bit."""
    sizes, drawn = KINDS[kind], texts(KINDS[kind])
    runs = ((24, 0, 0), (2, 1, 0), (5, 2, 3))
    caches = [cache_step_runner.cache(sizes) for _ in runs]
    lengths = np.zeros(sizes.batch, int)
    for counts in STEPS:
        found = [
            step(
                *(cache_step_runner, sizes, cache, drawn, lengths, counts, cores),
                seed=seed,
                wave_queries=waves,
            )[0]
            for cache, (cores, seed, waves) in zip(caches, runs)
        ]
        for row, (n, k) in enumerate(zip(lengths, counts)):
            wanted = expected(sizes, drawn, row, n + k)[n:]
            if k:
                error = np.abs(found[0][row] - wanted).max() / np.abs(wanted).max()
                assert error <= 2.0**-8, (counts, row, error)
        lengths = lengths + counts
        assert caches[0]["state"][:, HEADER].tolist() == lengths.tolist()
        assert caches[0]["state"][:, HEADER + 1].tolist() == lengths.tolist()
        assert set(caches[0]["state"][lengths > 0, LAYER_PLACE]) == {LAYER}
        for out, cache in zip(found[1:], caches[1:]):
            assert all(np.array_equal(a, b) for a, b in zip(out, found[0]))
            assert all(np.array_equal(cache[name], caches[0][name]) for name in cache)


# What a device's Tensors hold is not known before the kernel runs: the row, and what is wrong.
WRONG = {
    "negative length": ("state", (1, HEADER), -1),
    "no room": ("state", (1, HEADER), 96),
    "absurd length": ("state", (1, HEADER), 2**62),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_row_that_cannot_be_is_left_out(cache_step_runner, kind, name):
    """Nothing of it is written, its output is 0; other rows are as without it."""
    sizes, drawn, lengths = KINDS[kind], texts(KINDS[kind]), (30, 30, 30)
    right = cache_step_runner.cache(sizes)
    step(cache_step_runner, sizes, right, drawn, (0, 0, 0), lengths, 3)
    wrong = {key: x.copy() for key, x in right.items()}
    tensor, place, value = WRONG[name]
    wrong[tensor][place] = value
    before = {key: x[1].copy() for key, x in wrong.items()}
    out, _ = step(cache_step_runner, sizes, right, drawn, lengths, (2, 2, 2), 3)
    left, _ = step(cache_step_runner, sizes, wrong, drawn, lengths, (2, 2, 2), 3)
    assert not left[1].any() and np.array_equal(left[0], out[0]) and np.array_equal(left[2], out[2])
    for key, x in wrong.items():
        assert np.array_equal(x[1], before[key])
        if kind == "sparse" or key != "others":
            assert np.array_equal(x[[0, 2]], right[key][[0, 2]])


@pytest.mark.parametrize("ends", [(2, 1, 6), (-5, 2**62, 6), (2**62, 0, -1), (2, 4, 5)])
def test_lists_that_cannot_be(cache_step_runner, ends):
    """Nothing is read or written out of bounds."""
    sizes, drawn = KINDS["sparse"], texts(KINDS["sparse"])
    cache = cache_step_runner.cache(sizes)
    step(cache_step_runner, sizes, cache, drawn, (0, 0, 0), (30, 30, 30), 3)
    tokens, parameters = drawn
    parts = {name: x[0, :6] for name, x in tokens.items()}
    out, _ = cache_step_runner.run(sizes, cache, {**parts, **parameters}, ends, 3)
    assert np.isfinite(out).all()
    lengths = cache["state"][:, HEADER]
    assert (lengths >= 30).all() and lengths.sum() <= 96
