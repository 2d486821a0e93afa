"""When an output is right: its error against the float64 reference, judged by the plain one's."""

import numpy as np

from mindspore_nsa.reference.attention import FLT_MAX

from .dtypes import SMALLEST_NORMAL, ULP

# A gradient smaller than this part of the terms that it is the difference of (a query that sees
# one key has dP = Dvec) is rounding noise of those terms, which sets its scale then.
CANCELLED = 1 / 2


def limit(plain_error, dtype, nsa=False, what="tensor"):
    """The largest error that passes; `plain_error` is that of the plain formula, measured alike."""
    if what == "topk":  # two scores, in units of the largest
        return max(1e-5, 4 * plain_error)
    if what == "picks":  # a score, in units of what its terms can add up to
        return 1e-5
    # A loss has two exponentials and a logarithm, a row of float32 may have a few terms only.
    row = 4 if dtype == "float32" else 1
    units = {"tensor": 1, "row": row, "softmax_max": 1, "softmax_sum": 2, "loss": 4}[what]
    bound = max(2 * plain_error, units * ULP[dtype])
    if nsa and dtype == "float32" and what != "row":
        # Scores of some hundred are rounded to 1e-5 before anything is summed.
        bound = min(bound, max(1e-5, plain_error))
    return bound


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


def row_errors(x, ref64, width, scales, unflushed=None):
    """max|x - ref64| of each row of `width` elements, in units of the row's scale.

    A row whose scale is 0 must be right to the bit. With `unflushed` the error is the distance from
    what lies between the two references.
    """
    x, other = np.asarray(x, np.float64), ref64 if unflushed is None else unflushed
    nearest = np.clip(x, np.fmin(ref64, other), np.fmax(ref64, other))
    off = np.abs(np.where(np.isfinite(ref64), x - nearest, 0))
    off = off.reshape(-1, width).max(axis=1)
    return np.divide(off, scales, where=scales > 0, out=np.where(off > 0, np.inf, 0.0))


def row_scales(sizes, width, dtype):
    """The scale of each row: its largest sum of absolute terms.

    Unless there are no terms, it is no less than the smallest normal number.
    """
    sizes = np.abs(np.where(np.isfinite(sizes), sizes, 0)).reshape(-1, width).max(axis=1)
    return np.where(sizes > 0, np.maximum(sizes, SMALLEST_NORMAL[dtype]), 0)


def check_rows(name, ours, ref64, plain, dtype, width, sizes, unflushed=None):
    """Assert that every row of `width` elements is as good as the plain implementation's worst.

    `sizes` gives a tensor of the sums of absolute terms. P or dS is rounded, and so is the output,
    each by half a unit of these sums at most: one unit is the floor of 16 bits. In float32 it is
    four, for exponentials and sums of few terms. `unflushed` gives the reference that keeps
    probabilities below the smallest normal float32: a kernel may keep them or count them as 0.
    """
    if not width or not np.size(ref64):
        return
    ours, ref64 = np.asarray(ours, np.float64), np.asarray(ref64, np.float64)
    # Sums of absolute terms are no smaller than the sums, so most calls pass without them.
    own = row_scales(ref64, width, dtype)
    if row_errors(ours, ref64, width, own).max() <= limit(0, dtype, what="row"):
        return
    scales = row_scales(sizes(), width, dtype)
    kept = None if unflushed is None else unflushed()
    errors, plain_error = row_errors(ours, ref64, width, scales, kept), 0.0
    for one in plain:
        plain_error = max(plain_error, row_errors(one, ref64, width, scales).max())
        if errors.max() <= limit(plain_error, dtype, what="row"):
            return
    most = limit(plain_error, dtype, what="row")
    bad = errors > most
    row = int(errors.argmax())
    raise AssertionError(
        f"{name} {dtype}: {int(bad.sum())} of {bad.size} rows of {width}, the worst row {row}: "
        f"{errors[row]:.3e} of its scale {scales[row]:.3e} > {most:.3e} (plain {plain_error:.3e}); "
        f"got {ours.reshape(-1, width)[row][:4]}, reference {ref64.reshape(-1, width)[row][:4]}"
    )


def check(name, ours, ref64, plain, dtype, nsa=False, terms=None, what="tensor"):
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
        if got <= limit(plain_error, dtype, nsa, what):
            return
    worst = np.abs(np.where(np.isfinite(ref64), ours - ref64, 0))
    most = limit(plain_error, dtype, nsa, what)
    text = f"{dtype}: e = {got:.3e} > {most:.3e} (plain {plain_error:.3e})"
    raise AssertionError(_at(name, text, worst == worst.max(), ours, ref64))


def _at(name, what, places, ours, ref64):
    first = tuple(int(i) for i in np.argwhere(places)[0])
    return (
        f"{name} {what}; {int(places.sum())} of {places.size} elements, first at {first}: "
        f"got {ours[first]!r}, reference {ref64[first]!r}"
    )


def check_statistics(name, ours, ref64, plain, nsa=False, what="softmax_max"):
    """softmax_max or softmax_sum: 8 equal lanes; rows that see nothing hold -+FLT_MAX exactly.

    A sum of exponentials has two units: one of the exponentials, which no library gives better, and
    one of the sum. Of a few small sums those of the plain implementation may happen to be exact.
    The scale of a row is its own number, and 1 at least: a score that is off by so much changes
    probabilities by that part.
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

    ours, ref64 = rows_that_see(ours), rows_that_see(ref64)

    def plains():
        return map(rows_that_see, [plain] if isinstance(plain, np.ndarray) else plain())

    check(name, ours, ref64, plains(), "float32", nsa, what=what)
    sizes = np.where(ref64 == 0, 0, np.maximum(np.abs(ref64), 1))
    check_rows(name, ours, ref64, plains(), "float32", 1, lambda: sizes)


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
    # Blocks of score 0 stand by index: the n-th of them in the row is the n-th by index.
    rank = np.cumsum(zeros, axis=-1) - 1
    zero = free & (got == 0)
    yield (
        "blocks of score 0 not by index",
        (zero & (taken(rank) != np.cumsum(zero, axis=-1) - 1)).any(-1),
    )
