"""Rows of a batch and the caches that hold their tokens: what the decoding operators share."""

import numpy as np


def heads_of(cache, heads):
    """A cache [pages, page, N2 * D] or [pages, page, N2, D] as the latter."""
    cache = np.asarray(cache)
    return cache if cache.ndim == 4 else cache.reshape(*cache.shape[:2], heads, -1)


def tokens(cache, block_table, row, count):
    """The first `count` tokens [count, N2, D] of a row of a cache [pages, page, N2, D].

    Token t stands in page block_table[row, t // page], at t % page; without a table the row's one
    page is number `row`.
    """
    t = np.arange(count)
    if block_table is None:
        return cache[row, t]
    page = cache.shape[1]
    return cache[np.asarray(block_table)[row, t // page], t % page]


def query_rows(query, actual_seq_qlen, rows, layout):
    """Queries [T, N1, D], the rows' one after another, and how many every row has."""
    query = np.asarray(query)
    if layout == "BSND":
        return query.reshape(-1, *query.shape[2:]), [query.shape[1]] * rows
    if actual_seq_qlen is None:
        return query, [len(query) // rows] * rows
    return query, [int(n) for n in actual_seq_qlen]


def windows(length, block_size, stride):
    """Windows that are complete in a row of `length` tokens."""
    return (length - block_size) // stride + 1 if length >= block_size else 0
