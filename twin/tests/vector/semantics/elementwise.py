"""Arithmetic, logic and shifts, lane by lane, one repeat after the other."""

import numpy as np

from twin.tests.vector.semantics.lanes import WIDTH, active_lanes, lane_addresses, load, store


def _reciprocal_table(x, index_bits, function):
    """The hardware's table look-up: 8 fraction bits of function at the middle of x's interval."""
    x = np.asarray(x, np.float64)
    mantissa, exponent = np.frexp(np.abs(x))  # [0.5, 1)
    mantissa, exponent = 2 * mantissa, exponent - 1
    step = 2.0**-index_bits
    middle = 1 + (np.floor((mantissa - 1) / step) + 0.5) * step
    return function(middle, exponent)


def reciprocal(x):
    """1/x to 8 fraction bits; the samples of the documentation, -7.152 -> -0.1396."""

    def look_up(middle, exponent):
        return np.rint(512 / middle) / 512 * 2.0**-exponent

    with np.errstate(all="ignore"):
        y = np.copysign(_reciprocal_table(x, 8, look_up), x)
        y = np.where(x == 0, np.copysign(np.inf, x), np.where(np.isinf(x), np.copysign(0, x), y))
        return np.where(np.isnan(x), np.nan, y).astype(np.asarray(x).dtype)


def rsqrt(x):
    """1/sqrt(x) to 8 fraction bits; the samples of the documentation, 2.2 -> 0.676."""

    def look_up(middle, exponent):
        odd = exponent % 2
        value = np.rint(512 / np.sqrt(middle * 2.0**odd)) / 512
        return value * 2.0 ** (-(exponent - odd) // 2)

    with np.errstate(all="ignore"):
        y = _reciprocal_table(x, 7, look_up)
        y = np.where(x == 0, np.copysign(np.inf, x), np.where(np.isposinf(x), 0, y))
        return np.where(np.isnan(x) | (x < 0), np.nan, y).astype(np.asarray(x).dtype)


def _through_double(f):
    return lambda x: f(np.asarray(x, np.float64)).astype(np.asarray(x).dtype)


def _fused(a, b, c):
    """a * b + c with one rounding, in the dtype of c.

    The product is exact in float64 (halves) or, for floats, the sum's error decides a tie.
    """
    dtype = c.dtype
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    total = product + np.asarray(c, np.float64)
    if dtype == np.float16:
        return total.astype(dtype)
    # float64 sum, rounded to odd, then rounded to float: no double rounding.
    big = np.asarray(c, np.float64)
    with np.errstate(all="ignore"):
        t = total - product
        error = (product - (total - t)) + (big - t)
        bits = np.ascontiguousarray(total).view(np.int64)
        even = (bits & 1) == 0
        finite = np.isfinite(total) & (error != 0)
        towards = np.where(error > 0, np.inf, -np.inf)
        total = np.where(finite & even, np.nextafter(total, towards), total)
    return total.astype(dtype)


BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "And": np.bitwise_and,
    "Or": np.bitwise_or,
    "AddRelu": lambda a, b: np.maximum(a + b, np.zeros_like(a)),
    "SubRelu": lambda a, b: np.maximum(a - b, np.zeros_like(a)),
}

SCALAR = {
    "Adds": np.add,
    "Muls": np.multiply,
    "Maxs": np.maximum,
    "Mins": np.minimum,
    "LeakyRelu": lambda a, s: np.where(a >= 0, a, a * s),
}

UNARY = {
    "Exp": _through_double(np.exp),
    "Ln": _through_double(np.log),
    "Abs": np.abs,
    "Sqrt": np.sqrt,
    "Rsqrt": rsqrt,
    "Reciprocal": reciprocal,
    "Relu": lambda x: np.maximum(x, np.zeros_like(x)),
    "Not": np.invert,
}


def _lanes(dst_dtype, src_dtype):
    return 256 // max(WIDTH[dst_dtype], WIDTH[src_dtype])


def _run(ub, form, dst, sources, function, reads_dst=False):
    """Runs function over (dtype, offset, blk, rep) operands, repeat by repeat."""
    lanes = min(_lanes(dst[0], s[0]) for s in sources)
    active = active_lanes(form, lanes)
    repeats = len(active)

    def addresses(operand):
        dtype, offset, blk, rep = operand
        if form[0] == "count":
            blk, rep = 1, lanes * WIDTH[dtype] // 32
        return lane_addresses(offset, WIDTH[dtype], lanes, repeats, blk, rep)

    where = addresses(dst)
    from_ = [addresses(s) for s in sources]
    for r in range(repeats):
        values = [load(ub, a[r], s[0]) for a, s in zip(from_, sources)]
        if reads_dst:
            values.append(load(ub, where[r], dst[0]))
        with np.errstate(all="ignore"):
            store(ub, where[r], function(*values), dst[0], active[r])


def binary(ub, name, dtype, form, dst, src0, src1):
    """dst = src0 op src1; every operand is (offset, blk, rep)."""
    _run(ub, form, (dtype, *dst), [(dtype, *src0), (dtype, *src1)], BINARY[name])


def scalar(ub, name, dtype, form, dst, src, value):
    """dst = src op scalar of the same dtype."""
    _run(ub, form, (dtype, *dst), [(dtype, *src)], lambda x: SCALAR[name](x, x.dtype.type(value)))


def unary(ub, name, dtype, form, dst, src):
    """dst = op(src)."""
    _run(ub, form, (dtype, *dst), [(dtype, *src)], UNARY[name])


def shift(ub, name, dtype, form, dst, src, bits, round_en=False):
    """Logical shifts of unsigned types, arithmetic ones of signed types (the sign bit stays)."""
    width = 8 * WIDTH[dtype]
    signed = dtype.startswith("int")

    def left(x):
        unsigned = x.astype(np.int64) & ((1 << width) - 1)
        shifted = (unsigned << bits) & ((1 << width) - 1)
        if signed:
            sign = unsigned & (1 << (width - 1))
            shifted = (shifted & ~(1 << (width - 1))) | sign
        return shifted.astype(np.uint64).astype(f"uint{width}").view(x.dtype)

    def right(x):
        wide = x.astype(np.int64)
        carry = (wide >> (bits - 1)) & 1 if round_en and bits > 0 and signed else 0
        return ((wide >> bits) + carry).astype(x.dtype)

    _run(ub, form, (dtype, *dst), [(dtype, *src)], left if name == "ShiftLeft" else right)


def axpy(ub, dst_dtype, src_dtype, form, dst, src, value):
    """Dst += src * scalar, rounded once."""

    def f(x, d):
        return _fused(x, x.dtype.type(value), d)

    _run(ub, form, (dst_dtype, *dst), [(src_dtype, *src)], f, reads_dst=True)


def mul_add_dst(ub, dst_dtype, src_dtype, form, dst, src0, src1):
    """Dst += src0 * src1, rounded once."""
    sources = [(src_dtype, *src0), (src_dtype, *src1)]
    _run(ub, form, (dst_dtype, *dst), sources, _fused, reads_dst=True)


def fused_mul_add(ub, name, dtype, form, dst, src0, src1):
    """Dst = src0 * dst + src1; the product is rounded to the dtype before the sum."""

    def f(a, b, d):
        y = a * d + b
        return np.maximum(y, np.zeros_like(y)) if name == "MulAddRelu" else y

    _run(ub, form, (dtype, *dst), [(dtype, *src0), (dtype, *src1)], f, reads_dst=True)
