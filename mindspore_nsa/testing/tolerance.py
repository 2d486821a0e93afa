"""When an output is right: its error against the float64 reference, judged by the plain one's."""

import numpy as np

from mindspore_nsa.reference.attention import FLT_MAX

from .dtypes import ULP

NSA_FLOAT32_LIMIT = 1e-5
# A gradient smaller than this part of the terms that it is the difference of (a query that sees
# one key has dP = Dvec) is rounding noise of those terms, which sets its scale then.
CANCELLED = 1 / 2


def error(x, ref64, terms=None):
    """e(x) = max|x - ref64| / max|ref64| over the places where the reference is finite.

    `terms`, of a gradient: the tensor as it would be if nothing cancelled.
    """
    finite = np.isfinite(ref64)
    scale = np.abs(ref64[finite]).max(initial=0)
    if terms is not None:
        scale = max(scale, CANCELLED * np.abs(terms[finite]).max(initial=0))
    difference = np.abs(np.asarray(x, np.float64)[finite] - ref64[finite]).max(initial=0)
    return difference / scale if scale else np.where(difference, np.inf, 0.0)[()]


def limit(plain_error, dtype, nsa=False, ulps=1):
    """Largest allowed e: max(2 e(plain), `ulps` ulp at 1).

    For NSA operators in float32 also 1e-5, or e(plain) where that is not as good itself: scores of
    some hundred are rounded to 1e-5 before anything is summed.
    """
    bound = max(2 * plain_error, ulps * ULP[dtype])
    if nsa and dtype == "float32":
        return min(bound, max(NSA_FLOAT32_LIMIT, plain_error))
    return bound


def check(name, ours, ref64, plain, dtype, nsa=False, terms=None, ulps=1):
    """Assert that `ours` is as good as the plain implementation allows.

    `plain` is its output, or an iterable of its outputs for different orders of summation; e(plain)
    is the largest, and no more of them are drawn than it takes to pass.
    NaN and infinities must stand exactly where the reference has them; where the reference is 0
    throughout, ours must be exactly 0.
    """
    ours, ref64 = np.asarray(ours, np.float64), np.asarray(ref64, np.float64)
    assert ours.shape == ref64.shape, f"{name}: shape {ours.shape}, expected {ref64.shape}"
    wrong = ~np.isfinite(ref64) & ~((ours == ref64) | (np.isnan(ours) & np.isnan(ref64)))
    wrong |= np.isfinite(ref64) & ~np.isfinite(ours)
    assert not wrong.any(), _at(
        name, "not finite where it should be, or the reverse", wrong, ours, ref64
    )
    got, plain_error = error(ours, ref64, terms), 0.0
    for one in [plain] if isinstance(plain, np.ndarray) else plain:
        plain_error = max(plain_error, error(one, ref64, terms))
        if got <= limit(plain_error, dtype, nsa, ulps):
            return
    worst = np.abs(np.where(np.isfinite(ref64), ours - ref64, 0))
    most = limit(plain_error, dtype, nsa, ulps)
    what = f"{dtype}: e = {got:.3e} > {most:.3e} (plain {plain_error:.3e})"
    raise AssertionError(_at(name, what, worst == worst.max(), ours, ref64))


def _at(name, what, places, ours, ref64):
    first = tuple(int(i) for i in np.argwhere(places)[0])
    return (
        f"{name} {what}; {int(places.sum())} of {places.size} elements, first at {first}: "
        f"got {ours[first]!r}, reference {ref64[first]!r}"
    )


def check_statistics(name, ours, ref64, plain, nsa=False, ulps=1):
    """softmax_max or softmax_sum: 8 equal lanes; rows that see nothing hold -+FLT_MAX exactly.

    A sum of exponentials has 2 `ulps`: one of the exponentials, which no library gives better, and
    one of the sum. Of a few small sums those of the plain implementation may happen to be exact.
    """
    ours = np.asarray(ours)
    assert ours.shape == ref64.shape, f"{name}: shape {ours.shape}, expected {ref64.shape}"
    bits = np.ascontiguousarray(ours, np.float32).view(np.uint32)
    lanes = bits != bits[..., :1]
    assert not lanes.any(), _at(name, "lanes differ", lanes, ours, ref64)
    empty = np.abs(ref64) == FLT_MAX
    wrong = (ours != ref64) & empty
    assert not wrong.any(), _at(name, "of a row that sees nothing", wrong, ours, ref64)

    def rows_that_see(x):
        return np.where(empty, 0, x)[..., 0]

    plains = [plain] if isinstance(plain, np.ndarray) else plain
    check(
        name,
        rows_that_see(ours),
        rows_that_see(ref64),
        (rows_that_see(one) for one in plains),
        "float32",
        nsa,
        ulps=ulps,
    )


def check_topk(name, indices, scores, candidate, forced, tolerance):
    """Assert a choice of blocks, by score where scores tie.

    indices [..., cnt]; scores, candidate, forced [..., blocks], scores from the reference and
    believed to an absolute `tolerance`. Forced candidates come first, by index; then falling
    scores, equal ones by index as far as the reference can tell (exact zeros); then -1.
    """
    blocks = scores.shape[-1]
    assert indices.shape[:-1] == scores.shape[:-1], f"{name}: shape {indices.shape}"
    flat = (int(np.prod(scores.shape[:-1])), blocks)
    candidate, forced = (
        np.broadcast_to(x, scores.shape).reshape(flat) for x in (candidate, forced)
    )
    scores = np.where(np.isnan(scores), -np.inf, scores).reshape(flat)
    rows = indices.reshape(len(scores), indices.shape[-1])
    forced = forced & candidate
    for problem, bad in _topk_problems(rows, scores, candidate, forced, tolerance):
        if bad.any():
            r = int(np.flatnonzero(bad)[0])
            raise AssertionError(
                f"{name} row {r}: {problem}; got {rows[r].tolist()}, "
                f"forced {np.flatnonzero(forced[r])}, scores {scores[r].tolist()}"
            )


def _sorted_first(chosen):
    """For every row the numbers of its True places, ascending, then those of the others."""
    return np.argsort(~chosen, axis=-1, kind="stable")


def _topk_problems(rows, scores, candidate, forced, tolerance):
    """(what, rows where it is so), one after the other: each holds if those before it do not."""
    # A choice may be longer than there are blocks.
    blocks, places = scores.shape[-1], np.arange(rows.shape[-1])
    count = np.minimum(len(places), candidate.sum(-1))[:, None]
    chosen = places < count
    yield (
        "not its number of blocks, then -1",
        (np.where(chosen, rows < 0, rows != -1)).any(-1),
    )
    if blocks == 0:
        return
    at = np.where(chosen, np.minimum(rows, blocks - 1), 0)

    def taken(x):
        return np.take_along_axis(x, at, axis=-1)

    yield "a block that is no candidate", (chosen & ((rows >= blocks) | ~taken(candidate))).any(-1)
    # Numbers of their own for the places without a block.
    ordered = np.sort(np.where(chosen, rows, blocks + places), axis=-1)
    yield "a block twice", (ordered[:, 1:] == ordered[:, :-1]).any(-1)

    size = min(len(places), blocks)

    def padded(x):
        return np.pad(x[:, :size], ((0, 0), (0, len(places) - size)))

    fixed = chosen & (places < forced.sum(-1, keepdims=True))
    yield (
        "forced blocks not first and by index",
        (fixed & (rows != padded(_sorted_first(forced)))).any(-1),
    )
    free, others = chosen & ~fixed, candidate & ~forced
    # The others' scores falling, after as many places as are forced.
    falling = -np.sort(-np.where(others, scores, -np.inf), axis=-1)
    before = fixed.sum(-1, keepdims=True)
    best = np.take_along_axis(falling, np.clip(places - before, 0, blocks - 1), axis=-1)
    got = taken(scores)
    same = got == best
    apart = np.abs(np.where(same, 0, got) - np.where(same, 0, best))
    yield "worse scores than others have", (free & (apart > tolerance)).any(-1)
    zeros = others & (scores == 0)
    # Of those of score 0 the n-th in the row is the n-th by index.
    rank = np.cumsum(zeros, axis=-1) - 1
    zero = free & (got == 0)
    yield (
        "blocks of score 0 not by index",
        (zero & (taken(rank) != np.cumsum(zero, axis=-1) - 1)).any(-1),
    )
