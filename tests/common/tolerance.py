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


def limit(plain_error, dtype, nsa=False):
    """Largest allowed e: max(2 e(plain), one ulp at 1), for NSA operators in float32 <= 1e-5."""
    bound = max(2 * plain_error, ULP[dtype])
    return min(bound, NSA_FLOAT32_LIMIT) if nsa and dtype == "float32" else bound


def check(name, ours, ref64, plain, dtype, nsa=False, terms=None):
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
        if got <= limit(plain_error, dtype, nsa):
            return
    worst = np.abs(np.where(np.isfinite(ref64), ours - ref64, 0))
    what = (
        f"{dtype}: e = {got:.3e} > {limit(plain_error, dtype, nsa):.3e} (plain {plain_error:.3e})"
    )
    raise AssertionError(_at(name, what, worst == worst.max(), ours, ref64))


def _at(name, what, places, ours, ref64):
    first = tuple(int(i) for i in np.argwhere(places)[0])
    return (
        f"{name} {what}; {int(places.sum())} of {places.size} elements, first at {first}: "
        f"got {ours[first]!r}, reference {ref64[first]!r}"
    )


def check_statistics(name, ours, ref64, plain, nsa=False):
    """softmax_max or softmax_sum: 8 equal lanes; rows that see nothing hold -+FLT_MAX exactly."""
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
    for r, (row, score, allowed, first) in enumerate(
        zip(rows, scores, candidate, forced, strict=True)
    ):
        problem = _topk_problem(row, score, allowed, first & allowed, tolerance)
        assert problem is None, (
            f"{name} row {r}: {problem}; got {row.tolist()}, forced {np.flatnonzero(first)}, "
            f"scores {score.tolist()}"
        )


def _topk_problem(row, score, candidate, forced, tolerance):
    count = min(len(row), int(candidate.sum()))
    chosen = row[:count]
    if (row[count:] != -1).any() or (chosen < 0).any():
        return f"expected {count} blocks, then -1"
    if (chosen >= len(score)).any() or not candidate[chosen].all():
        return "a block that is no candidate"
    if len(set(chosen.tolist())) != count:
        return "a block twice"
    first = np.flatnonzero(forced)[:count]
    if (chosen[: len(first)] != first).any():
        return "forced blocks not first and by index"
    free = chosen[len(first) :]
    best = -np.sort(-score[candidate & ~forced])[: len(free)]
    got = score[free]
    apart = np.where(
        got == best, 0, np.abs(np.where(got == best, 0, got) - np.where(got == best, 0, best))
    )
    if (apart > tolerance).any():
        return f"scores {got.tolist()} instead of {best.tolist()}"
    zeros = np.flatnonzero(candidate & ~forced & (score == 0))
    chosen_zeros = free[got == 0]
    if (chosen_zeros != zeros[: len(chosen_zeros)]).any():
        return "blocks of score 0 not by index"
    return None
