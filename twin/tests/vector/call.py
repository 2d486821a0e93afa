"""Runs a vector API of the twin on an image of the unified buffer."""

import ctypes

import numpy as np

from twin.tests.vector.semantics.lanes import NUMPY

# The data types by CANN's names.
TYPE_NAMES = {name: name if name in ("half", "float") else f"{name}_t" for name in NUMPY}
TYPE_NAMES |= {"int4": "int4b_t", "bool": "bool"}
FORMS = {
    "count": 0,
    "mask": 1,
    "bits": 2,
    "counter": 3,
    "outside mask": 4,
    "outside bits": 5,
    "outside counter": 6,
}
# The form's meaning for the NumPy statements.
MEANING = {"outside mask": "mask", "outside bits": "bits", "outside counter": "counter"}


class TwinError(RuntimeError):
    """Result of a call as the twin tells it."""


class Image:
    """The unified buffer of a call: operands are placed one after the other, with gaps."""

    def __init__(self, seed=0, gap=64):
        self.rng = np.random.default_rng(seed)
        self.parts = []
        self.end = 0
        self.gap = gap

    def place(self, values, align=32):
        """Puts an array; returns its byte offset."""
        raw = np.ascontiguousarray(values).view(np.uint8).ravel()
        offset = -(-self.end // align) * align
        self.parts.append((offset, raw))
        self.end = offset + raw.size + self.gap
        return offset

    def bytes(self):
        """The whole image; gaps hold a pattern that no instruction should touch."""
        size = -(-self.end // 32) * 32
        image = np.resize(np.array([0xA5, 0x3C, 0x5A], np.uint8), size)
        for offset, raw in self.parts:
            image[offset : offset + raw.size] = raw
        return image


class Driver:
    """The compiled driver."""

    def __init__(self, library):
        self._run = ctypes.CDLL(str(library)).run_vector_call
        self._run.restype = ctypes.c_int

    def __call__(self, api, types, form, image, args):
        """Returns the image after the call and the driver's results.

        form: (kind, value, repeats) as in `semantics.lanes`; value is a pair of words for bits.
        args: the numbers the driver documents for the API; floats and halves go as their bits.
        """
        kind = form[0]
        value = form[1]
        low, high = value if isinstance(value, tuple) else (value, 0)
        repeats = form[2] if len(form) > 2 else 1
        numbers = np.array(
            [_signed(n) for n in (low, high, repeats, *args)],
            np.int64,
        )
        out = np.zeros_like(image)
        results = np.zeros(16, np.int64)
        error = ctypes.create_string_buffer(4096)
        text = f"{api} {','.join(TYPE_NAMES[t] for t in types)} {FORMS[kind]}"
        failed = self._run(
            text.encode(),
            image.ctypes.data_as(ctypes.c_void_p),
            out.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_uint32(image.size),
            numbers.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_int(numbers.size),
            results.ctypes.data_as(ctypes.c_void_p),
            error,
            ctypes.c_int(len(error)),
        )
        if failed:
            raise TwinError(error.value.decode())
        return out, results


def _signed(n):
    n = int(n)
    return n - (1 << 64) if n >= 1 << 63 else n


def width(dtype):
    """Bytes of an element."""
    return np.dtype(NUMPY[dtype]).itemsize


def bits(value, dtype):
    """The bits of a scalar, as the driver takes it."""
    raw = np.array([value], NUMPY[dtype]).view(f"u{np.dtype(NUMPY[dtype]).itemsize}")
    return int(raw[0])


def meaning(form):
    """The form as the NumPy statements know it."""
    return (MEANING.get(form[0], form[0]), *form[1:])


def values(rng, dtype, n, low=-8.0, high=8.0):
    """Random elements of a type."""
    if dtype == "bfloat16":
        return (rng.uniform(low, high, n).astype(np.float32).view(np.uint32) >> 16).astype("u2")
    if dtype in ("half", "float"):
        return rng.uniform(low, high, n).astype(NUMPY[dtype])
    info = np.iinfo(NUMPY[dtype])
    return rng.integers(info.min, info.max, n, NUMPY[dtype], endpoint=True)


def same(got, expected):
    """Asserts that two images are equal, and says where they first differ."""
    if np.array_equal(got, expected):
        return
    at = np.flatnonzero(got != expected)
    first = int(at[0])
    block = slice(first // 32 * 32, first // 32 * 32 + 32)
    raise AssertionError(
        f"{at.size} bytes differ, the first at {first}; block {block.start}:\n"
        f"twin     {got[block].tobytes().hex(' ')}\nexpected {expected[block].tobytes().hex(' ')}"
    )


def expected(image, statement):
    """The image after `statement`; lanes that take no part may lie beyond its end."""
    padded = np.concatenate([image, np.zeros(1 << 17, np.uint8)])
    statement(padded)
    assert not padded[image.size :].any()
    return padded[: image.size]
