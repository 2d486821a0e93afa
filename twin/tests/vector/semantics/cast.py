"""Cast: rounding modes and saturation of every documented pair of types."""

import numpy as np

from twin.tests.vector.semantics.lanes import (
    NUMPY,
    WIDTH,
    active_lanes,
    lane_addresses,
    load,
    store,
)

FIVE = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")
# (source, destination): the round modes the documentation lists for it.
PAIRS = {
    ("int4", "half"): ("NONE",),
    ("int8", "half"): ("NONE",),
    ("uint8", "half"): ("NONE",),
    ("int16", "half"): (*FIVE, "NONE"),
    ("int16", "float"): ("NONE",),
    ("half", "int4"): (*FIVE, "NONE"),
    ("half", "int8"): (*FIVE, "NONE"),
    ("half", "uint8"): (*FIVE, "NONE"),
    ("half", "int16"): FIVE,
    ("half", "int32"): FIVE,
    ("half", "float"): ("NONE",),
    ("bfloat16", "int32"): FIVE,
    ("bfloat16", "float"): ("NONE",),
    ("int32", "int16"): ("NONE",),
    ("int32", "half"): (*FIVE, "NONE"),
    ("int32", "float"): (*FIVE, "NONE"),
    ("int32", "int64"): ("NONE",),
    ("float", "int16"): FIVE,
    ("float", "half"): (*FIVE, "ODD", "NONE"),
    ("float", "bfloat16"): FIVE,
    ("float", "int32"): FIVE,
    ("float", "float"): FIVE,
    ("float", "int64"): FIVE,
    ("int64", "int32"): ("NONE",),
    ("int64", "float"): FIVE,
}
# dtype: significant bits, exponent of the smallest normal, largest finite value.
FLOATS = {
    "half": (11, -14, 65504.0),
    "bfloat16": (8, -126, 2.0**127 * (2 - 2.0**-7)),
    "float": (24, -126, float(np.finfo(np.float32).max)),
}


def _round(x, mode):
    """X (float64, or an integer over a power of two) to integers."""
    if mode in ("RINT", "NONE"):
        return np.rint(x)
    if mode == "FLOOR":
        return np.floor(x)
    if mode == "CEIL":
        return np.ceil(x)
    if mode == "TRUNC":
        return np.trunc(x)
    if mode == "ROUND":
        return np.copysign(np.floor(np.abs(x) + 0.5), x)
    assert mode == "ODD"
    whole = np.trunc(x)
    away = whole + np.sign(x)
    return np.where(x == whole, x, np.where(np.abs(whole) % 2 == 1, whole, away))


def to_float_format(x, dtype, mode):
    """X rounded to a float format; overflow and infinity saturate, NaN becomes 0."""
    bits, smallest, largest = FLOATS[dtype]
    with np.errstate(all="ignore"):
        _, e = np.frexp(x)
        ulp = np.ldexp(1.0, np.maximum(e - bits, smallest - bits + 1))
        y = _round(x / ulp, mode) * ulp
        y = np.where(np.isinf(x), x, y)
        y = np.clip(y, -largest, largest)
        return np.where(np.isnan(x), 0.0, np.where(x == 0, x, y))


def to_int(x, dtype, mode):
    """X rounded to an integer type, saturating; NaN becomes 0."""
    bits = 4 if dtype == "int4" else 8 * WIDTH[dtype]
    low = 0 if dtype.startswith("u") else -(1 << (bits - 1))
    high = (1 << bits) - 1 if dtype.startswith("u") else (1 << (bits - 1)) - 1
    out = []
    for v in x.ravel():
        if np.isnan(v):
            out.append(0)
        elif np.isinf(v):
            out.append(high if v > 0 else low)
        else:
            out.append(min(max(int(_round(v, mode)), low), high))
    return np.array(out, NUMPY[dtype] if dtype != "int4" else np.int8).reshape(x.shape)


def _int64_to_float(v, mode):
    """An int64 as float, exactly rounded (float64 has too few bits for it)."""
    magnitude, sign = abs(int(v)), -1 if v < 0 else 1
    spare = max(0, magnitude.bit_length() - 24)
    whole, rest, half = magnitude >> spare, magnitude & ((1 << spare) - 1), (1 << spare) >> 1
    up = {
        "RINT": rest > half or (rest == half and spare and whole & 1),
        "NONE": rest > half or (rest == half and spare and whole & 1),
        "ROUND": spare > 0 and rest >= half,
        "TRUNC": False,
        "FLOOR": sign < 0 and rest > 0,
        "CEIL": sign > 0 and rest > 0,
    }[mode]
    return np.float32(sign * float((whole + bool(up)) << spare))


def values(x, src, dst, mode, deq_scale=1.0):
    """The cast of an array."""
    if dst == "int64" and src == "int32":
        return x.astype(np.int64)
    if src in ("int32", "int64") and dst in ("int16", "int32"):
        info = np.iinfo(NUMPY[dst])
        return np.clip(x, info.min, info.max).astype(NUMPY[dst])
    if src == "int64" and dst == "float":
        return np.array([_int64_to_float(v, mode) for v in x.ravel()], np.float32).reshape(x.shape)
    if src == "bfloat16":
        x = (x.astype(np.uint32) << 16).view(np.float32)
    wide = x.astype(np.float64)
    if src == "int32" and dst == "half":
        return to_float_format(wide * float(np.float16(deq_scale)), "half", "RINT").astype("f2")
    if src == "float" and dst == "float":
        return np.where(np.isfinite(wide), _round(wide, mode), wide).astype(np.float32)
    if dst == "float":
        exact = src in ("half", "bfloat16", "int16")
        return (wide if exact else to_float_format(wide, "float", mode)).astype(np.float32)
    if dst == "half":
        return to_float_format(wide, "half", mode).astype(np.float16)
    if dst == "bfloat16":
        y = to_float_format(wide, "bfloat16", mode).astype(np.float32)
        return (y.view(np.uint32) >> 16).astype(np.uint16)
    return to_int(wide, dst, mode)


def _load_int4(ub, offset_bytes, elements):
    """Two elements to a byte, the first in the low half."""
    byte = ub[offset_bytes + elements // 2]
    nibble = np.where(elements % 2, byte >> 4, byte & 15).astype(np.int8)
    return np.where(nibble > 7, nibble - 16, nibble).astype(np.int8)


def cast(ub, src_dtype, dst_dtype, form, mode, dst, src, deq_scale=1.0):
    """Dst = cast(src); a repeat has the lanes of the wider type."""
    lanes = 256 // max(WIDTH[src_dtype], WIDTH[dst_dtype])
    active = active_lanes(form, lanes)

    def bits_of(dtype):
        return 4 if dtype == "int4" else 8 * WIDTH[dtype]

    def addresses(dtype, operand):
        offset, blk, rep = operand
        if form[0] == "count":
            blk, rep = 1, lanes * bits_of(dtype) // 256
        if dtype != "int4":
            return lane_addresses(offset, WIDTH[dtype], lanes, len(active), blk, rep)
        lane = np.arange(lanes)
        in_repeat = 64 * blk * (lane // 64) + lane % 64
        return 64 * rep * np.arange(len(active))[:, None] + in_repeat[None, :]

    where, from_ = addresses(dst_dtype, dst), addresses(src_dtype, src)
    for r in range(len(active)):
        if src_dtype == "int4":
            x = _load_int4(ub, src[0], from_[r])
        else:
            x = load(ub, from_[r], src_dtype)
        y = values(x, src_dtype, dst_dtype, mode, deq_scale)
        if dst_dtype != "int4":
            store(ub, where[r], y, dst_dtype, active[r])
            continue
        for element, v, on in zip(where[r], y, active[r]):
            if on:
                at = dst[0] + element // 2
                shift = 4 * (element % 2)
                ub[at] = (int(ub[at]) & ~(15 << shift) & 255) | ((int(v) & 15) << shift)
