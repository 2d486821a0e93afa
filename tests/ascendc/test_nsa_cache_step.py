"""NsaCacheStep in Ascend C, on the twin: cores, waves, and what a device's Tensors may say."""

import numpy as np
import pytest

from mindspore_nsa.nn.cache_state import HEADER
from mindspore_nsa.nn.cache_state import LAYER as LAYER_PLACE
from tests.common.tiles import around, tile

from .attention_checks import calls_of
from .cache_cases import GROUPS, HALVES
from .cache_step_cases import (
    FAR,
    TOLERANCE,
    Tally,
    check_steps,
    definition,
    make_cache_step,
    make_tokens,
)
from .cache_step_runner import LAYER, Sizes

CONFIGURATIONS = 64
LENGTHS = tile("kStepLengths", "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_tiling.h")
KINDS = {
    "sparse": Sizes(),
    "shared": Sizes(shared=True),
    "dense": Sizes(sparse=False, window=2**31),
    "window": Sizes(sparse=False),
}
# New tokens of the rows: prompts, then a token, none, and more than the rings hold beside a window.
STEPS = ((40, 0, 25), (1, 1, 0), (3, 50, 30), (0, 1, 1))


def texts(sizes, longest=64):
    """Projections of the tokens of every row, and parameters."""
    return make_tokens(sizes, longest, np.random.default_rng(3))


@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, 32))
def test_random_configurations(cache_step_runner, first):
    """Outputs, the blocks that they hang on, and all that the cache holds afterwards."""
    tally = Tally()
    for seed in range(first, first + 32):
        tally.add(check_steps(cache_step_runner, make_cache_step(seed), calls_of(seed)))
    assert tally.ties <= tally.cells / 20 <= tally.leaving_out


def test_the_cases_cover_what_matters():
    """Every kind of layer, rows that go back, begin anew, get nothing or are long, and rings that
    have gone round."""
    cases = [make_cache_step(seed) for seed in range(CONFIGURATIONS)]
    sizes = [case.sizes for case in cases]
    assert {s.n1 // s.n2 for s in sizes} >= set(GROUPS)
    assert [sum(s.dtype == dtype for s in sizes) for dtype in HALVES] == [CONFIGURATIONS // 2] * 2
    separate = sum(s.sets == 3 for s in sizes)
    assert min(separate, sum(s.shared for s in sizes), sum(not s.sparse for s in sizes)) > 8
    steps = [step for case in cases for step in case.steps]
    assert min(sum(step.listed for step in steps), sum(not step.listed for step in steps)) > 20
    assert sum(0 in step.counts for step in steps) > 20
    back, emptied, round_again = 0, 0, 0
    for case in cases:
        before, most = case.lengths, max(case.lengths)
        for step in case.steps:
            shorter = [n for n, old in zip(step.lengths, before) if n < old]
            back, emptied = back + any(shorter), emptied + (0 in shorter)
            before = tuple(n + k for n, k in zip(step.lengths, step.counts))
            most = max(most, *before)
        round_again += case.sizes.sparse and most > case.sizes.places()[2]
    assert back > 10 and emptied > 3 and round_again > 10
    assert sum(min(case.lengths) > FAR - 5 for case in cases) == CONFIGURATIONS // 8


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
            if k:
                tokens = {name: x[row, : n + k] for name, x in drawn[0].items()}
                wanted, _, leaving_out = definition(sizes, drawn[1], tokens, n)
                error = np.abs(found[0][row] - wanted).max() / np.abs(wanted).max()
                assert error <= TOLERANCE[sizes.dtype] and not leaving_out.any(), (
                    counts,
                    row,
                    error,
                )
        lengths = lengths + counts
        assert caches[0]["state"][:, HEADER].tolist() == lengths.tolist()
        assert caches[0]["state"][:, HEADER + 1].tolist() == lengths.tolist()
        assert set(caches[0]["state"][lengths > 0, LAYER_PLACE]) == {LAYER}
        for out, cache in zip(found[1:], caches[1:]):
            assert all(np.array_equal(a, b) for a, b in zip(out, found[0]))
            assert all(np.array_equal(cache[name], caches[0][name]) for name in cache)


@pytest.mark.parametrize("window", [2**31, 695])
def test_tokens_that_share_products(cache_step_runner, window):
    """Up to 16 tokens of a row share the splits of keys that all of them see, as long as they see
    all of the row: the bits are those of a token at a time."""
    sizes = Sizes(batch=2, capacity=760, d=16, sparse=False, window=window)
    drawn, counts = texts(sizes, 720), np.array((20, 3))
    lengths = np.array((690, 40))
    cache = cache_step_runner.cache(sizes)
    step(cache_step_runner, sizes, cache, drawn, (0, 0), lengths, 24)
    one_by_one = {name: x.copy() for name, x in cache.items()}
    together, _ = step(cache_step_runner, sizes, cache, drawn, lengths, counts, 3)
    alone = [[], []]
    for i in range(max(counts)):
        here = (counts > i).astype(int)
        before = lengths + np.minimum(counts, i)
        out, _ = step(cache_step_runner, sizes, one_by_one, drawn, before, here, 5)
        for row in (0, 1):
            alone[row].append(out[row])
    for row, (n, k) in enumerate(zip(lengths, counts)):
        assert np.array_equal(together[row], np.concatenate(alone[row]))
        tokens = {name: x[row, : n + k] for name, x in drawn[0].items()}
        wanted, _, _ = definition(sizes, drawn[1], tokens, n)
        assert np.abs(together[row] - wanted).max() <= TOLERANCE[sizes.dtype] * np.abs(wanted).max()


@pytest.mark.parametrize("rows", [*around(LENGTHS), 2 * LENGTHS + 1])
def test_more_rows_of_a_core_than_lengths_at_a_time(cache_step_runner, rows):
    """Each of the two vector cores of a cube core reads that many rows' lengths."""
    sizes = Sizes(batch=2 * rows, capacity=8, n1=1, n2=1, d=16, sparse=False, window=5)
    drawn, cache = texts(sizes, 7), cache_step_runner.cache(sizes)
    lengths = np.zeros(sizes.batch, int)
    for counts in (np.arange(sizes.batch) % 5, np.ones(sizes.batch, int)):
        found, _ = step(cache_step_runner, sizes, cache, drawn, lengths, counts, 1)
        for row in np.flatnonzero(counts):
            n = lengths[row]
            tokens = {name: x[row, : n + counts[row]] for name, x in drawn[0].items()}
            wanted, _, _ = definition(sizes, drawn[1], tokens, n)
            error = np.abs(found[row] - wanted).max()
            assert error <= TOLERANCE[sizes.dtype] * np.abs(wanted).max(), (row, error)
        lengths = lengths + counts
        assert cache["state"][:, HEADER].tolist() == lengths.tolist()


# Only the kernel sees the contents of a device's Tensors: the row, and its fault.
WRONG = {
    "negative length": ("state", (1, HEADER), -1),
    "no room": ("state", (1, HEADER), 96),
    "absurd length": ("state", (1, HEADER), 2**62),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_row_that_cannot_be_is_left_out(cache_step_runner, kind, name):
    """Nothing of it is written, its output is 0; other rows are as without it. The new tokens would
    complete a compression window."""
    sizes, drawn, lengths = KINDS[kind], texts(KINDS[kind]), (30, 30, 30)
    right = cache_step_runner.cache(sizes)
    step(cache_step_runner, sizes, right, drawn, (0, 0, 0), lengths, 3)
    wrong = {key: x.copy() for key, x in right.items()}
    tensor, place, value = WRONG[name]
    wrong[tensor][place] = value
    before = {key: x[1].copy() for key, x in wrong.items()}
    out, _ = step(cache_step_runner, sizes, right, drawn, lengths, (4, 4, 4), 3)
    left, _ = step(cache_step_runner, sizes, wrong, drawn, lengths, (4, 4, 4), 3)
    assert not left[1].any() and np.array_equal(left[0], out[0]) and np.array_equal(left[2], out[2])
    for key, x in wrong.items():
        assert np.array_equal(x[1], before[key])
        if kind == "sparse" or key != "others":
            assert np.array_equal(x[[0, 2]], right[key][[0, 2]])


LISTS = ((2, 1, 6), (-5, 2**62, 6), (2**62, 0, -1), (2, 4, 5), (2, 4, 9))


@pytest.mark.parametrize("ends", LISTS)
def test_lists_that_cannot_be(cache_step_runner, ends):
    """Nothing is read or written out of bounds: rows get what there is, the rest is of no row."""
    sizes, drawn = KINDS["sparse"], texts(KINDS["sparse"])
    cache = cache_step_runner.cache(sizes)
    step(cache_step_runner, sizes, cache, drawn, (0, 0, 0), (30, 30, 30), 3)
    tokens, parameters = drawn
    parts = {name: x[0, :6] for name, x in tokens.items()}
    out, _ = cache_step_runner.run(sizes, cache, {**parts, **parameters}, ends, 3)
    assert np.isfinite(out).all()
    end = np.minimum(6, np.maximum.accumulate(np.maximum(ends, 0)))
    assert out[: end[-1]].any((1, 2)).all() and not out[end[-1] :].any()
    lengths = cache["state"][:, HEADER]
    assert lengths.tolist() == (30 + np.diff(end, prepend=0)).tolist()
    keys = cache["selected"].reshape(3, sizes.n2, -1)[..., : sizes.capacity * sizes.d]
    written = keys.reshape(3, sizes.n2, sizes.capacity, sizes.d).any((1, 3))
    assert written.sum(-1).tolist() == lengths.tolist()


def test_traffic(cache_step_runner):
    """Every token of the cache that a branch reads comes once, every new one goes to it once; none
    of it hangs on the capacity."""
    n1, n2, d, dv, rows, select, count, window = 32, 2, 64, 32, 1, 64, 16, 512
    block, stride, length, half = 32, 16, 4111, 2
    numbers = []
    for capacity in (4200, 8400):
        sizes = Sizes(rows, capacity, n1, n2, d, dv, window=window, block_size=block, stride=stride,
                      select_size=select, count=count)  # fmt: skip
        rng = np.random.default_rng(3)
        cache = cache_step_runner.cache(sizes)
        for name in ("selected", "others"):
            cache[name][:] = rng.standard_normal(cache[name].shape).astype(np.float16)
        cache["state"][:, HEADER] = cache["state"][:, HEADER + 1] = length
        tokens, parameters = make_tokens(sizes, 1, rng)
        new = {name: x[0] for name, x in tokens.items()}
        _, counts = cache_step_runner.run(sizes, cache, {**new, **parameters}, [1], 8)
        numbers.append(counts)
    # The token completes a window; its own block, which is forced, has 16 tokens.
    keys = ((length + 1 - block) // stride + 1, (count - 1) * select + 16, window)
    parts = [-(-k // 256) for k in keys]
    between = sum(k * n1 * (4 + 2) + p * n1 * (dv * 4 + 64) for k, p in zip(keys, parts))
    blocks, sums, outputs = n2 * count * 4, keys[0] * n2 * 4, 3 * n1 * dv * half
    token, state = n2 * (d + dv) * half, rows * (HEADER + 2) * 8
    # Three sets, two of which go into rings later, and the window's compressed token.
    stored = n1 * d * half + (3 + 2 + 1) * token
    # The length of every row is written where the cores read it.
    written = stored + between + sums + blocks + outputs + n1 * dv * half + state + rows * 8
    assert [each.gm_written for each in numbers] == [written] * 2
    cached = sum(keys) * token
    ranked = keys[0] * n1 * 4 + n1 * 3 * 32 + sums
    compressed = block * (token + n2 * (2 * 4 + (d + dv) * 4))
    read = (n1 * d + 3 * n2 * (d + dv)) * 4 + compressed + 2 * token + state
    read += cached + sum(parts) * n1 * d * half + between + ranked + outputs + 3 * n1 * 4
    # Beside them angles of a core's positions, and lists by the cache line.
    assert read <= numbers[0].gm_read <= read + 64 * 1024
    assert numbers[0].gm_read == numbers[1].gm_read


def check_shared_traffic(runner):
    """Eight new tokens of a dense row read what all of them see once, and the rest each."""
    n1, n2, d, dv, length, new, half = 16, 2, 64, 32, 2300, 8, 2
    sizes = Sizes(1, length + new, n1, n2, d, dv, sparse=False, window=2**31)
    rng = np.random.default_rng(3)
    cache = runner.cache(sizes)
    cache["selected"][:] = rng.standard_normal(cache["selected"].shape).astype(np.float16)
    cache["state"][:, HEADER] = cache["state"][:, HEADER + 1] = length
    tokens, parameters = make_tokens(sizes, new, rng)
    _, counts = runner.run(sizes, cache, {**{n: x[0] for n, x in tokens.items()}, **parameters},
                           [new], 8)  # fmt: skip
    # Eight splits are common to all. Of the ninth every token sees another share until the last
    # five see all of it, four of which see another share of a tenth each.
    seen = [length + 1 + i for i in range(new)]
    own = [n - 2048 for n in seen]
    assert [n >= 256 for n in own] == [False] * 3 + [True] * 5 and own[3] == 256
    parts = new * 9 + 4
    token, state = n2 * (d + dv) * half, (HEADER + 2) * 8
    cached = (2048 + sum(own[:3]) + 256 + sum(n - 256 for n in own[4:])) * token
    between = sum(seen) * n1 * (4 + 2) + parts * n1 * (dv * 4 + 64)
    stored, output = new * (n1 * d * half + token), new * n1 * dv * half
    assert counts.gm_written == stored + between + output + state + 8
    read = new * (n1 * d + n2 * (d + dv)) * 4 + cached + between + parts * n1 * d * half + state
    assert read <= counts.gm_read <= read + 64 * 1024


def test_shared_traffic(cache_step_runner):
    check_shared_traffic(cache_step_runner)
