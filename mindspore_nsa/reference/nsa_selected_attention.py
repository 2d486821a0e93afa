"""NsaSelectedAttention and its gradient: attention over the key blocks chosen for each query."""

import numpy as np

from . import packed
from .precision import FLOAT64


def times_gathered(topk_indices, keys, select_block_size, causal, q_offset):
    """[N2, S1, S2]: how often query i gathers key j; topk_indices is [S1, N2, cnt] of one segment.

    An index outside the segment's blocks contributes nothing, the last block is clamped to the
    segment, a duplicate index counts twice.
    """
    queries, kv_heads, _ = topk_indices.shape
    blocks = -(-keys // select_block_size)
    chosen = np.zeros((kv_heads, queries, blocks), int)
    i, h, place = np.nonzero((topk_indices >= 0) & (topk_indices < blocks))
    np.add.at(chosen, (h, i, topk_indices[i, h, place]), 1)
    times = np.repeat(chosen, select_block_size, axis=2)[:, :, :keys]
    if causal:
        future = np.arange(keys)[None, :] > q_offset + np.arange(queries)[:, None]
        times[:, future] = 0
    return times


def _counted_segments(
    query,
    key,
    value,
    topk_indices,
    scale_value,
    select_block_size,
    causal,
    actual_seq_qlen,
    actual_seq_kvlen,
    q_offset,
    precision,
):
    """Pairs (segment, how often each query head gathers each key)."""
    group = query.shape[1] // key.shape[1]
    for segment in packed.segments(
        query, key, value, scale_value, actual_seq_qlen, actual_seq_kvlen, q_offset, precision
    ):
        times = times_gathered(
            np.asarray(topk_indices)[segment.rows],
            segment.k.shape[1],
            select_block_size,
            causal,
            segment.start,
        )
        yield segment, np.repeat(times, group, axis=0)


def nsa_selected_attention(
    query,
    key,
    value,
    topk_indices,
    scale_value,
    head_num,
    select_block_size,
    select_block_count,
    *,
    atten_mask=None,
    actual_seq_qlen,
    actual_seq_kvlen,
    causal=False,
    q_offset=None,
    precision=FLOAT64,
):
    """(attention_out [T1, N1, Dv], softmax_max, softmax_sum [T1, N1, 8])

    Query i of segment b gathers, for each t in topk_indices[i, kv head] ([T1, N2, cnt]), the rows
    t*l' ... t*l' + l' - 1 of its own segment's keys and values, and attends over that multiset:
    O = softmax(scale * q K_g^T) V_g. With `causal` (an atten_mask means the same; its content is
    not read) key j counts iff j <= q_offset_b + i.
    Paper eq. (11), (12); CANN aclnnNsaSelectedAttention.
    """
    result = packed.Forward(query, value, precision)
    for segment, count in _counted_segments(
        query,
        key,
        value,
        topk_indices,
        scale_value,
        select_block_size,
        causal or atten_mask is not None,
        actual_seq_qlen,
        actual_seq_kvlen,
        q_offset,
        precision,
    ):
        result.run(segment, count)
    return precision.output(result.out), result.row_max, result.row_sum


def nsa_selected_attention_grad(
    query,
    key,
    value,
    attention_out,
    attention_out_grad,
    softmax_max,
    softmax_sum,
    topk_indices,
    scale_value,
    head_num,
    select_block_size,
    select_block_count,
    *,
    atten_mask=None,
    actual_seq_qlen,
    actual_seq_kvlen,
    causal=False,
    q_offset=None,
    softmax_sum_grad=None,
    precision=FLOAT64,
):
    """(dq, dk, dv) with the shapes of query, key, value

    P = exp(scale * S - max) / sum; dP = dO V^T; dS = P * (dP - Dvec) with
    Dvec = rowsum(dO * O) - sum * rowsum(softmax_sum_grad), max being a constant;
    dV += P^T dO; dQ += scale * dS K; dK += scale * dS^T Q, added to the gathered rows. Duplicates
    and the heads of a group accumulate; rows that no query gathers get 0.
    CANN aclnnNsaSelectedAttentionGrad.
    """
    counted = _counted_segments(
        query,
        key,
        value,
        topk_indices,
        scale_value,
        select_block_size,
        causal or atten_mask is not None,
        actual_seq_qlen,
        actual_seq_kvlen,
        q_offset,
        precision,
    )
    return packed.gradients(
        counted,
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
    )
