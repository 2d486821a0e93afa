"""Filling, copying, gathering, transposing."""

import numpy as np

from twin.tests.vector.semantics.lanes import (
    NUMPY,
    WIDTH,
    active_lanes,
    lane_addresses,
    load,
    store,
)


def duplicate(ub, dtype, form, dst, value):
    """Every active lane becomes the value."""
    offset, blk, rep = dst
    lanes = 256 // WIDTH[dtype]
    active = active_lanes(form, lanes)
    if form[0] == "count":
        blk, rep = 1, 8
    at = lane_addresses(offset, WIDTH[dtype], lanes, len(active), blk, rep)
    store(ub, at, np.full(at.shape, value, NUMPY[dtype]), dtype, active)


def brcb(ub, dtype, repeats, dst, src):
    """Eight elements of the source per repeat, each fills one block."""
    offset, blk, rep = dst
    per_block = 32 // WIDTH[dtype]
    for i in range(repeats):
        for j in range(8):
            element = load(ub, np.array([src + WIDTH[dtype] * (8 * i + j)]), dtype)[0]
            at = offset + 32 * (i * rep + j * blk) + WIDTH[dtype] * np.arange(per_block)
            store(ub, at, np.full(per_block, element), dtype)


def copy(ub, dtype, form, repeats, dst, src):
    """The active lanes of every repeat; in counter mode n elements in each of the repeats."""
    if form[0] == "counter":
        lanes = -(-form[1] * WIDTH[dtype] // 32) * 32 // WIDTH[dtype]
        active = np.tile(np.arange(lanes) < form[1], (repeats, 1))
    else:
        lanes = 256 // WIDTH[dtype]
        active = active_lanes(form, lanes)
    to, from_ = (
        lane_addresses(offset, WIDTH[dtype], lanes, len(active), blk, rep)
        for offset, blk, rep in (dst, src)
    )
    for r in range(len(active)):
        store(ub, to[r], load(ub, from_[r], dtype), dtype, active[r])


def create_vec_index(ub, dtype, form, dst, first):
    """first, first + 1, ...: one block from the scalar unit, the rest by additions to it.

    For half the additions round: a block is the block before + 16, a repeat the one before + 128.
    """
    offset, blk, rep = dst
    lanes, per_block = 256 // WIDTH[dtype], 32 // WIDTH[dtype]
    active = active_lanes(form, lanes)
    if form[0] == "count":
        blk, rep = 1, 8
    t = NUMPY[dtype]
    at = lane_addresses(offset, WIDTH[dtype], lanes, len(active), blk, rep)
    wide = np.float32 if dtype in ("half", "float") else np.int64
    head = (wide(t(first)) + np.arange(lanes).astype(wide)).astype(t)
    if form[0] != "bits":
        for b in range(1, 8):
            part = slice(b * per_block, (b + 1) * per_block)
            head[part] = head[(b - 1) * per_block : b * per_block] + t(per_block)
    for r in range(len(active)):
        store(ub, at[r], head, dtype, active[r])
        head = head + t(lanes)


def gather(ub, dtype, form, dst, src, offsets, base):
    """dst lane i = the element at byte offsets[i] + base of the source; 256 bytes a repeat."""
    offset, rep = dst
    lanes = 256 // WIDTH[dtype]
    active = active_lanes(form, lanes)
    if form[0] == "count":
        rep = 8
    at = lane_addresses(offset, WIDTH[dtype], lanes, len(active), 1, rep)
    for r in range(len(active)):
        where = offsets + 4 * (lanes * r + np.arange(lanes))
        for lane in np.flatnonzero(active[r]):
            byte = int(load(ub, where[lane : lane + 1], "uint32")[0])
            element = load(ub, np.array([src + base + byte]), dtype)
            store(ub, at[r, lane : lane + 1], element, dtype)


def gatherb(ub, repeats, dst, src, offsets):
    """dst block j of repeat i = the 32 bytes at offsets[8i + j] of the source."""
    offset, blk, rep = dst
    for i in range(repeats):
        for j in range(8):
            byte = int(load(ub, np.array([offsets + 4 * (8 * i + j)]), "uint32")[0])
            at = offset + 32 * (i * rep + j * (blk or 1))
            ub[at : at + 32] = ub[src + byte : src + byte + 32].copy()


def pattern_bits(pattern, elements):
    """The fixed patterns 1 to 7 over so many elements."""
    i = np.arange(elements)
    if pattern == 7:
        return np.ones(elements, bool)
    if pattern < 3:
        return i % 2 == pattern - 1
    return i % 4 == pattern - 3


def gather_mask(ub, dtype, dst, src, pattern, counter, params):
    """Keeps the elements whose bit is set, packed; returns how many.

    pattern: a number 1 to 7, or ("tensor", byte offset). counter: None, or elements per repeat.
    params: (src blocks' stride, repeats, src repeat stride, pattern repeat stride).
    """
    blk, repeats, rep, pattern_rep = params
    lanes = 256 // WIDTH[dtype] if counter is None else counter
    at = lane_addresses(src, WIDTH[dtype], lanes, repeats, blk, rep)
    kept = []
    for r in range(repeats):
        if isinstance(pattern, tuple):
            start = pattern[1] + 32 * pattern_rep * r
            raw = ub[start : start + -(-lanes // 8)]
            bits = np.unpackbits(raw, bitorder="little")[:lanes].astype(bool)
        else:
            bits = pattern_bits(pattern, lanes)
        kept.append(load(ub, at[r][bits], dtype))
    kept = np.concatenate(kept)
    store(ub, dst + WIDTH[dtype] * np.arange(len(kept)), kept, dtype)
    return len(kept)


def transpose16(ub, dst, src):
    """A 16 x 16 block of 16-bit elements."""
    block = ub[src : src + 512].copy().view(np.uint16).reshape(16, 16)
    ub[dst : dst + 512] = np.ascontiguousarray(block.T).view(np.uint8).ravel()


def transpose_nchw(ub, dtype, dst, src, shape, to_nhwc):
    """[N, C, H, W] to [N, H, W, C] and back; shape is (n, c, h, w)."""
    n, c, h, w = shape
    size = n * c * h * w * WIDTH[dtype]
    x = ub[src : src + size].copy().view(NUMPY[dtype])
    if to_nhwc:
        y = x.reshape(n, c, h, w).transpose(0, 2, 3, 1)
    else:
        y = x.reshape(n, h, w, c).transpose(0, 3, 1, 2)
    ub[dst : dst + size] = np.ascontiguousarray(y).view(np.uint8).ravel()


def trans_data_to_5hd(ub, dtype, dst, src, repeats, dst_rep, src_rep, dst_high=False, high=False):
    """Sixteen source blocks become sixteen destination blocks holding their columns.

    One repeat starts at the lists' addresses plus one stride; several start at the addresses.
    """
    width = WIDTH[dtype]
    first = 1 if repeats == 1 else 0
    for r in range(first, first + repeats):
        s = [a + 32 * src_rep * r for a in src]
        d = [a + 32 * dst_rep * r for a in dst]
        if width == 1:
            rows = np.stack([ub[a + 16 * high : a + 16 * high + 16] for a in s])
            for j in range(16):
                at = d[j] + 16 * dst_high
                ub[at : at + 16] = rows[:, j]
            continue
        rows = np.stack([ub[a : a + 32].copy().view(f"uint{8 * width}") for a in s])
        columns = np.ascontiguousarray(rows.T)  # [16 or 8, 16]
        blocks = columns.reshape(16, 32 // width)
        for j in range(16):
            ub[d[j] : d[j] + 32] = np.ascontiguousarray(blocks[j]).view(np.uint8)
