"""Compare, Compares, Select and the comparison mask register."""

import numpy as np

from twin.tests.vector.semantics.lanes import (
    NUMPY,
    WIDTH,
    active_lanes,
    lane_addresses,
    load,
    store,
)

MODES = {
    "LT": np.less,
    "GT": np.greater,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GE": np.greater_equal,
    "NE": np.not_equal,
}


def _bits(flags):
    return np.packbits(flags.astype(bool), bitorder="little")


def _repeats(form, lanes):
    return -(-form[1] // lanes) if form[0] in ("count", "counter") else form[-1]


def _addresses(form, width, lanes, repeats, operand):
    offset, blk, rep = operand
    if form[0] == "count":
        blk, rep = 1, 8
    return lane_addresses(offset, width, lanes, repeats, blk, rep)


def compare(ub, mode, dtype, form, dst, src0, src1):
    """A bit per element, packed from the lowest bit on; masks play no part.

    src1: an operand (offset, blk, rep), or ("scalar", value).
    """
    lanes = 256 // WIDTH[dtype]
    repeats = _repeats(form, lanes)
    a = load(ub, _addresses(form, WIDTH[dtype], lanes, repeats, src0), dtype)
    if src1[0] == "scalar":
        b = NUMPY[dtype](src1[1])
    else:
        b = load(ub, _addresses(form, WIDTH[dtype], lanes, repeats, src1), dtype)
    packed = _bits(MODES[mode](a, b).ravel())
    ub[dst : dst + len(packed)] = packed


def compare_to_register(ub, mode, dtype, form, src0, src1, register):
    """One repeat into the 128-bit register; lanes that are masked off keep their bit."""
    lanes = 256 // WIDTH[dtype]
    active = active_lanes(form, lanes)[0]
    a, b = (
        load(ub, lane_addresses(o, WIDTH[dtype], lanes, 1, blk, 8), dtype)[0]
        for o, blk in (src0, src1)
    )
    flags = np.unpackbits(register, bitorder="little").astype(bool)
    flags[:lanes][active] = MODES[mode](a, b)[active]
    return _bits(flags)


def select(ub, mode, dtype, form, dst, mask, src0, src1):
    """dst = src0 where the mask's bit is 1, src1 elsewhere.

    mode: "SPR" uses the same bits in every repeat, "SCALAR" and "TENSOR" go on through the mask.
    src1: an operand, or ("scalar", value) in mode "SCALAR".
    """
    lanes = 256 // WIDTH[dtype]
    active = active_lanes(form, lanes)
    repeats = len(active)
    to = _addresses(form, WIDTH[dtype], lanes, repeats, dst)
    from0 = _addresses(form, WIDTH[dtype], lanes, repeats, src0)
    if src1[0] != "scalar":
        from1 = _addresses(form, WIDTH[dtype], lanes, repeats, src1)
    step = 0 if mode == "SPR" else lanes // 8
    for r in range(repeats):
        start = mask + step * r
        raw = mask_bytes(ub, start, lanes)
        bits = np.unpackbits(raw, bitorder="little")[:lanes].astype(bool)
        other = (
            np.full(lanes, src1[1], NUMPY[dtype])
            if src1[0] == "scalar"
            else load(ub, from1[r], dtype)
        )
        store(ub, to[r], np.where(bits, load(ub, from0[r], dtype), other), dtype, active[r])


def mask_bytes(ub, start, lanes):
    """The bytes that hold the mask of one repeat."""
    return ub[start : start + lanes // 8].copy()
