"""The loop over the segments of a packed batch that both NSA attention operators run."""

from typing import NamedTuple

import numpy as np

from . import attention
from .layouts import statistics_shape
from .segments import bounds, offsets


class Segment(NamedTuple):
    """One segment, heads first, its key and value heads repeated for their group."""

    index: int
    rows: slice  # of the packed query
    columns: slice  # of the packed key
    start: int  # position of the first query
    q: np.ndarray  # [N1, S1, D]
    k: np.ndarray  # [N1, S2, D]
    v: np.ndarray  # [N1, S2, Dv]
    scores: np.ndarray  # [N1, S1, S2]


def segments(
    query, key, value, scale_value, actual_seq_qlen, actual_seq_kvlen, q_offset, precision
):
    """Every segment with its scores scale * q k^T."""
    q, k, v = (precision.array(x).transpose(1, 0, 2) for x in (query, key, value))
    group = q.shape[0] // k.shape[0]
    q_bounds = bounds(actual_seq_qlen)
    each = zip(q_bounds, bounds(actual_seq_kvlen), offsets(q_offset, len(q_bounds)), strict=True)
    for index, (q_range, kv_range, start) in enumerate(each):
        rows, columns = slice(*q_range), slice(*kv_range)
        q_b = q[:, rows]
        k_b, v_b = (attention.repeat_heads(x[:, columns], group) for x in (k, v))
        scores = precision.matmul(q_b, k_b.swapaxes(1, 2)) * float(scale_value)
        yield Segment(index, rows, columns, start, q_b, k_b, v_b, scores)


class Forward:
    """attention_out [T1, N1, Dv], softmax_max and softmax_sum [T1, N1, 8], filled by segment."""

    def __init__(self, query, value, precision):
        tokens, heads = query.shape[:2]
        self.precision = precision
        self.out = np.zeros((tokens, heads, value.shape[2]), precision.real)
        self.row_max = np.zeros(statistics_shape(query.shape, "TND", heads), precision.real)
        self.row_sum = np.zeros_like(self.row_max)

    def run(self, segment, count):
        """Attend in one segment; returns its P [N1, S1, S2]."""
        out, p, row_max, row_sum = attention.forward(
            segment.scores, segment.v, count, precision=self.precision
        )
        self.out[segment.rows] = out.transpose(1, 0, 2)
        self.row_max[segment.rows] = row_max.T[..., None]
        self.row_sum[segment.rows] = row_sum.T[..., None]
        return p


def gradients(
    counted_segments,
    query,
    key,
    value,
    attention_out,
    attention_out_grad,
    softmax_max,
    softmax_sum,
    softmax_sum_grad,
    scale_value,
    precision,
):
    """(dq, dk, dv) over pairs (segment, count); rows outside every segment stay 0."""
    group = query.shape[1] // key.shape[1]
    out, dy, row_max, row_sum = (
        precision.array(x).swapaxes(0, 1)
        for x in (attention_out, attention_out_grad, softmax_max, softmax_sum)
    )
    sum_grad = None
    if softmax_sum_grad is not None:
        sum_grad = precision.sum(precision.array(softmax_sum_grad), axis=-1).T
    dq, dk, dv = (np.zeros(x.shape, precision.real) for x in (query, key, value))
    for segment, count in counted_segments:
        rows = segment.rows
        dq_b, dk_b, dv_b, _, _ = attention.backward(
            segment.q,
            segment.k,
            segment.v,
            out[:, rows],
            dy[:, rows],
            segment.scores,
            count,
            row_max[:, rows, 0],
            row_sum[:, rows, 0],
            float(scale_value),
            sum_grad=None if sum_grad is None else sum_grad[:, rows],
            group=group,
            precision=precision,
        )
        dq[rows] = dq_b.transpose(1, 0, 2)
        dk[segment.columns] = dk_b.transpose(1, 0, 2)
        dv[segment.columns] = dv_b.transpose(1, 0, 2)
    return tuple(precision.output(x) for x in (dq, dk, dv))
