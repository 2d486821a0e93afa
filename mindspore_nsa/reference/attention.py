"""Attention of one segment, forward and backward: what the attention operators share.

Arrays are heads first: q [N, S1, D], k [N, S2, D], v [N, S2, Dv], with the key and value heads
already repeated for their group. `count` [N or 1, S1, S2] says how many times query i sees key j:
0 where masked, 1 where visible, more where selected attention gathers a block twice.

Infinities follow IEEE arithmetic: a score of +inf or NaN makes its row NaN (inf - inf), one of -inf
has probability 0 and so is a masked pair. A pair of probability 0 touches nothing, even a NaN.
Below the smallest normal float32, exp(score - max) of the forward pass and P of the backward count
as 0.
"""

from functools import reduce

import numpy as np

from .precision import FLOAT64

FLT_MAX = float(np.finfo(np.float32).max)


def repeat_heads(x, group):
    """Key or value [N2, S, D] as seen by the N1 = N2 * group query heads."""
    return np.repeat(x, group, axis=0)


def sum_heads(x, group, precision=FLOAT64):
    """Gradient [N1, S, D] of repeated heads, summed back to [N2, S, D]."""
    return precision.sum(x.reshape(x.shape[0] // group, group, *x.shape[1:]), axis=1)


def contract(weights, count, x, precision=FLOAT64):
    """sum_j count[i, j] * weights[i, j] * x[j]; a masked key touches no row, even if it is NaN."""
    finite = np.isfinite(x).reshape(-1, x.shape[-1]).all(axis=0)
    if finite.all():
        return precision.matmul_copies(weights, count, x)
    out = np.empty((*weights.shape[:-1], x.shape[-1]), x.dtype)
    seen = np.where(count > 0, weights, 0).astype(weights.dtype)
    out[..., finite] = precision.matmul_copies(seen, count, x[..., finite])
    # Only the columns that hold what is no number need every term by itself.
    terms = (weights * count)[..., :, :, None] * x[..., None, :, ~finite]
    out[..., ~finite] = np.where(count[..., None] > 0, terms, 0).sum(axis=-2)
    return out


def _contract_in_blocks(weights, count, x, precision):
    """`contract` in blocks of `precision.summed_rows` terms, whose sums are added one by one."""
    terms, block = x.shape[-2], precision.summed_rows
    if block is None or terms <= block:
        return contract(weights, count, x, precision)
    count = np.broadcast_to(count, weights.shape)
    blocks = (slice(first, first + block) for first in range(0, terms, block))
    parts = (contract(weights[..., b], count[..., b], x[..., b, :], precision) for b in blocks)
    return reduce(np.add, parts)


def contract_heads(weights, count, x, group, precision=FLOAT64):
    """`contract` of weights and count [N1, S2, S1] and x [N1, S1, D], summed over groups of heads.

    Of every key head one sum of all terms, or a sum for each head and then one of these.
    """
    if not precision.one_sum or group == 1:
        return sum_heads(_contract_in_blocks(weights, count, x, precision), group, precision)
    heads, columns, rows = weights.shape
    weights, count = (
        y.reshape(heads // group, group, columns, rows)
        .transpose(0, 2, 3, 1)
        .reshape(heads // group, columns, rows * group)
        for y in (weights, np.broadcast_to(count, weights.shape))
    )
    width = x.shape[-1]
    x = x.reshape(heads // group, group, rows, width).swapaxes(1, 2)
    x = x.reshape(heads // group, rows * group, width)
    return _contract_in_blocks(weights, count, x, precision)


def visible_pairs(scores, count):
    """Which pairs take part: neither masked nor with a score of -inf."""
    return np.broadcast_to(count > 0, scores.shape) & (scores != -np.inf)


def softmax(scores, count, sink=None, precision=FLOAT64):
    """P, row maximum and row sum [N, S1] of a masked softmax with an optional sink logit [N].

    P[i, j] is the probability of one copy of key j; a row sees key j `count` times, and the sum
    takes each copy. A row that sees nothing: P = 0, max = -FLT_MAX, sum = +FLT_MAX.
    """
    visible = visible_pairs(scores, count)
    # The maximum passes over NaN; the sum does not.
    row_max = np.fmax.reduce(np.where(visible, scores, -np.inf), axis=-1, initial=-np.inf)
    if sink is not None:
        row_max = np.fmax(row_max, sink[:, None])
    shift = np.where(row_max == -np.inf, 0, row_max).astype(precision.real)
    centred = np.subtract(
        scores, shift[..., None], where=visible, out=np.full_like(scores, -np.inf)
    )
    unnormalised = precision.flushed(np.exp(centred))
    row_sum = precision.sum_copies(unnormalised, np.where(visible, count, 0))
    if sink is not None:
        row_sum = row_sum + np.exp(sink[:, None] - shift)
    not_a_number = np.isnan(row_sum)
    empty = (row_max == -np.inf) & ~not_a_number
    p = np.where(visible, unnormalised / np.where(empty, 1, row_sum)[..., None], 0)
    row_max = np.where(
        empty, -FLT_MAX, np.where(not_a_number & (row_max < np.inf), np.nan, row_max)
    )
    row_sum = np.where(empty, FLT_MAX, row_sum)
    return tuple(x.astype(precision.real) for x in (p, row_max, row_sum))


def softmax_from_statistics(scores, count, row_max, row_sum, precision=FLOAT64):
    """P again, from the maximum and the sum that the forward returned."""
    visible = visible_pairs(scores, count)
    centred = np.where(visible, scores, 0) - np.where(visible, row_max[..., None], 0)
    p = np.where(visible, np.exp(centred) / row_sum[..., None], 0)
    return precision.flushed(p).astype(scores.dtype)


def dropout(p, count, keep):
    """P * keep and the count of what is kept; a dropped pair is like a masked one to V and dO."""
    if keep is None:
        return p, count
    kept = np.where(keep > 0, count, 0)
    return np.where(kept > 0, p * keep, 0), kept


def forward(scores, v, count, keep=None, sink=None, precision=FLOAT64):
    """O = dropout(P) V; returns O, P, row maximum and row sum.

    `keep` [N, S1, S2] holds 1/keep_prob where dropout keeps the pair, else 0. It acts on P after
    the sum is taken.
    """
    p, row_max, row_sum = softmax(scores, count, sink, precision)
    dropped, kept = dropout(p, np.where(p == 0, 0, count), keep)
    out = contract(precision.operand(dropped), kept, v, precision)
    out = np.where(np.isnan(row_sum)[..., None], np.nan, out)
    return out, p, row_max, row_sum


def backward(
    q, k, v, out, dy, scores, count, row_max, row_sum, scale, keep=None, sum_grad=None, group=1,
    precision=FLOAT64,
):  # fmt: skip
    """Gradients of `forward` by q, k, v, with dS [N, S1, S2] and Dvec [N, S1].

    Those by k and v are sums over the `group` heads that share a key head.
    `sum_grad` [N, S1] is the gradient by the row sum of exp(S - max), max being a constant.

    P = exp(S - max) / sum            Dvec = rowsum(dO * O) - sum * sum_grad
    dP = (dO V^T) * keep              dS = P * (dP - Dvec)
    dV = (P * keep)^T dO    dQ = scale * dS K    dK = scale * dS^T Q
    """
    p = softmax_from_statistics(scores, count, row_max, row_sum, precision)
    count = np.where(p == 0, 0, count)
    dvec = precision.dot(dy, out)
    if sum_grad is not None:
        # The sum of a row that sees nothing is no sum.
        dvec = dvec - np.where(row_sum == FLT_MAX, 0, row_sum * sum_grad).astype(precision.real)
    dp = precision.matmul(dy, v.swapaxes(-1, -2))
    if keep is not None:
        dp = np.where(keep > 0, dp * keep, 0)
    ds = np.where(p == 0, 0, p * precision.difference(dp, dvec[..., None]))

    dropped, kept = dropout(p, count, keep)
    dropped, ds_operand = precision.operand(dropped), precision.operand(ds)
    over_rows = (x.swapaxes(-1, -2) for x in (dropped, kept, ds_operand, count))
    dropped_t, kept_t, ds_t, count_t = over_rows
    dv = contract_heads(dropped_t, kept_t, dy, group, precision)
    dq = contract(ds_operand, count, k, precision) * scale
    dk = contract_heads(ds_t, count_t, q, group, precision) * scale
    return dq, dk, dv, ds, dvec
