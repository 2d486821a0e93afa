"""Which query sees which key. Every function returns booleans, True = visible."""

import numpy as np

UNBOUNDED = 2147483647  # pre_tokens, next_tokens: no limit


def _positions(rows, columns):
    return np.arange(rows)[:, None], np.arange(columns)[None, :]


def causal_bottom_right(rows, columns):
    """Query i sees key j iff j <= i + S2 - S1: the last query sees every key."""
    i, j = _positions(rows, columns)
    return j <= i + columns - rows


def band(rows, columns, pre_tokens, next_tokens, diagonal=0):
    """Query i sees the keys i + diagonal - pre_tokens ... i + diagonal + next_tokens."""
    i, j = _positions(rows, columns)
    distance = j - i - diagonal
    return (distance <= next_tokens) & (distance >= -pre_tokens)


def sparse_visible(
    mode, rows, columns, *, pre_tokens=UNBOUNDED, next_tokens=UNBOUNDED, prefix=None, banded=False
):
    """[S1, S2] of one batch element in sparse_mode 0 to 8, without the supplied mask.

    0       band around the main diagonal (unbounded by default: everything)
    1       everything (only the supplied mask counts)
    2       j <= i
    3       j <= i + S2 - S1
    4       band around the bottom-right diagonal
    5, 6    mode 3, and every j < prefix
    7, 8    mode 4 in the one element that is `banded`; else mode 3 (7) or mode 2 (8)
    """
    if mode == 0:
        return band(rows, columns, pre_tokens, next_tokens)
    if mode == 1:
        return np.ones((rows, columns), bool)
    if mode == 4 or (mode in (7, 8) and banded):
        return band(rows, columns, pre_tokens, next_tokens, diagonal=columns - rows)
    if mode in (2, 8):
        return band(rows, columns, UNBOUNDED, 0)
    if mode in (3, 7):
        return causal_bottom_right(rows, columns)
    if mode in (5, 6):
        return causal_bottom_right(rows, columns) | (np.arange(columns)[None, :] < prefix)
    raise ValueError(f"sparse_mode must be in [0, 8], got {mode}")


def banded_element(mode, query_lengths):
    """Index of the batch element that is a band in mode 7 (last with a query) or 8 (first)."""
    with_query = [b for b, n in enumerate(query_lengths) if n > 0]
    if mode not in (7, 8) or not with_query:
        return None
    return with_query[-1] if mode == 7 else with_query[0]


def compressed_causal(rows, columns, block_size, stride, q_offset=0):
    """Compressed token c ends at c*s + l - 1; the query at q_offset + i sees the ended ones."""
    i, c = _positions(rows, columns)
    return c * stride + block_size - 1 <= q_offset + i


def supplied(attn_mask, b, q_segment, kv_segment, layout, packed):
    """Visibility [N1 or 1, S1, S2] in element b under a mask tensor (1 = masked).

    Ranks 4 and 2; in TND a [T1, T2] mask (`packed`) is indexed by packed position, any other by
    the position inside the element, and its own row length is the stride.
    """
    mask = np.asarray(attn_mask) != 0
    rows, columns = q_segment[1] - q_segment[0], kv_segment[1] - kv_segment[0]
    if mask.ndim == 4:
        mask = mask[b if mask.shape[0] > 1 else 0]
    elif layout == "TND" and packed:
        mask = mask[None, q_segment[0] : q_segment[1], kv_segment[0] : kv_segment[1]]
    else:
        mask = mask[None]
    return ~mask[:, :rows, :columns]
