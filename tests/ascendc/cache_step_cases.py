"""Random steps of a layer over its cache: the definition in float64 of what comes out of one, and
of what the cache holds afterwards."""

from dataclasses import dataclass

import numpy as np

from mindspore_nsa.nn.cache_state import HEADER
from mindspore_nsa.nn.cache_state import LAYER as LAYER_PLACE
from mindspore_nsa.reference.importance import block_scores, candidates_and_forced, top_blocks
from mindspore_nsa.reference.rows import windows
from mindspore_nsa.testing.dtypes import BFLOAT16, encode, from_bfloat16_bits, round_to
from tests.common.draw import Draw
from tests.common.tiles import tile

from .attention_checks import same_bits
from .cache_cases import GROUPS, HALVES
from .cache_step_runner import LAYER, Sizes
from .launch import raw

DIMS = (16, 32, 48, 128, 192, 256)
# Positions from this one on are the sum of two angles.
FAR = tile("kAngleStep", "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_tiling.h")
# Relative to the largest number of a row; and the least gap between the last chosen block and the
# next one.
TOLERANCE = {"float16": 2.0**-9, BFLOAT16: 2.0**-6}
TIE = {"float16": 2.0**-7, BFLOAT16: 2.0**-5}


def rounded(sizes, x):
    """Values of the cache's dtype, in float64."""
    return round_to(x, sizes.dtype).astype(np.float64)


def _values(sizes, array):
    """Values of an array as it lies in memory, in float64."""
    return (from_bfloat16_bits(array) if sizes.dtype == BFLOAT16 else array).astype(np.float64)


def turned(x, positions):
    """Rotary positions of x [T, N, D], in float64."""
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * 10000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half].astype(np.float64), x[..., half:].astype(np.float64)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)


def probabilities(query, key, seen, scale):
    """Softmax [T, N1, S] of query [T, N1, D] over what seen [T, N2, S] marks, 0 where nothing is.

    key: [S, N2, D].
    """
    heads, group = key.shape[1], query.shape[1] // key.shape[1]
    q = query.reshape(len(query), heads, group, -1)
    scores = np.where(seen[:, :, None], np.einsum("tngd,snd->tngs", q, key) * scale, -np.inf)
    highest = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isfinite(highest), highest, 0))
    weights /= np.maximum(weights.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    return weights.reshape(*query.shape[:2], len(key))


def weighted(weights, value):
    """Values [S, N2, Dv] of the probabilities [T, N1, S]."""
    heads = value.shape[1]
    p = weights.reshape(len(weights), heads, weights.shape[1] // heads, len(value))
    return np.einsum("tngs,snd->tngd", p, value).reshape(*weights.shape[:2], value.shape[2])


def _sets(sizes, x):
    """Split tokens [T, sets * N2, D]: the compressed, the selected and the last branch's."""
    parts = [x[:, i * sizes.n2 : (i + 1) * sizes.n2] for i in range(sizes.sets)]
    return parts if sizes.sets == 3 else parts * 3


def _compressed(sizes, parameters, x, name):
    starts = np.arange(windows(len(x), sizes.block_size, sizes.stride)) * sizes.stride
    weight, position = parameters[f"weight_{name}"], parameters[f"position_{name}"]
    tokens = rounded(sizes, x)[starts[:, None] + np.arange(sizes.block_size)]
    sums = np.einsum("jn,wjnd->wnd", rounded(sizes, weight), tokens)
    encoding = np.einsum("jn,jnd->nd", weight.astype(np.float64), position)
    return rounded(sizes, sums) + encoding, starts


def held(sizes, parameters, tokens):
    """Keys and values of a row as its cache holds them, by the part of the cache."""
    at = np.arange(len(tokens["key"]))
    keys, values = (_sets(sizes, tokens[name]) for name in ("key", "value"))
    parts = {
        "selected": (rounded(sizes, turned(keys[1], at)), rounded(sizes, values[1])),
        "window": (rounded(sizes, turned(keys[2], at)), rounded(sizes, values[2])),
    }
    if not sizes.sparse:
        return parts
    key, starts = _compressed(sizes, parameters, keys[0], "k")
    value, _ = _compressed(sizes, parameters, values[0], "v")
    compressed = rounded(sizes, turned(key, starts)), rounded(sizes, value)
    return {
        **parts,
        "compressed": compressed,
        "raw": (rounded(sizes, keys[0]), rounded(sizes, values[0])),
    }


def _chosen(sizes, weights, first):
    """Blocks [T, N2, count], and where no other has nearly the score of the last one."""
    queries, at = len(weights), first + np.arange(len(weights))
    summed = weights.reshape(queries, sizes.n2, sizes.n1 // sizes.n2, weights.shape[-1]).sum(2)
    blocks = int(at[-1]) // sizes.select_size + 1
    m, n = sizes.select_size // sizes.stride, sizes.block_size // sizes.stride
    scores = block_scores(summed, blocks, m, n, "overlap" if sizes.overlap else "cann")
    candidate, forced = (
        x[:, None]
        for x in candidates_and_forced(
            queries,
            blocks,
            causal=True,
            q_offset=first,
            select_block_size=sizes.select_size,
            init_blocks=sizes.init,
            local_blocks=sizes.local,
        )
    )
    ranked = -np.sort(-np.where(candidate & ~forced, scores, -1), -1)
    ranked = np.concatenate((ranked, np.full((*ranked.shape[:2], 1), -1.0)), -1)
    last = np.clip(sizes.count - forced.sum(-1), 0, blocks)[..., None]
    kept, left = (
        np.take_along_axis(ranked, np.broadcast_to(i, (*ranked.shape[:2], 1)), -1)[..., 0]
        for i in (np.maximum(last - 1, 0), last)
    )
    clear = (last[..., 0] == 0) | (left < 0) | (kept - left > TIE[sizes.dtype] * kept) | (kept == 0)
    return top_blocks(scores, candidate, forced, sizes.count), clear


def definition(sizes, parameters, tokens, first):
    """Expected outputs [T, N1, Dv] of the tokens of a row from `first` on, and two masks
    [T, N2]: rows that choose blocks whose scores do not tie, and those that leave some out."""
    parts, scale = held(sizes, parameters, tokens), sizes.d**-0.5
    at, tokens_at = np.arange(first, len(tokens["key"])), np.arange(len(tokens["key"]))
    query = rounded(sizes, turned(tokens["query"][first:], at))
    back = at[:, None] - tokens_at

    def attention(name, seen):
        seen = np.broadcast_to(seen, (len(at), sizes.n2, len(parts[name][0])))
        weights = probabilities(query, parts[name][0], seen, scale)
        return weighted(weights, parts[name][1]), weights

    last, _ = attention("window", ((back >= 0) & (back < sizes.window))[:, None])
    if not sizes.sparse:
        return last, np.ones((len(at), sizes.n2), bool), np.zeros((len(at), sizes.n2), bool)
    starts = np.arange(len(parts["compressed"][0])) * sizes.stride
    complete = starts + sizes.block_size <= at[:, None] + 1
    compressed, weights = attention("compressed", complete[:, None])
    chosen, clear = _chosen(sizes, weights, first)
    inside = (chosen[..., None] == tokens_at // sizes.select_size).any(2)
    selected, _ = attention("selected", inside & (back >= 0)[:, None])
    gates = tokens["gates"][first:].astype(np.float64)[..., None]
    out = gates[:, 0] * compressed + gates[:, 1] * selected + gates[:, 2] * last
    leaves_out = (chosen >= 0).sum(-1) < (at // sizes.select_size + 1)[:, None]
    return out, clear, leaves_out


def write(sizes, cache, row, parts, before, after):
    """The tokens [before, after) of a row, of which `parts` are held, go into its cache."""
    places = {"selected": sizes.capacity}
    tensors = [("selected", places)]
    if sizes.sparse:
        tensors.append(("others", dict(zip(("compressed", "window", "raw"), sizes.places()))))
    for tensor, places in tensors:
        memory, begin = cache[tensor][row].reshape(sizes.n2, -1), 0
        for name, count in places.items():
            old, new = before, after
            if name == "compressed":
                old, new = (windows(n, sizes.block_size, sizes.stride) for n in (before, after))
            # A ring holds the last ones.
            at = np.arange(max(old, new - count), new) if count else np.arange(0)
            for x in parts[name]:
                end = begin + count * x.shape[-1]
                to = memory[:, begin:end].reshape(sizes.n2, count, x.shape[-1])
                to[:, at % max(count, 1)] = x[at].swapaxes(0, 1)
                begin = end


@dataclass(frozen=True)
class Step:
    """A step of the rows: the tokens that they keep, and new ones."""

    lengths: tuple
    counts: tuple
    listed: bool  # the counts are


@dataclass
class Steps:
    """A layer's sizes, tokens and parameters, lengths that rows have had before, and steps."""

    name: str
    sizes: Sizes
    tokens: dict  # [B, tokens that a row gets in all steps, ...]
    parameters: dict
    lengths: tuple
    steps: list
    stale: bool  # a row that is emptied keeps its most tokens

    def __str__(self):
        return f"{self.name}: {self.sizes} {self.lengths} {self.steps}"


def make_tokens(sizes, longest, rng):
    """Projections of the tokens of every row, and parameters."""

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


def _make_sizes(draw, far, many):
    group, dims = draw.pick((1, 5, 16) if far else GROUPS), (16,) if far else DIMS
    n2 = draw.between(1, 3 if group < 8 else 2)
    d, dv = draw.pick(dims), draw.pick(dims)
    if many:  # heads of a key or value that are more than a tile
        group, n2, d, dv = 1, draw.between(17, 20), 256, 256
    sparse = many or draw.chance(0.75)
    stride = draw.pick((1, 2, 4, 16))
    block = draw.between(1, 3)
    count = draw.pick((1, 2, 3, 8, 16))
    init = draw.between(0, min(2, count))
    longest = 2200 if far else draw.pick((5, 40, 150, 400))
    return Sizes(
        batch=draw.between(1, 3),
        capacity=longest + draw.between(0, 5),
        n1=group * n2,
        n2=n2,
        d=d,
        dv=dv,
        sparse=sparse,
        shared=sparse and not many and draw.chance(0.4),
        window=draw.pick((1, 2, 7, 64, 300) if sparse else (5, 64, 2**31)),
        rollback=draw.pick((0, 3, 8, 64)),
        block_size=block * stride,
        stride=stride,
        select_size=(block + draw.between(0, 3)) * stride,
        count=count,
        init=init,
        local=draw.between(0, min(3, count - init)),
        overlap=draw.chance(0.5),
        dtype=draw.dtype,
    )


def _shorter(draw, sizes, length, most):
    """A length that a row can go back to."""
    if draw.chance(0.6):
        return length
    _, ring, raw = sizes.places()
    rings = [raw] if sizes.shared else [ring, raw]
    lost = most - sizes.rollback if sizes.sparse and most > min(rings) else 0
    return 0 if draw.chance(0.2) else draw.between(min(max(0, lost), length), length)


def _start(draw, sizes):
    """Tokens that a row has before the steps; often the next one completes a window."""
    most = sizes.capacity - 1
    almost = sizes.block_size - 1 + sizes.stride * draw.between(0, 3)
    return draw.pick((0, most, draw.between(0, most), min(almost, most)))


def make_cache_step(seed, dtype=None):
    """The random case of that seed; every eighth has rows of more than 2048 tokens, another eighth
    many heads. Eight of float16 are followed by eight of bfloat16, unless a `dtype` is named."""
    draw = Draw(seed, dtype or HALVES[seed // 8 % 2])
    far, many = seed % 8 == 7, seed % 8 == 3
    sizes, stale = _make_sizes(draw, far, many), draw.chance(0.5)
    if many:
        sizes.capacity = min(sizes.capacity, 60)
    if far:
        lengths = [draw.between(FAR - 4, FAR + 2) for _ in range(sizes.batch)]
    else:
        lengths = [_start(draw, sizes) for _ in range(sizes.batch)]
    starts, steps = tuple(lengths), []
    most, given = list(lengths), list(lengths)
    for _ in range(draw.between(1, 3)):
        lengths = [_shorter(draw, sizes, *x) for x in zip(lengths, most)]
        listed = draw.chance(0.7)
        longest = draw.pick((1, 1, 4) if far or many else (1, 1, 4, 30))
        counts = [draw.between(0, min(longest, sizes.capacity - n)) for n in lengths]
        if not listed:
            counts = [min(counts)] * sizes.batch
        if not steps and not any(counts):
            counts = [1] * sizes.batch
        if not any(counts):
            continue
        steps.append(Step(tuple(lengths), tuple(counts), listed))
        most = [0 if n == 0 and not stale else m for n, m in zip(lengths, most)]
        lengths = [n + k for n, k in zip(lengths, counts)]
        most = [max(n, m) if n else 0 for n, m in zip(lengths, most)]
        given = [n + k for n, k in zip(given, counts)]
    tokens, parameters = make_tokens(sizes, max(given), draw.rng)
    return Steps(f"seed {seed}", sizes, tokens, parameters, starts, steps, stale)


@dataclass
class Tally:
    """Cells of steps: all, those whose blocks tie within rounding, which are not compared, and
    those that leave blocks out; and the largest error that was found."""

    cells: int = 0
    ties: int = 0
    leaving_out: int = 0
    error: float = 0.0

    def add(self, other):
        """Count those of another one, too."""
        self.cells += other.cells
        self.ties += other.ties
        self.leaving_out += other.leaving_out
        self.error = max(self.error, other.error)


def _compare(case, row, out, wanted, clear, tally):
    heads = np.repeat(clear, case.sizes.n1 // case.sizes.n2, -1)
    error = np.where(heads, np.abs(out - wanted).max(-1), 0).max() / np.abs(wanted).max()
    tally.error = max(tally.error, error)
    assert error <= TOLERANCE[case.sizes.dtype], (
        f"{case}: row {row} is off by {error} of the largest"
    )


def _same_cache(case, cache, expected):
    for name in ("selected", "others"):
        found, wanted = _values(case.sizes, cache[name]), expected[name]
        known = ~np.isnan(wanted)
        assert np.isnan(found[~known]).all(), f"{case}: {name} written where nothing belongs"
        scale = np.abs(wanted[known]).max(initial=0)
        error = np.abs(found - wanted)[known].max(initial=0)
        assert error <= TOLERANCE[case.sizes.dtype] * scale, (
            f"{case}: {name} holds what is off by {error}"
        )
    assert np.array_equal(cache["state"], expected["state"]), f"{case}: state"


def check_steps(runner, case, calls):
    """Outputs and cache as defined, without a warning, and the same bits for every (cores, seed) of
    `calls`; the Tally of them."""
    sizes, tally = case.sizes, Tally()
    expected = runner.cache(sizes)
    for name in ("selected", "others"):
        expected[name] = np.full(expected[name].shape, np.nan)
    state = expected["state"]
    state[:] = np.arange(state.size).reshape(state.shape) + 1000
    state[:, HEADER] = state[:, HEADER + 1] = case.lengths
    history = [np.arange(n) for n in case.lengths]
    fed = list(case.lengths)
    row_tokens = [{name: x[b] for name, x in case.tokens.items()} for b in range(sizes.batch)]

    def of(b):
        return {name: x[history[b]] for name, x in row_tokens[b].items()}

    for b, length in enumerate(case.lengths):
        write(sizes, expected, b, held(sizes, case.parameters, of(b)), 0, length)
    stored = {name: raw(encode(expected[name], sizes.dtype)) for name in ("selected", "others")}
    caches = [
        {"state": state.copy(), **{name: x.copy() for name, x in stored.items()}} for _ in calls
    ]
    for step in case.steps:
        for b, (length, count) in enumerate(zip(step.lengths, step.counts)):
            history[b] = np.append(history[b][:length], fed[b] + np.arange(count))
            fed[b] += count
        lengths = np.array(step.lengths)
        for each in (expected, *caches):
            each["state"][:, HEADER] = lengths
            each["state"][lengths == 0, HEADER + 1] *= case.stale
        new = {
            name: np.concatenate([of(b)[name][n:] for b, n in enumerate(step.lengths)])
            for name in case.tokens
        }
        ends = np.cumsum(step.counts)
        first = None
        for cache, (cores, seed) in zip(caches, calls):
            given = ends if step.listed else None
            out, counts = runner.run(sizes, cache, {**new, **case.parameters}, given, cores, seed)
            assert counts.warnings == 0, f"{case}: {counts.warnings} warnings"
            bits = [out, *(cache[name] for name in ("selected", "state", "others"))]
            first = bits if first is None else first
            assert same_bits(first, bits), f"{case}: other bits on {cores} cores, seed {seed}"
        for b, (out, n) in enumerate(zip(np.split(first[0], ends[:-1]), step.lengths)):
            if not len(out):
                continue
            wanted, clear, leaving_out = definition(sizes, case.parameters, of(b), n)
            tally.add(Tally(clear.size, (~clear).sum(), leaving_out.sum()))
            _compare(case, b, out, wanted, clear, tally)
            write(sizes, expected, b, held(sizes, case.parameters, of(b)), n, n + len(out))
            state[b, LAYER_PLACE] = LAYER
        after = state[:, HEADER] = lengths + step.counts
        state[:, HEADER + 1] = np.where(after == 0, 0, np.maximum(after, state[:, HEADER + 1]))
        _same_cache(case, caches[0], expected)
    return tally
