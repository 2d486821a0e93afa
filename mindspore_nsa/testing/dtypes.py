"""The three dtypes of the operators in NumPy, which has no bfloat16.

A bfloat16 tensor is the pair ("bfloat16", uint16 array of its bits), as the native binding takes
and returns it.
"""

import numpy as np

BFLOAT16 = "bfloat16"
DTYPES = ("float32", "float16", BFLOAT16)

# One unit in the last place at 1.
ULP = {"float32": 2.0**-23, "float16": 2.0**-10, BFLOAT16: 2.0**-7}
SMALLEST_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14, BFLOAT16: 2.0**-126}


def to_bfloat16_bits(x):
    """uint16 bits of x rounded to bfloat16, to nearest even; NaN stays NaN."""
    x = np.ascontiguousarray(x, np.float32)
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def from_bfloat16_bits(bits):
    """float32 values of bfloat16 bits."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


def round_to(x, dtype):
    """x rounded to dtype, as float32."""
    if dtype == BFLOAT16:
        return from_bfloat16_bits(to_bfloat16_bits(x))
    return np.asarray(x).astype(dtype).astype(np.float32)


def encode(x, dtype):
    """The tensor of that dtype as the binding takes it."""
    if dtype == BFLOAT16:
        return (BFLOAT16, to_bfloat16_bits(x))
    return np.ascontiguousarray(x, dtype)


def decode(tensor):
    """The values of a tensor, bfloat16 widened to float32; other arrays as they are."""
    if isinstance(tensor, tuple):
        return from_bfloat16_bits(tensor[1])
    return tensor


def dtype_name(tensor):
    """The dtype of a tensor by name."""
    return tensor[0] if isinstance(tensor, tuple) else np.asarray(tensor).dtype.name
