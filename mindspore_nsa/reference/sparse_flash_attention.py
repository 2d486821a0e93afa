"""SparseFlashAttention and its gradient: attention of every query over tokens picked for it."""

from typing import NamedTuple

import numpy as np

from .attention import FLT_MAX
from .lightning_indexer import token_segments
from .precision import FLOAT64


class _Rows(NamedTuple):
    """The tokens of one query and key head."""

    row: int
    group: int
    heads: slice  # of the query
    keys: np.ndarray  # row numbers of key, a token as often as it is picked


def _flat(x, kept, real):
    return None if x is None else np.asarray(x, real).reshape(-1, *np.shape(x)[-kept:])


def _picked(picks, block, visible):
    """Tokens of a row's indices that the query sees, in rising order."""
    chosen = np.sort(picks[picks >= 0].astype(np.int64))
    tokens = (chosen[:, None] * block + np.arange(block)).ravel()
    return tokens[tokens < visible]


def _rows(query, key, sparse_indices, sparse_block_size, **lists):
    heads, groups = query.shape[-2], key.shape[-2]
    width = heads // groups
    picks = np.asarray(sparse_indices).reshape(-1, groups, np.shape(sparse_indices)[-1])
    for part in token_segments(query, key, **lists):
        for n, visible in enumerate(part.visible):
            row = part.rows.start + n
            for group in range(groups):
                tokens = _picked(picks[row, group], sparse_block_size, visible)
                heads_of = slice(group * width, (group + 1) * width)
                yield _Rows(row, group, heads_of, part.keys[tokens])


def _lists(
    actual_seq_lengths_query,
    actual_seq_lengths_kv,
    block_table,
    layout_query,
    layout_kv,
    sparse_mode,
):
    return {
        "actual_seq_lengths_query": actual_seq_lengths_query,
        "actual_seq_lengths_key": actual_seq_lengths_kv,
        "block_table": block_table,
        "layout_query": layout_query,
        "layout_key": layout_kv,
        "sparse_mode": sparse_mode,
    }


def _softmax(at, q, k, qr, kr, sinks, scale, precision):
    """(P [heads, tokens], max [heads], sum [heads]) of one row."""
    scores = precision.matmul(q[at.row, at.heads], k[at.keys, at.group].T)
    if qr is not None:
        scores = scores + precision.matmul(qr[at.row, at.heads], kr[at.keys, at.group].T)
    scores = scores * precision.real(scale)
    sink = np.full(len(scores), -np.inf) if sinks is None else np.asarray(sinks)[at.heads]
    sink = sink.astype(precision.real)
    row_max = np.maximum(scores.max(axis=-1, initial=-np.inf), sink)
    base = np.where(row_max == -np.inf, 0, row_max)
    p = np.exp(scores - base[:, None])
    total = precision.sum(p, axis=-1) + np.exp(sink - base)
    return p / np.where(total == 0, 1, total)[:, None], row_max, total


def sparse_flash_attention(
    query,
    key,
    value,
    sparse_indices,
    scale_value,
    *,
    block_table=None,
    actual_seq_lengths_query=None,
    actual_seq_lengths_kv=None,
    query_rope=None,
    key_rope=None,
    sparse_block_size=1,
    layout_query="BSND",
    layout_kv="BSND",
    sparse_mode=3,
    attention_mode=0,
    return_softmax_lse=False,
    sinks=None,
    precision=FLOAT64,
):
    """(attention_out, softmax_max, softmax_sum)

    For query [.., N, D], key [.., N2, D], value [.., N2, Dv] and sparse_indices [.., N2, k], the
    rows of a query and key head are, for each index t >= 0, the tokens t*b .. (t+1)*b - 1 that the
    query sees (b = sparse_block_size), as often as they are named; S = scale*(q.k + q_rope.k_rope),
    P = softmax(S), a sink being one more logit without a value, out = P V. Statistics are
    [B, N2, Sq, N / N2], or packed [N2, T1, N / N2]; (0,) unless asked for. CANN
    aclnnSparseFlashAttention.
    """
    real = precision.real
    q, k, v = (_flat(x, 2, real) for x in (query, key, value))
    qr, kr = _flat(query_rope, 2, real), _flat(key_rope, 2, real)
    lists = _lists(
        actual_seq_lengths_query,
        actual_seq_lengths_kv,
        block_table,
        layout_query,
        layout_kv,
        sparse_mode,
    )
    groups, width = key.shape[-2], query.shape[-2] // key.shape[-2]
    out = np.zeros((*q.shape[:2], v.shape[2]), real)
    row_max = np.full((len(q), groups, width), -FLT_MAX)
    row_sum = np.full(row_max.shape, FLT_MAX)
    for at in _rows(query, key, sparse_indices, sparse_block_size, **lists):
        p, top, total = _softmax(at, q, k, qr, kr, sinks, scale_value, precision)
        out[at.row, at.heads] = precision.matmul(precision.operand(p), v[at.keys, at.group])
        if (top > -np.inf).any():
            row_max[at.row, at.group], row_sum[at.row, at.group] = top, total
    out = precision.output(out).reshape(*query.shape[:-1], v.shape[2])
    if not return_softmax_lse:
        return out, np.zeros(0, real), np.zeros(0, real)
    return out, *(_by_group(x, query.shape, layout_query) for x in (row_max, row_sum))


def _by_group(x, shape, layout):
    """Statistics [rows, N2, G] with the key heads before the tokens."""
    if layout == "TND":
        return x.swapaxes(0, 1)
    return x.reshape(*shape[:2], *x.shape[1:]).swapaxes(1, 2)


def sparse_flash_attention_grad(
    query,
    key,
    value,
    sparse_indices,
    attention_out,
    attention_out_grad,
    query_rope=None,
    key_rope=None,
    sinks=None,
    *,
    scale_value,
    softmax_sum_grad=None,
    actual_seq_lengths_query=None,
    actual_seq_lengths_kv=None,
    sparse_block_size=1,
    layout_query="BSND",
    layout_kv="BSND",
    sparse_mode=3,
    attention_mode=0,
    return_softmax_lse=False,
    precision=FLOAT64,
):
    """(dq, dk, dv, dq_rope, dk_rope, dsinks), None where an input is.

    Dvec = rowsum(dout * out) - sum * softmax_sum_grad, max being a constant; dP = dout V^T,
    dS = P * (dP - Dvec); dV += P^T dout, dq = scale dS K, dK += scale dS^T q, ropes alike;
    dsink = -sum exp(sink - max)/sum * Dvec.
    """
    real = precision.real
    q, k, v = (_flat(x, 2, real) for x in (query, key, value))
    qr, kr = _flat(query_rope, 2, real), _flat(key_rope, 2, real)
    out, dout = (_flat(x, 2, real) for x in (attention_out, attention_out_grad))
    lists = _lists(
        actual_seq_lengths_query, actual_seq_lengths_kv, None, layout_query, layout_kv, sparse_mode
    )
    scale = real(scale_value)
    sum_grad = None
    if softmax_sum_grad is not None:
        rows_first = np.moveaxis(np.asarray(softmax_sum_grad, real), -2, -3)
        sum_grad = rows_first.reshape(len(q), *rows_first.shape[-2:])
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    dqr, dkr = (None if x is None else np.zeros_like(x) for x in (qr, kr))
    dsinks = None if sinks is None else np.zeros(q.shape[1], real)
    for at in _rows(query, key, sparse_indices, sparse_block_size, **lists):
        p, top, total = _softmax(at, q, k, qr, kr, sinks, scale_value, precision)
        upstream = dout[at.row, at.heads]
        dvec = precision.dot(upstream, out[at.row, at.heads])
        if sum_grad is not None:
            dvec = dvec - (total * sum_grad[at.row, at.group]).astype(real)
        dp = precision.matmul(upstream, v[at.keys, at.group].T)
        ds = precision.operand(p * precision.difference(dp, dvec[:, None])) * scale
        dq[at.row, at.heads] = precision.matmul(ds, k[at.keys, at.group])
        np.add.at(dk[:, at.group], at.keys, precision.matmul(ds.T, q[at.row, at.heads]))
        np.add.at(dv[:, at.group], at.keys, precision.matmul(precision.operand(p).T, upstream))
        if qr is not None:
            dqr[at.row, at.heads] = precision.matmul(ds, kr[at.keys, at.group])
            np.add.at(dkr[:, at.group], at.keys, precision.matmul(ds.T, qr[at.row, at.heads]))
        if sinks is not None:
            sink = np.asarray(sinks, real)[at.heads]
            dsinks[at.heads] -= np.exp(sink - top) / total * dvec
    shapes = [np.shape(x) for x in (query, key, value, query_rope, key_rope)]
    gradients = [
        None if x is None else precision.output(x).reshape(shape)
        for x, shape in zip((dq, dk, dv, dqr, dkr), shapes, strict=True)
    ]
    return (*gradients, dsinks)
