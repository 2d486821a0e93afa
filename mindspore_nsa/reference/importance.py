"""Importance of selection blocks and the choice of the top ones (paper eq. (9) to (12))."""

import numpy as np


def block_scores(p, num_blocks, m, n, importance):
    """Scores [..., num_blocks] of the selection blocks from probabilities P [..., num_compressed].

    score[j] = sum_{a<m} sum_{b<n} P[m*(j+1) - 1 - a - b]   "overlap": the number of stride-sized
                                                            pieces of token c inside block j
    score[j] = sum_{a<m} sum_{b<n} P[m*(j+1) - a - b]       "cann": one compressed token later
    with m = select_block_size / stride, n = compress_block_size / stride; terms out of range are 0.
    """
    if importance not in ("overlap", "cann"):
        raise ValueError(f"importance must be 'overlap' or 'cann', got {importance!r}")
    last = m * (np.arange(num_blocks) + 1) - (importance == "overlap")
    scores = np.zeros((*p.shape[:-1], num_blocks), p.dtype)
    for a in range(m):
        for b in range(n):
            # Blocks whose term is in range stand side by side.
            c = last - a - b
            j = np.flatnonzero((c >= 0) & (c < p.shape[-1]))
            if j.size:
                scores[..., j[0] : j[-1] + 1] += p[..., c[j[0]] : c[j[-1]] + 1 : m]
    return scores


def num_blocks(num_compressed, num_queries, m, n, importance, causal, q_offset, select_block_size):
    """Selection blocks of a segment; without causal those that a compressed token counts for."""
    if causal:
        return -(-(q_offset + num_queries) // select_block_size)
    if num_compressed == 0:
        return 0
    pieces = num_compressed if importance == "cann" else num_compressed + n - 1
    return -(-pieces // m)


def candidates_and_forced(
    num_queries,
    blocks,
    *,
    causal,
    q_offset,
    select_block_size,
    init_blocks=0,
    local_blocks=0,
    topk_mask=None,
):
    """Two boolean [S1, blocks]: may the block be chosen, must it be.

    Causal: candidates are the blocks up to the query's own, and nothing forces a later one.
    """
    j = np.arange(blocks)[None, :]
    forced = np.zeros((num_queries, blocks), bool)
    if topk_mask is not None:
        forced |= np.asarray(topk_mask)[:num_queries, :blocks] != 0
    if not causal:
        return np.ones((num_queries, blocks), bool), forced
    own = ((q_offset + np.arange(num_queries)) // select_block_size)[:, None]
    candidate = j <= own
    forced |= (j < init_blocks) | (j > own - local_blocks)
    return candidate, forced & candidate


def top_blocks(scores, candidate, forced, count):
    """int32 [..., count]: forced blocks by index, then by falling score, ties to the smaller index.

    NaN ranks lowest; places without a candidate hold -1.
    """
    blocks = scores.shape[-1]
    candidate = np.broadcast_to(candidate, scores.shape)
    forced = np.broadcast_to(forced, scores.shape)
    falling = np.where(forced, 0, np.where(np.isnan(scores), np.inf, -scores))
    index = np.broadcast_to(np.arange(blocks), scores.shape)
    order = np.lexsort((index, falling, ~forced, ~candidate), axis=-1)
    order = np.where(np.take_along_axis(candidate, order, axis=-1), order, -1)[..., :count]
    chosen = np.full((*scores.shape[:-1], count), -1, np.int32)
    chosen[..., : order.shape[-1]] = order
    return chosen
