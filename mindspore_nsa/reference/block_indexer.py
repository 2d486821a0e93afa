"""BlockIndexer: the blocks of keys that an indexer's scores choose for every query."""

import numpy as np

from . import importance as selection
from . import masks, segments
from .nsa_compress_attention import BlockScores
from .precision import FLOAT64


def _probabilities(scores, visible, precision):
    """softmax of scores [H, S1, S2] over the visible pairs, 0 for the others."""
    scores = np.where(visible, scores, -np.inf)
    row_max = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    p = np.exp(scores - np.where(row_max == -np.inf, 0, row_max))
    total = precision.sum(p, axis=-1)[..., None]
    return np.where(scores == -np.inf, 0, p / np.where(total == 0, 1, total))


def _largest(x, empty):
    """max over the last axis, NaN where one is; `empty` of none."""
    return x.max(axis=-1) if x.shape[-1] else np.full(x.shape[:-1], empty, x.dtype)


def _window_scores(p, blocks, block_size, compress_block_size, compress_stride):
    """For each block the largest probability of the windows that touch it."""
    begins = np.arange(p.shape[-1]) * compress_stride
    scores = np.zeros((*p.shape[:-1], blocks), p.dtype)
    for j in range(blocks):
        touches = (begins < (j + 1) * block_size) & (begins + compress_block_size > j * block_size)
        scores[..., j] = _largest(p[..., touches], 0)
    return scores


def _max_scores(tokens, visible, blocks, block_size):
    """For each block the largest score of its visible tokens."""
    scores = np.full((*tokens.shape[:-1], blocks), -np.inf, tokens.dtype)
    for j in range(blocks):
        block = slice(j * block_size, (j + 1) * block_size)
        scores[..., j] = _largest(np.where(visible[:, block], tokens[..., block], -np.inf), -np.inf)
    return scores


def _mean_keys(k, end, block_size, precision):
    """[blocks, H, d]: the means of the keys before `end`, block by block."""
    parts = [k[begin : min(begin + block_size, end)] for begin in range(0, end, block_size)]
    means = [precision.sum(part, axis=0) / precision.real(len(part)) for part in parts]
    return np.stack(means) if means else k[:0]


def _products(q, k, w, scale, precision, relu=False):
    """[H, S1, S2]: what each head adds to the scores of keys."""
    x = precision.matmul(q.swapaxes(0, 1), k.transpose(1, 2, 0)) * precision.real(scale)
    return (np.maximum(0, x) if relu else x) * w


def _mean_scores(q, k, w, scale, positions, blocks, block_size, groups, precision):
    """For each block the score of the mean of its visible keys."""
    scores = np.full((groups, len(q), blocks), -np.inf, precision.real)
    for n, position in enumerate(positions):
        means = _mean_keys(k, min(len(k), int(position) + 1), block_size, precision)
        products = _products(q[n : n + 1], means, w[:, n : n + 1], scale, precision)
        scores[:, n, : len(means)] = _sum_groups(products, groups, precision)[:, 0]
    return scores


def _sum_groups(x, groups, precision):
    """[H, ...] summed over the heads of each group."""
    return precision.sum(x.reshape(groups, len(x) // groups, *x.shape[1:]), axis=1)


def block_indexer(
    query,
    key,
    weights=None,
    *,
    score,
    block_size,
    block_count,
    head_groups=None,
    scale=1.0,
    init_blocks=0,
    local_blocks=0,
    compress_block_size=None,
    compress_stride=None,
    actual_seq_qlen,
    actual_seq_kvlen,
    q_offset=None,
    return_scores=False,
    precision=FLOAT64,
):
    """topk_indices int32 [T1, groups, block_count]

    For query [T1, H, d] and key [T2, Nk, d], Nk 1 or the number of groups (head_groups, or Nk), and
    weights [T1, H] or ones, the score of block j of block_size tokens for a query at position i of
    its segment is, with I[s] = sum_h w[h] * scale * q[h].k[s] over the heads of the group::

        "max"            the largest I[s] of its visible tokens s <= i                        (MSA)
        "relu_weighted"  the same with max(0, scale * q[h].k[s]) before the weight
        "mean"           I of the mean of its visible keys                                   (MoBA)
        "softmax_max"    the largest P[c] of the compressed tokens c whose window touches it, where
                         P[c] = sum_h softmax(scale * q[h].k[c]) over c*s + l - 1 <= i
                                                                                       (InfLLM-v2)

    -inf where it has no key (0 with "softmax_max"). Of the blocks j <= i // block_size a query gets
    the first init_blocks and the last local_blocks by index, then the others by falling score.
    `return_scores` appends the list of BlockScores.
    """
    real = precision.real
    tokens, heads = query.shape[:2]
    groups = head_groups or key.shape[1]
    indices = np.full((tokens, groups, block_count), -1, np.int32)
    factor = np.ones((tokens, heads), real) if weights is None else np.asarray(weights, real)
    ranked = []
    starts = segments.offsets(q_offset, len(actual_seq_qlen))
    lists = zip(
        segments.bounds(actual_seq_qlen), segments.bounds(actual_seq_kvlen), starts, strict=True
    )
    for (q0, q1), (k0, k1), start in lists:
        if q0 == q1:
            continue
        q = np.asarray(query[q0:q1], real)
        # [S2, H, d]: the key of each head.
        k = np.repeat(np.asarray(key[k0:k1], real), heads // key.shape[1], axis=1)
        w = factor[q0:q1].T[:, :, None]  # [H, S1, 1]
        positions = start + np.arange(q1 - q0)
        blocks = int(positions[-1]) // block_size + 1
        with np.errstate(invalid="ignore"):
            if score == "mean":
                scores = _mean_scores(
                    q, k, w, scale, positions, blocks, block_size, groups, precision
                )
            elif score == "softmax_max":
                visible = masks.compressed_causal(
                    q1 - q0, k1 - k0, compress_block_size, compress_stride, start
                )
                p = _probabilities(_products(q, k, w, scale, precision), visible, precision)
                p = _sum_groups(p, groups, precision)
                scores = _window_scores(p, blocks, block_size, compress_block_size, compress_stride)
            else:
                summed = _sum_groups(
                    _products(q, k, w, scale, precision, score == "relu_weighted"),
                    groups,
                    precision,
                )
                visible = np.arange(k1 - k0) <= positions[:, None]
                scores = _max_scores(summed, visible, blocks, block_size)
        candidate, forced = selection.candidates_and_forced(
            q1 - q0,
            blocks,
            causal=True,
            q_offset=start,
            select_block_size=block_size,
            init_blocks=init_blocks,
            local_blocks=local_blocks,
        )
        chosen = selection.top_blocks(scores, candidate, forced, block_count)
        indices[q0:q1] = chosen.transpose(1, 0, 2)
        ranked.append(BlockScores(slice(q0, q1), scores, candidate, forced))
    return (indices, ranked) if return_scores else indices
