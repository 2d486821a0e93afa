"""Reductions: pairwise trees inside a block or a repeat, repeats in the documented order."""

import numpy as np

from twin.tests.vector.semantics.lanes import (
    NUMPY,
    WIDTH,
    active_lanes,
    lane_addresses,
    load,
    store,
)


def tree(values, active):
    """Sum of the active values by neighbouring pairs, ((1+2)+(3+4))+...; None if none is."""
    level = [v if on else None for v, on in zip(values, active)]
    with np.errstate(all="ignore"):
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2])
            level = [b if a is None else a if b is None else a + b for a, b in pairs]
    return level[0]


def _repeats(ub, dtype, form, src):
    """[repeats, lanes] values and active lanes of a source (offset, blk, rep)."""
    lanes = 256 // WIDTH[dtype]
    active = active_lanes(form, lanes)
    offset, blk, rep = src
    at = lane_addresses(offset, WIDTH[dtype], lanes, len(active), blk, rep)
    return load(ub, at, dtype), active


def _best(values, active, larger):
    """(value, lane) of the first extreme among the active lanes."""
    lanes = np.flatnonzero(active)
    chosen = values[lanes]
    lane = lanes[int(np.argmax(chosen) if larger else np.argmin(chosen))]
    return values[lane], lane


def pair_reduce_sum(ub, dtype, form, dst, src):
    """One sum per neighbouring pair; repeats 128 bytes * dst_rep apart; idle pairs unwritten."""
    offset, dst_rep = dst
    values, active = _repeats(ub, dtype, form, src)
    for r, (row, on) in enumerate(zip(values, active)):
        for p in range(len(row) // 2):
            total = tree(row[2 * p : 2 * p + 2], on[2 * p : 2 * p + 2])
            if total is not None:
                at = offset + 128 * dst_rep * r + WIDTH[dtype] * p
                store(ub, np.array([at]), [total], dtype)


def block_reduce(ub, op, dtype, form, dst, src):
    """One value per block, 8 * dst_rep values between repeats; idle blocks unwritten."""
    offset, dst_rep = dst
    values, active = _repeats(ub, dtype, form, src)
    per_block = 32 // WIDTH[dtype]
    for r, (row, on) in enumerate(zip(values, active)):
        for b in range(8):
            part = slice(b * per_block, (b + 1) * per_block)
            if not on[part].any():
                continue
            value = (
                tree(row[part], on[part])
                if op == "Sum"
                else _best(row[part], on[part], op == "Max")[0]
            )
            at = offset + WIDTH[dtype] * (8 * dst_rep * r + b)
            store(ub, np.array([at]), [value], dtype)


def whole_reduce(ub, op, dtype, form, dst, src, order="VALUE_INDEX"):
    """One value, or value and index, per repeat."""
    offset, dst_rep = dst
    width = WIDTH[dtype]
    index_type = np.uint16 if width == 2 else np.uint32
    values, active = _repeats(ub, dtype, form, src)
    for r, (row, on) in enumerate(zip(values, active)):
        if not on.any():
            continue
        if op == "Sum":
            store(ub, np.array([offset + width * dst_rep * r]), [tree(row, on)], dtype)
            continue
        value, lane = _best(row, on, op == "Max")
        value_bits = np.array([value], NUMPY[dtype]).view(np.uint8)
        index_bits = np.array([lane], index_type).view(np.uint8)
        if order == "VALUE_INDEX":
            raw, unit = np.concatenate([value_bits, index_bits]), 2 * width
        elif order == "INDEX_VALUE":
            raw, unit = np.concatenate([index_bits, value_bits]), 2 * width
        elif order == "ONLY_VALUE":
            raw, unit = value_bits, width
        else:
            raw, unit = np.array([lane], np.uint32).view(np.uint8), 4
        at = offset + unit * dst_rep * r
        ub[at : at + len(raw)] = raw


def reduce_sum_count(ub, dtype, count, dst, src):
    """dst[0]: a tree inside every repeat, the repeats one after the other."""
    values, active = _repeats(ub, dtype, ("count", count), (src, 1, 8))
    total = None
    with np.errstate(all="ignore"):
        for row, on in zip(values, active):
            part = tree(row, on)
            total = part if total is None else total + part
    store(ub, np.array([dst]), [total], dtype)
    return total


def reduce_sum_mask(values, active):
    """A tree inside every repeat, then trees over the repeats' results, 256 bytes at a time."""
    level = [tree(row, on) for row, on in zip(values, active)]
    lanes = values.shape[1]
    while True:
        rows = [level[i : i + lanes] for i in range(0, len(level), lanes)]
        level = [
            tree(row + [None] * (lanes - len(row)), [v is not None for v in row] + [False] * lanes)
            for row in rows
        ]
        if len(level) == 1:
            return level[0]


def extreme(values, active, larger):
    """(value, repeat, lane) of the first extreme over all repeats."""
    best = None
    for r, (row, on) in enumerate(zip(values, active)):
        if on.any():
            value, lane = _best(row, on, larger)
            if best is None or (value > best[0] if larger else value < best[0]):
                best = (value, r, lane)
    return best


def repeats(ub, dtype, form, src):
    """The values and active lanes a reduction reads."""
    return _repeats(ub, dtype, form, src)
