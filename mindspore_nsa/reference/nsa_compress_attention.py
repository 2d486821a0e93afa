"""NsaCompressAttention and its gradient: attention over compressed tokens, and block selection."""

from typing import NamedTuple

import numpy as np

from . import importance as selection
from . import masks, packed
from .precision import FLOAT64
from .segments import compressed_seq_len


class BlockScores(NamedTuple):
    """Scores that the top-k of one segment ranks."""

    rows: slice  # of the packed query
    scores: np.ndarray  # [N2, S1, blocks]
    candidate: np.ndarray  # [S1, blocks]
    forced: np.ndarray  # [S1, blocks]


def _counted_segments(
    query,
    key,
    value,
    scale_value,
    compress_block_size,
    compress_stride,
    atten_mask,
    actual_seq_qlen,
    actual_cmp_seq_kvlen,
    causal,
    q_offset,
    precision,
):
    """Pairs (segment, visibility [1, S1, S2] as 0 or 1)."""
    if actual_cmp_seq_kvlen is None:
        if not causal:
            raise ValueError("nsa_compress_attention: actual_cmp_seq_kvlen must be given, got None")
        actual_cmp_seq_kvlen = compressed_seq_len(
            actual_seq_qlen, compress_block_size, compress_stride
        )
    for segment in packed.segments(
        query, key, value, scale_value, actual_seq_qlen, actual_cmp_seq_kvlen, q_offset, precision
    ):
        queries, tokens = segment.scores.shape[1:]
        visible = np.ones((queries, tokens), bool)
        if atten_mask is not None:
            visible &= np.asarray(atten_mask)[:queries, :tokens] == 0
        if causal:
            visible &= masks.compressed_causal(
                queries, tokens, compress_block_size, compress_stride, segment.start
            )
        yield segment, visible[None].astype(int)


def nsa_compress_attention(
    query,
    key,
    value,
    scale_value,
    head_num,
    compress_block_size,
    compress_stride,
    select_block_size,
    select_block_count,
    *,
    topk_mask=None,
    atten_mask=None,
    actual_seq_qlen,
    actual_cmp_seq_kvlen=None,
    actual_sel_seq_kvlen=None,
    causal=False,
    init_blocks=0,
    local_blocks=0,
    importance="cann",
    q_offset=None,
    return_scores=False,
    precision=FLOAT64,
):
    """(attention_out [T1, N1, Dv], topk_indices int32 [T1, N2, cnt], softmax_max, softmax_sum)

    Attention of query [T1, N1, D] over compressed key [T2, N2, D] and value [T2, N2, Dv]:
    O = softmax(scale * q k^T) v, a pair masked where atten_mask [>= max Sq, >= max CmpSkv] is 1 or,
    with `causal`, where compressed token c ends after the query: c*s + l - 1 > q_offset_b + i.
    The probabilities, summed over the heads of a group, give the importance of selection blocks
    (see importance.py), of which every query and kv head takes the top cnt. topk_mask (1), the
    first init_blocks and the last local_blocks force a block in; actual_sel_seq_kvlen is not read.
    `return_scores` appends the list of BlockScores. Paper eq. (8) to (12); CANN
    aclnnNsaCompressAttention.
    """
    m, n = select_block_size // compress_stride, compress_block_size // compress_stride
    tokens, kv_heads = query.shape[0], key.shape[1]
    result = packed.Forward(query, value, precision)
    indices = np.full((tokens, kv_heads, select_block_count), -1, np.int32)
    ranked = []
    for segment, count in _counted_segments(
        query,
        key,
        value,
        scale_value,
        compress_block_size,
        compress_stride,
        atten_mask,
        actual_seq_qlen,
        actual_cmp_seq_kvlen,
        causal,
        q_offset,
        precision,
    ):
        p = result.run(segment, count)
        heads, queries, columns = p.shape
        blocks = selection.num_blocks(
            columns, queries, m, n, importance, causal, segment.start, select_block_size
        )
        by_group = precision.sum(p.reshape(kv_heads, heads // kv_heads, queries, columns), axis=1)
        scores = selection.block_scores(by_group, blocks, m, n, importance)
        candidate, forced = selection.candidates_and_forced(
            queries,
            blocks,
            causal=causal,
            q_offset=segment.start,
            select_block_size=select_block_size,
            init_blocks=init_blocks,
            local_blocks=local_blocks,
            topk_mask=topk_mask,
        )
        chosen = selection.top_blocks(scores, candidate, forced, select_block_count)
        indices[segment.rows] = chosen.transpose(1, 0, 2)
        ranked.append(BlockScores(segment.rows, scores, candidate, forced))
    outputs = (precision.output(result.out), indices, result.row_max, result.row_sum)
    return (*outputs, ranked) if return_scores else outputs


def nsa_compress_attention_grad(
    query,
    key,
    value,
    attention_out,
    attention_out_grad,
    softmax_max,
    softmax_sum,
    scale_value,
    head_num,
    compress_block_size,
    compress_stride,
    *,
    atten_mask=None,
    actual_seq_qlen,
    actual_cmp_seq_kvlen=None,
    causal=False,
    q_offset=None,
    softmax_sum_grad=None,
    precision=FLOAT64,
):
    """(dq, dk, dv): the gradients of attention_out and softmax_sum; the other outputs have none.

    The formulas of FlashAttentionScoreGrad under the mask of the forward, with P recomputed from
    softmax_max and softmax_sum. Key rows past the last segment get exactly 0.
    """
    counted = _counted_segments(
        query,
        key,
        value,
        scale_value,
        compress_block_size,
        compress_stride,
        atten_mask,
        actual_seq_qlen,
        actual_cmp_seq_kvlen,
        causal,
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
