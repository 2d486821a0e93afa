"""Positional bias (pse, the argument real_shift) of FlashAttentionScore."""

import numpy as np

ALIBI_ROWS = 1024  # H: rows of the compressed alibi form


def is_alibi(real_shift, layout, query_length):
    """[B or 1, N1, 1024, columns], unless the query really has 1024 rows."""
    return (
        real_shift.ndim == 4
        and real_shift.shape[2] == ALIBI_ROWS
        and (layout == "TND" or query_length != ALIBI_ROWS)
    )


def slope_bias(slopes, b, rows, columns, q_start, kv_start, square_root):
    """Types 2 and 3: -slope[h] * d or -slope[h] * sqrt(d), d = |j + kv_start - i - q_start|."""
    slope = slopes[b] if slopes.ndim == 2 else slopes
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    d = np.abs(j + kv_start - i - q_start).astype(slope.dtype)
    return -slope[:, None, None] * (np.sqrt(d) if square_root else d)


def alibi_bias(real_shift, b, rows, columns, layout):
    """The compressed form holds the last H rows of a Toeplitz bias, aligned to the bottom right.

    Row i >= S1 - H reads stored row i - (S1 - H); an earlier one reads stored row r = i % H, which
    stands (S1 - H) + r - i rows further down, shifted by as many columns. Entries above the
    diagonal may lie outside; those pairs are always masked, so any value will do.
    """
    stored = real_shift[b if real_shift.shape[0] > 1 else 0]
    width = stored.shape[-1]
    above = rows - ALIBI_ROWS
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    row = np.where(i >= above, i - above, i % ALIBI_ROWS)
    column = j + np.where(i >= above, 0, above + row - i)
    if layout == "TND":
        column = column + width - columns
    return stored[:, row, np.clip(column, 0, width - 1)]


class FlatBias:
    """TND: the elements' [N1, S1_b, S2_b] or [N1, 1, S2_b] behind each other in one flat tensor.

    Where both readings fit the number of elements, it is the full form.
    """

    def __init__(self, size, heads, q_lengths, kv_lengths):
        full = [heads * a * c for a, c in zip(q_lengths, kv_lengths, strict=True)]
        self.full = sum(full) == size
        sizes = full if self.full else [heads * c for c in kv_lengths]
        if sum(sizes) != size:
            raise ValueError(
                f"real_shift must hold {sum(full)} or {sum(sizes)} elements, got {size}"
            )
        self.starts = [0, *np.cumsum(sizes)]
        self.shapes = [
            (heads, a if self.full else 1, c) for a, c in zip(q_lengths, kv_lengths, strict=True)
        ]

    def view(self, flat, b):
        """The part of element b, writable."""
        return flat[self.starts[b] : self.starts[b + 1]].reshape(self.shapes[b])
