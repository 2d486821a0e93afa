"""LightningIndexer and its gradient: the keys that a learned indexer's scores pick."""

from typing import NamedTuple

import numpy as np

from . import segments
from .precision import FLOAT64


class TokenSegment(NamedTuple):
    """Rows of one batch element or packed sequence, as slices of the flattened tensors."""

    rows: slice  # of query
    keys: np.ndarray  # row numbers of key
    visible: np.ndarray  # [Sq] how many of the keys each query sees


def token_segments(
    query,
    key,
    actual_seq_lengths_query,
    actual_seq_lengths_key,
    block_table=None,
    layout_query="BSND",
    layout_key="BSND",
    sparse_mode=0,
    compress_ratio=1,
    compress_residual=None,
):
    """The TokenSegments of a call, for query [T1, ..] or [B, Sq, ..] flattened to rows.

    In mode 3 the last query sees every key, and query i the first
    (i + 1 + Sk*r + residual - Sq) // r of them.
    """
    if layout_query == "TND":
        queries = segments.bounds(actual_seq_lengths_query)
    else:
        batch, length = query.shape[:2]
        lengths = [length] * batch if actual_seq_lengths_query is None else actual_seq_lengths_query
        queries = [(b * length, b * length + int(n)) for b, n in enumerate(lengths)]
    if layout_key == "TND":
        keys = [np.arange(*bounds) for bounds in segments.bounds(actual_seq_lengths_key)]
    elif layout_key == "BSND":
        batch, length = key.shape[:2]
        lengths = [length] * batch if actual_seq_lengths_key is None else actual_seq_lengths_key
        keys = [b * length + np.arange(int(n)) for b, n in enumerate(lengths)]
    else:
        page, tokens = key.shape[1], [np.arange(int(n)) for n in actual_seq_lengths_key]
        keys = [
            np.asarray(block_table)[b, t // page] * page + t % page for b, t in enumerate(tokens)
        ]
    for b, ((q0, q1), rows) in enumerate(zip(queries, keys, strict=True)):
        residual = 0 if compress_residual is None else int(compress_residual[b])
        visible = np.full(q1 - q0, len(rows))
        if sparse_mode == 3:
            last = len(rows) * compress_ratio + residual - (q1 - q0)
            visible = np.clip((np.arange(1, q1 - q0 + 1) + last) // compress_ratio, 0, len(rows))
        yield TokenSegment(slice(q0, q1), rows, visible)


def _flat(x, kept):
    """The tensor with all dimensions before its last `kept` ones as one."""
    return x.reshape(-1, *x.shape[x.ndim - kept :])


def _scores(q, k, w, precision):
    """[N2, Sq, Sk] of q [Sq, H, d], k [Sk, N2, d], w [Sq, H]."""
    groups = k.shape[1]
    width = q.shape[1] // groups
    products = precision.matmul(
        q.swapaxes(0, 1).reshape(groups, width * len(q), q.shape[2]), k.transpose(1, 2, 0)
    ).reshape(groups, width, len(q), len(k))
    weighted = np.maximum(0, products) * w.T.reshape(groups, width, len(q), 1)
    return precision.sum(weighted, axis=1)


class TokenScores(NamedTuple):
    """Scores that the picks of one segment were taken from, and how large their terms are."""

    rows: slice
    scores: np.ndarray  # [N2, Sq, Sk]
    visible: np.ndarray  # [Sq]
    size: np.ndarray  # [N2, Sq] of sum_h |w||q||k|, the largest of the keys


def lightning_indexer(
    query,
    key,
    weights,
    *,
    actual_seq_lengths_query=None,
    actual_seq_lengths_key=None,
    block_table=None,
    layout_query="BSND",
    layout_key="BSND",
    sparse_count=2048,
    sparse_mode=3,
    return_value=False,
    compress_ratio=1,
    compress_residual=None,
    return_scores=False,
    precision=FLOAT64,
):
    """(sparse_indices int32 [.., N2, k], sparse_values, the same shape or (0,))

    The k visible keys s of largest I[s] = sum_h w[h] * max(0, q[h].k[s]) over the heads of a key
    head, in falling order, equal ones by index, NaN last; then -1 with -inf. Rows that belong to no
    segment hold -1. `return_scores` appends the list of TokenScores. DeepSeek-V3.2; CANN
    aclnnLightningIndexer.
    """
    real = precision.real
    heads, groups = query.shape[-2], key.shape[-2]
    q, k = _flat(np.asarray(query, real), 2), _flat(np.asarray(key, real), 2)
    w = np.ones(q.shape[:2], real) if weights is None else _flat(np.asarray(weights, real), 1)
    indices = np.full((len(q), groups, sparse_count), -1, np.int32)
    values = np.full(indices.shape, -np.inf, real)
    found = []
    for rows, keys, visible in token_segments(
        query,
        key,
        actual_seq_lengths_query,
        actual_seq_lengths_key,
        block_table,
        layout_query,
        layout_key,
        sparse_mode,
        compress_ratio,
        compress_residual,
    ):
        with np.errstate(invalid="ignore"):
            scores = _scores(q[rows], k[keys], w[rows], precision)
        for n, count in enumerate(visible):
            row = scores[:, n, :count]
            order = np.argsort(np.where(np.isnan(row), np.inf, -row), axis=-1, kind="stable")
            number = np.isnan(np.take_along_axis(row, order, -1))
            # NaN after -inf, which is as large.
            order = np.take_along_axis(order, np.argsort(number, axis=-1, kind="stable"), -1)
            order = order[:, :sparse_count]
            indices[rows.start + n, :, : order.shape[1]] = order
            values[rows.start + n, :, : order.shape[1]] = np.take_along_axis(row, order, -1)
        size = np.abs(w[rows]) * np.linalg.norm(q[rows], axis=-1)
        norm = np.linalg.norm(k[keys], axis=-1).max(axis=0, initial=0)  # [N2]
        size = size.reshape(len(size), groups, heads // groups).sum(-1).T * norm[:, None]
        found.append(TokenScores(rows, scores, visible, size))
    shape = (*query.shape[:-2], groups, sparse_count)
    values = precision.output(values).reshape(shape) if return_value else np.zeros(0, real)
    outputs = (indices.reshape(shape), values)
    return (*outputs, found) if return_scores else outputs


def lightning_indexer_grad(
    query,
    key,
    sparse_values_grad,
    sparse_indices,
    weights=None,
    *,
    actual_seq_lengths_query=None,
    actual_seq_lengths_key=None,
    layout_query="BSND",
    layout_key="BSND",
    precision=FLOAT64,
):
    """(dq, dk, dweights): the gradients of sparse_values for the picks s >= 0.

    With z = q[h].k[s]: dw[h] += dy*max(0, z), g = dy*w[h]*(z > 0), dq[h] += g*k[s],
    dk[s] += g*q[h]. A key that no query picked has exactly 0.
    """
    real = precision.real
    heads, groups = query.shape[-2], key.shape[-2]
    q, k = _flat(np.asarray(query, real), 2), _flat(np.asarray(key, real), 2)
    w = np.ones(q.shape[:2], real) if weights is None else _flat(np.asarray(weights, real), 1)
    dy, picks = _flat(np.asarray(sparse_values_grad, real), 2), _flat(np.asarray(sparse_indices), 2)
    dq, dk, dw = np.zeros_like(q), np.zeros_like(k), np.zeros_like(w)
    width = heads // groups
    for rows, keys, _ in token_segments(
        query,
        key,
        actual_seq_lengths_query,
        actual_seq_lengths_key,
        None,
        layout_query,
        layout_key,
    ):
        for row in range(rows.start, rows.stop):
            for group in range(groups):
                of_group = slice(group * width, (group + 1) * width)
                valid = (picks[row, group] >= 0) & (picks[row, group] < len(keys))
                at, upstream = keys[picks[row, group][valid]], dy[row, group][valid]
                z = precision.matmul(q[row, of_group], k[at, group].T)  # [heads, picks]
                dw[row, of_group] = precision.sum(upstream * np.maximum(0, z), axis=-1)
                g = upstream * w[row, of_group, None] * (z > 0)
                dq[row, of_group] = precision.matmul(g, k[at, group])
                np.add.at(dk[:, group], at, precision.matmul(g.T, q[row, of_group]))
    return (
        precision.output(dq).reshape(query.shape),
        precision.output(dk).reshape(key.shape),
        dw.reshape(query.shape[:-1]),
    )
