"""FlashAttentionScore and its gradient: attention in five layouts with masks, bias and dropout."""

from typing import NamedTuple

import numpy as np

from . import attention, masks
from .flash_problem import Problem
from .layouts import statistics_shape, with_dim
from .precision import FLOAT64


class Gradients(NamedTuple):
    """dpse is None without a bias tensor that has a gradient, dsink is None without a sink."""

    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray
    dpse: np.ndarray | None
    dsink: np.ndarray | None


def flash_attention_score(
    query,
    key,
    value,
    head_num,
    real_shift=None,
    drop_mask=None,
    padding_mask=None,
    attn_mask=None,
    prefix=None,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
    keep_prob=1.0,
    scalar_value=1.0,
    pre_tokens=masks.UNBOUNDED,
    next_tokens=masks.UNBOUNDED,
    inner_precise=0,
    input_layout="BSH",
    sparse_mode=0,
    *,
    pse_type=1,
    q_start_idx=None,
    kv_start_idx=None,
    sink=None,
    precision=FLOAT64,
):
    """(attention_out, softmax_max, softmax_sum)

    O = dropout(softmax(mask(S))) V with::

        S = (q k^T + pse) * scale     pse_type 1
        S = q k^T * scale + pse       pse_type 0, 2, 3

    Masks by sparse_mode: masks.py. Bias forms: pse.py. Bits of drop_mask: dropout.py; they are
    numbered ((b*N1 + h)*S1 + i)*S2 + j, in TND per element [N1, S1_b, S2_b] behind each other.
    `sink` [N1] is one more logit per head, without a value, neither scaled nor dropped.
    softmax_max and softmax_sum are [B, N1, S1, 8], TND [T1, N1, 8], the 8 lanes alike.
    CANN aclnnFlashAttentionScore; padding_mask and inner_precise have no effect.
    """
    problem = Problem(
        query,
        key,
        value,
        head_num,
        real_shift,
        drop_mask,
        attn_mask,
        prefix,
        actual_seq_qlen,
        actual_seq_kvlen,
        keep_prob,
        scalar_value,
        pre_tokens,
        next_tokens,
        input_layout,
        sparse_mode,
        pse_type,
        q_start_idx,
        kv_start_idx,
        sink,
        precision,
    )
    out = np.zeros(with_dim(query.shape, input_layout, problem.n1, problem.dv), precision.real)
    row_max = np.zeros(statistics_shape(query.shape, input_layout, problem.n1), precision.real)
    row_sum = np.zeros_like(row_max)
    views = zip(
        problem.elements(),
        problem.split_query(out),
        problem.split_statistics(row_max),
        problem.split_statistics(row_sum),
        strict=True,
    )
    for e, out_b, max_b, sum_b in views:
        o, _, m, s = attention.forward(e.scores, e.v, e.count, e.keep, problem.sink, precision)
        out_b[...], max_b[...], sum_b[...] = o, m[..., None], s[..., None]
    return precision.output(out), row_max, row_sum


def flash_attention_score_grad(
    query,
    key,
    value,
    dy,
    head_num,
    softmax_max,
    softmax_sum,
    attention_in,
    real_shift=None,
    drop_mask=None,
    padding_mask=None,
    attn_mask=None,
    prefix=None,
    actual_seq_qlen=None,
    actual_seq_kvlen=None,
    keep_prob=1.0,
    scalar_value=1.0,
    pre_tokens=masks.UNBOUNDED,
    next_tokens=masks.UNBOUNDED,
    inner_precise=0,
    input_layout="BSH",
    sparse_mode=0,
    *,
    pse_type=1,
    q_start_idx=None,
    kv_start_idx=None,
    sink=None,
    q_offset=None,
    softmax_sum_grad=None,
    compress_block_size=0,
    compress_stride=0,
    precision=FLOAT64,
):
    """Gradients(dq, dk, dv, dpse, dsink)

    P = exp(S - max) / sum; dP = (dO V^T) * keep / keep_prob; dS = P * (dP - Dvec) with
    Dvec = rowsum(dO * O) - sum * rowsum(softmax_sum_grad), O = attention_in, max being a constant;
    dV = (P * keep / keep_prob)^T dO; dQ = scale * dS K; dK = scale * dS^T Q; dpse = dS (pse_type 0)
    or scale * dS (1), summed over the dimensions that the bias broadcasts;
    dsink[h] = -sum exp(sink[h] - max) / sum * Dvec.
    compress_block_size > 0 adds the mask of NsaCompressAttention (TND): key c is visible to the
    query at q_offset_b + i iff c*s + l - 1 <= q_offset_b + i; attn_mask is then indexed by the
    position inside the segment and may be larger than the longest one.
    CANN aclnnFlashAttentionScoreGrad.
    """
    problem = Problem(
        query,
        key,
        value,
        head_num,
        real_shift,
        drop_mask,
        attn_mask,
        prefix,
        actual_seq_qlen,
        actual_seq_kvlen,
        keep_prob,
        scalar_value,
        pre_tokens,
        next_tokens,
        input_layout,
        sparse_mode,
        pse_type,
        q_start_idx,
        kv_start_idx,
        sink,
        precision,
        q_offset,
        compress_block_size,
        compress_stride,
    )
    dy, out, row_max, row_sum = (
        precision.array(x) for x in (dy, attention_in, softmax_max, softmax_sum)
    )
    sum_grads = [None] * len(problem.q_lengths)
    if softmax_sum_grad is not None:
        sum_grads = problem.split_statistics(precision.array(softmax_sum_grad))
    dq, dk, dv = (np.zeros(x.shape, precision.real) for x in (query, key, value))
    dpse = problem.empty_dpse()
    dsink = None if sink is None else np.zeros(problem.n1, precision.real)
    views = zip(
        problem.elements(),
        problem.split_query(out),
        problem.split_query(dy),
        problem.split_statistics(row_max),
        problem.split_statistics(row_sum),
        sum_grads,
        problem.split_query(dq),
        problem.split_kv(dk),
        problem.split_kv(dv),
        strict=True,
    )
    for b, (e, out_b, dy_b, max_b, sum_b, sum_grad_b, dq_b, dk_b, dv_b) in enumerate(views):
        max_b, sum_b = max_b[..., 0], sum_b[..., 0]
        dq_n, dk_n, dv_n, ds, dvec = attention.backward(
            e.q,
            e.k,
            e.v,
            out_b,
            dy_b,
            e.scores,
            e.count,
            max_b,
            sum_b,
            problem.scale,
            e.keep,
            None if sum_grad_b is None else precision.sum(sum_grad_b, axis=-1),
            problem.group,
            precision,
        )
        dq_b[...] = dq_n
        dk_b[...], dv_b[...] = dk_n, dv_n
        if dpse is not None:
            problem.add_dpse(dpse, b, ds)
        if dsink is not None:
            dsink -= precision.sum(np.exp(problem.sink[:, None] - max_b) / sum_b * dvec, axis=1)
    if dpse is not None:
        dpse = precision.output(dpse.reshape(np.shape(real_shift)))
    return Gradients(*(precision.output(x) for x in (dq, dk, dv)), dpse, dsink)
