"""Floating-point operations of attention, by visible pairs of a query and a key.

A pair costs one product of length D (score) and one of length Dv (output) forward; backward two
more of length Dv (dV, dP) and three of length D (score again, dQ, dK). A multiplication and an
addition are two operations. Softmax, importance and top-k are not counted.
"""

import numpy as np


def attention_flops(pairs, dim, value_dim, direction):
    """Operations for a number of pairs that is summed over the query heads."""
    if direction == "forward":
        return pairs * 2 * (dim + value_dim)
    return pairs * 2 * (3 * dim + 2 * value_dim)


def causal_pairs(tokens):
    """Query i sees the keys 0 ... i."""
    return tokens * (tokens + 1) // 2


def window_pairs(tokens, window):
    """Query i sees the last `window` keys up to its own."""
    shorter = min(tokens, window)
    return causal_pairs(shorter) + (tokens - shorter) * window


def compressed_pairs(tokens, block, stride):
    """Query i sees compressed token c iff c * stride + block - 1 <= i."""
    positions = np.arange(tokens)
    return int(np.maximum((positions - block + 1) // stride + 1, 0).sum())


def selected_pairs(indices, select, tokens):
    """Summed over the key heads of `indices` [T, N2, cnt]: a query sees its blocks up to itself."""
    first = indices.astype(np.int64) * select
    position = np.arange(tokens)[:, None, None]
    seen = np.clip(np.minimum(position + 1, tokens) - first, 0, select)
    return int(np.where(indices >= 0, seen, 0).sum())
