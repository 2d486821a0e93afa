"""Segments of a packed batch, given by inclusive prefix sums."""

import numpy as np


def bounds(prefix_sums):
    """[(start, end), ...] of every segment; a leading 0 is an empty first segment."""
    ends = [int(v) for v in prefix_sums]
    starts = [0] + ends[:-1]
    return list(zip(starts, ends, strict=True))


def lengths(prefix_sums):
    """Number of tokens of every segment."""
    return [end - start for start, end in bounds(prefix_sums)]


def num_windows(length, block_size, stride):
    """W_b: windows of block_size tokens, stride apart, that fit into a segment."""
    return (length - block_size) // stride + 1 if length >= block_size else 0


def compressed_seq_len(actual_seq_len, compress_block_size, compress_stride):
    """Inclusive prefix sums of the compressed tokens of every segment."""
    windows = [
        num_windows(n, compress_block_size, compress_stride) for n in lengths(actual_seq_len)
    ]
    return [int(v) for v in np.cumsum(windows)]


def offsets(q_offset, count):
    """Position of the first query of each of `count` segments, 0 unless given."""
    return [0] * count if q_offset is None else [int(v) for v in q_offset]
