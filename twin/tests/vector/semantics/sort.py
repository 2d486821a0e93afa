"""Sort32, MrgSort and TopK: pairs of 8 bytes, (score, index), in descending order.

A half's score is the low 2 bytes of its pair, the next 2 are reserved, the index the high 4.
"""

import numpy as np

from twin.tests.vector.semantics.lanes import NUMPY


def _key(score):
    """Sorts NaN first, then from the largest down."""
    score = float(score)
    return (0, 0.0) if np.isnan(score) else (1, -score)


def sort32(ub, dtype, repeats, dst, scores, indices):
    """32 pairs per repeat, stable."""
    width = np.dtype(NUMPY[dtype]).itemsize
    for r in range(repeats):
        at = scores + 32 * width * r
        s = ub[at : at + 32 * width].copy().view(NUMPY[dtype])
        i = ub[indices + 128 * r : indices + 128 * (r + 1)].copy().view(np.uint32)
        order = sorted(range(32), key=lambda k: _key(s[k]))
        write_pairs(ub, dtype, dst + 256 * r, s[order], i[order])


def write_pairs(ub, dtype, at, scores, indices):
    """Writes pairs; the reserved half word is 0."""
    pairs = np.zeros((len(scores), 8), np.uint8)
    width = np.dtype(NUMPY[dtype]).itemsize
    pairs[:, :width] = np.ascontiguousarray(scores, NUMPY[dtype]).view(np.uint8).reshape(-1, width)
    pairs[:, 4:] = np.ascontiguousarray(indices, np.uint32).view(np.uint8).reshape(-1, 4)
    ub[at : at + pairs.size] = pairs.ravel()


def read_scores(ub, dtype, at, n):
    """The scores of n pairs."""
    width = np.dtype(NUMPY[dtype]).itemsize
    pairs = ub[at : at + 8 * n].reshape(n, 8)
    return np.ascontiguousarray(pairs[:, :width]).view(NUMPY[dtype])[:, 0]


def merge_sort(ub, dtype, dst, lists, lengths, suspend, repeats=1):
    """Merges sorted lists of pairs; returns how many of each were consumed.

    Of equal scores the one of the earlier list goes first. With suspend the merge stops as soon as
    one list is used up.
    """
    used = [0] * len(lists)
    for r in range(repeats):
        skip = 8 * sum(lengths) * r
        scores = [read_scores(ub, dtype, at + skip, n) for at, n in zip(lists, lengths)]
        pairs = [
            ub[at + skip : at + skip + 8 * n].copy().reshape(n, 8) for at, n in zip(lists, lengths)
        ]
        used, out = [0] * len(lists), []
        while any(u < n for u, n in zip(used, lengths)):
            if suspend and any(u == n for u, n in zip(used, lengths)):
                break
            heads = [k for k in range(len(lists)) if used[k] < lengths[k]]
            k = min(heads, key=lambda h: _key(scores[h][used[h]]))
            out.append(pairs[k][used[k]])
            used[k] += 1
        for i, pair in enumerate(out):
            at = dst + skip + 8 * i
            ub[at : at + 8] = pair
    return used


def top_k(x, k, largest, indices):
    """The k best of every row and their indices; NaN first, ties in order."""
    values, chosen = [], []
    for row in x:
        score = row if largest else -row
        order = sorted(range(len(row)), key=lambda i: _key(score[i]))[:k]
        values.append(row[order])
        chosen.append(indices[order])
    return np.stack(values), np.stack(chosen)
