"""Which bytes of the unified buffer an instruction touches: masks, blocks, repeats.

A repeat is eight blocks of 32 bytes. A form of a call is one of
    ("count", n)                 the first n elements, contiguous,
    ("mask", m, repeats)         the first m lanes of every repeat,
    ("bits", (low, high), repeats)  the lanes whose bit is set,
    ("counter", n)               n elements over as many repeats as they need, strides as given.
"""

import numpy as np

BLOCK = 32
REPEAT = 256

WIDTH = {
    "half": 2,
    "bfloat16": 2,
    "float": 4,
    "int4": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
}

# bfloat16 has no NumPy type: its tensors are the bits.
NUMPY = {
    "half": np.float16,
    "bfloat16": np.uint16,
    "float": np.float32,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "uint16": np.uint16,
    "int32": np.int32,
    "uint32": np.uint32,
    "int64": np.int64,
    "uint64": np.uint64,
}


def lane_addresses(offset, width, lanes, repeats, blk, rep):
    """[repeats, lanes] byte address of every lane; blk and rep are strides in blocks."""
    per_block = BLOCK // width
    lane = np.arange(lanes)
    in_repeat = BLOCK * blk * (lane // per_block) + width * (lane % per_block)
    return offset + BLOCK * rep * np.arange(repeats)[:, None] + in_repeat[None, :]


def active_lanes(form, lanes):
    """[repeats, lanes] bool: the lanes that take part."""
    kind = form[0]
    if kind in ("count", "counter"):
        repeats = -(-form[1] // lanes)
        return np.arange(repeats * lanes).reshape(repeats, lanes) < form[1]
    if kind == "mask":
        return np.tile(np.arange(lanes) < form[1], (form[2], 1))
    low, high = form[1]
    bits = [(low >> i) & 1 if i < 64 else (high >> (i - 64)) & 1 for i in range(lanes)]
    return np.tile(np.array(bits, bool), (form[2], 1))


def load(ub, addresses, dtype):
    """The elements at byte addresses."""
    dt = np.dtype(NUMPY[dtype])
    bytes_of = addresses[..., None] + np.arange(dt.itemsize)
    return np.ascontiguousarray(ub[bytes_of]).view(dt)[..., 0]


def store(ub, addresses, values, dtype, active=None):
    """Writes elements to byte addresses, those that are active only."""
    dt = np.dtype(NUMPY[dtype])
    raw = np.ascontiguousarray(np.asarray(values, dt)[..., None]).view(np.uint8)
    if active is not None:
        addresses, raw = addresses[active], raw[active]
    ub[addresses[..., None] + np.arange(dt.itemsize)] = raw


def strides_of(form, blk, rep):
    """Strides of one operand: the count form is contiguous whatever the caller's strides are."""
    return (1, 8) if form[0] == "count" else (blk, rep)
