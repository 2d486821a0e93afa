"""The layouts of the cube's memories and its arithmetic, as the architecture's documents have them.

Offsets are in elements; C0 is 32 bytes of elements; a fractal is 16 rows of C0.
"""

import numpy as np

FILL = 0xEE  # what memory holds before a kernel writes it


def c0_of(dtype):
    return 32 // np.dtype(dtype).itemsize


def ceil_to(value, unit):
    return -(-value // unit) * unit


def poisoned(count, dtype):
    return np.full(count * np.dtype(dtype).itemsize, FILL, np.uint8).view(dtype)


def nz_offset(row, column, c0, c0_stride, n_stride=1):
    return (column // c0) * c0_stride * c0 + row * n_stride * c0 + column % c0


def zz(a, k_unit=None):
    """A [M, K] in L0A; K filled up to `k_unit` (C0 unless given), the filling poisoned."""
    c0 = c0_of(a.dtype)
    m, k = a.shape
    k1 = ceil_to(k, k_unit or c0) // c0
    out = poisoned(ceil_to(m, 16) * k1 * c0, a.dtype)
    r, c = np.indices(a.shape)
    out[((r // 16) * k1 + c // c0) * 16 * c0 + (r % 16) * c0 + c % c0] = a
    return out


def zn(b):
    """B [K, N] in L0B."""
    c0 = c0_of(b.dtype)
    k, n = b.shape
    n1 = ceil_to(n, 16) // 16
    out = poisoned(ceil_to(k, c0) * n1 * 16, b.dtype)
    r, c = np.indices(b.shape)
    out[((r // c0) * n1 + c // 16) * 16 * c0 + (c % 16) * c0 + r % c0] = b
    return out


def l0c_offset(row, column, rows):
    """Places of C in L0C, `rows` rows (16 a fractal) to a column block."""
    return (column // 16) * ceil_to(rows, 16) * 16 + row * 16 + column % 16


def l0c(c):
    out = poisoned(ceil_to(c.shape[0], 16) * ceil_to(c.shape[1], 16), c.dtype)
    r, col = np.indices(c.shape)
    out[l0c_offset(r, col, c.shape[0])] = c
    return out


def from_l0c(flat, m, n):
    r, c = np.indices((m, n))
    return flat[l0c_offset(r, c, m)]


def mmad(a, b, start, c0):
    """C of one Mmad in single precision: K upwards, C0 products added up before C takes them."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    c = start.astype(np.float32).copy()
    for begin in range(0, a.shape[1], c0):
        part = np.zeros_like(c)
        for k in range(begin, min(begin + c0, a.shape[1])):
            part = (part + a[:, k : k + 1] * b[k : k + 1]).astype(np.float32)
        c = (c + part).astype(np.float32)
    return c


def bfloat16_bits(x):
    """Bits of the nearest bfloat16, ties to even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def bfloat16_values(bits):
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def unfold(x, pads, stride, filters, dilation, pad_value):
    """im2col of a feature map [C1, H, W, C0]: [rows of the output, C1 * taps * C0]."""
    left, right, top, bottom = pads
    (stride_w, stride_h), (filter_w, filter_h), (dilation_w, dilation_h) = stride, filters, dilation
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=pad_value)
    rows = []
    for h in range(0, padded.shape[1] - (filter_h - 1) * dilation_h, stride_h):
        for w in range(0, padded.shape[2] - (filter_w - 1) * dilation_w, stride_w):
            taps = [
                padded[:, h + i * dilation_h, w + j * dilation_w]
                for i in range(filter_h)
                for j in range(filter_w)
            ]
            rows.append(np.stack(taps, 1).reshape(-1))
    return np.stack(rows)
