"""Tensor layouts of attention, seen as one [heads, tokens, dim] view per batch element.

Views, not copies: writing into a view of an output fills the output in its own layout.
"""

# The last axis of softmax_max and softmax_sum: one value, repeated.
SOFTMAX_LANES = 8


def per_batch(x, layout, heads, segments=None):
    """Views [heads, S_b, D] of a tensor in layout BSH, SBH, BSND, BNSD or TND.

    `segments` holds (start, end) per batch element and is used by TND alone.
    """
    if layout == "TND":
        return [x[start:end].transpose(1, 0, 2) for start, end in segments]
    if layout == "BNSD":
        return list(x)
    if layout == "BSH":
        batch, seq, hidden = x.shape
        x = x.reshape(batch, seq, heads, hidden // heads)
    elif layout == "SBH":
        seq, batch, hidden = x.shape
        x = x.reshape(seq, batch, heads, hidden // heads).transpose(1, 0, 2, 3)
    elif layout != "BSND":
        raise ValueError(f"input_layout must be BSH, SBH, BSND, BNSD or TND, got {layout!r}")
    return [element.transpose(1, 0, 2) for element in x]


def heads_and_dim(shape, layout, heads=None):
    """(N, D); in BSH and SBH the number of heads must be known."""
    if layout in ("BSH", "SBH"):
        return heads, shape[2] // heads
    if layout == "BNSD":
        return shape[1], shape[3]
    return shape[-2], shape[-1]


def with_dim(shape, layout, heads, dim):
    """`shape` with the head dim replaced by `dim`."""
    return (*shape[:-1], heads * dim if layout in ("BSH", "SBH") else dim)


def statistics_shape(shape, layout, heads):
    """Shape of softmax_max and softmax_sum for a query of the given shape."""
    if layout == "TND":
        return (shape[0], heads, SOFTMAX_LANES)
    batch, seq = {
        "BSH": (0, 1),
        "SBH": (1, 0),
        "BSND": (0, 1),
        "BNSD": (0, 2),
    }[layout]
    return (shape[batch], heads, shape[seq], SOFTMAX_LANES)
