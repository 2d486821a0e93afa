"""Mmad and Fixpipe against single-precision statements of what they compute and where it lies."""

import numpy as np
import pytest

from twin.tests.cube.layouts import (
    bfloat16_bits,
    bfloat16_values,
    c0_of,
    ceil_to,
    from_l0c,
    l0c,
    mmad,
    poisoned,
    zn,
    zz,
)

ZERO, BIAS, TABLE, IS_BIAS = range(4)
NO_QUANT, F322F16, F322BF16, DEQF16, VDEQF16 = range(5)


class Product:
    """A [m, k], B [k, n] and a bias: as a kernel is given them, and the C it has to find."""

    def __init__(
        self, rng, kind, m, n, k, *, start=ZERO, rounds=1, k_unit=None, scale=1.0, special=False
    ):
        self.kind, self.m, self.n, self.k = kind, m, n, k
        self.start, self.rounds, self.k_align = start, rounds, int(k_unit is not None)
        if kind == "int8":
            a, b = (rng.integers(-100, 100, s).astype(np.int8) for s in ((m, k), (k, n)))
            self.bias = rng.integers(-9999, 9999, 256).astype(np.int32)
        else:
            a, b = ((rng.standard_normal(s) * scale).astype(np.float32) for s in ((m, k), (k, n)))
            self.bias = rng.standard_normal(256).astype(np.float32)
        if special:
            a[0, 0], a[1, 1], a[2, 2] = np.inf, -np.inf, np.nan
            b[0, 0] = 0
        if kind == "half":
            a, b = a.astype(np.float16), b.astype(np.float16)
        if kind == "bfloat16":
            a, b = bfloat16_bits(a), bfloat16_bits(b)
        self.fractals_a = self._row(a) if m == 1 else zz(a, k_unit)
        self.fractals_b = zn(b)
        self.c0 = c0_of(a.dtype)
        if kind == "bfloat16":
            a, b = bfloat16_values(a), bfloat16_values(b)
        self.a, self.b = a, b
        self.c_dtype = np.int32 if kind == "int8" else np.float32

    @staticmethod
    def _row(a):
        """One row of A is K elements in a row, in whole fractals."""
        unit = 512 // a.itemsize
        out = poisoned(ceil_to(a.shape[1], unit), a.dtype)
        out[: a.shape[1]] = a[0]
        return out

    @property
    def numbers(self):
        c_bytes = ceil_to(self.m, 16) * ceil_to(self.n, 16) * 4
        return (
            self.fractals_a.nbytes,
            self.fractals_b.nbytes,
            c_bytes,
            self.m,
            self.n,
            self.k,
            self.k_align,
            self.start,
            self.rounds,
        )

    @property
    def inputs(self):
        return [self.fractals_a, self.fractals_b, self.bias]

    def c(self):
        c = np.zeros((self.m, self.n), self.c_dtype)
        if self.start in (BIAS, TABLE):
            c = c + self.bias[: self.n]
        for _ in range(self.rounds):
            if self.kind == "int8":
                c = c + self.a.astype(np.int32) @ self.b.astype(np.int32)
            else:
                c = mmad(self.a, self.b, c, self.c0)
        return c


@pytest.mark.parametrize(
    "kind, m, n, k, options",
    [
        ("half", 16, 16, 16, {}),
        ("half", 30, 40, 70, {}),
        ("half", 128, 96, 64, dict(rounds=3)),
        ("half", 1, 50, 300, {}),
        ("half", 17, 33, 5, dict(start=BIAS)),
        ("bfloat16", 64, 48, 128, dict(rounds=2)),
        ("bfloat16", 3, 20, 33, dict(start=TABLE)),
        ("bfloat16", 1, 16, 256, dict(start=BIAS, rounds=2)),
        ("float", 20, 24, 44, {}),
        ("float", 33, 17, 36, dict(k_unit=16)),
        ("float", 16, 64, 8, dict(start=BIAS, rounds=2)),
        ("int8", 32, 48, 96, {}),
        ("int8", 19, 20, 70, dict(start=TABLE, rounds=2)),
        ("half", 32, 32, 48, dict(start=IS_BIAS, rounds=2)),
    ],
)
def test_mmad(cube, rng, kind, m, n, k, options):
    product = Product(rng, kind, m, n, k, **options)
    out = np.zeros(product.numbers[2] // 4, product.c_dtype)
    cube(f"mmad_{kind}", product.inputs, out, product.numbers)
    np.testing.assert_array_equal(from_l0c(out, m, n), product.c())


def test_mmad_saturates(cube, rng):
    product = Product(rng, "float", 16, 16, 8)
    product.fractals_a = zz(np.full((16, 8), 3e38, np.float32))
    product.fractals_b = zn(np.full((8, 16), -2, np.float32))
    out = np.zeros(256, np.float32)
    cube("mmad_float", product.inputs, out, product.numbers)
    np.testing.assert_array_equal(out, np.full(256, -np.finfo(np.float32).max))


def saturated(c):
    """Gives what the saturating mode leaves of float32 values."""
    return np.nan_to_num(c, nan=0.0)


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("kind", ["half", "bfloat16", "float"])
def test_mmad_of_infinities_and_nan(cube, rng, kind, kept):
    product = Product(rng, kind, 20, 24, 33, special=True)
    out = np.zeros(product.numbers[2] // 4, np.float32)
    cube(f"mmad_{kind}" + "_kept" * kept, product.inputs, out, product.numbers)
    with np.errstate(invalid="ignore"):
        c = product.c()
    assert np.isnan(c[0, 0]) and np.isinf(c[:2, 1:]).all() and np.isnan(c[2]).all()
    np.testing.assert_array_equal(from_l0c(out, 20, 24), c if kept else saturated(c))


def fixpipe(
    product,
    n=None,
    m=None,
    *,
    dst_stride,
    quant=NO_QUANT,
    relu=0,
    nd=(1, 0, 0),
    split=0,
    factor=0,
    atomic=0,
    l1_bytes=0,
):
    """The numbers of a kernel with Fixpipe."""
    numbers = [*product.numbers, *[0] * (16 - len(product.numbers))]
    n, m = n or product.n, m or product.m
    return (
        *numbers,
        n,
        m,
        ceil_to(product.m, 16),
        dst_stride,
        quant,
        relu,
        *nd,
        split,
        factor,
        atomic,
        l1_bytes,
    )


def factor_bits(value):
    return int(np.array([value], np.float32).view(np.uint32)[0])


def test_nd_float_has_a_row_pitch(cube, rng):
    product = Product(rng, "half", 30, 40, 32)
    out = poisoned(30 * 56, np.float32)
    cube("nd_float", product.inputs, out, fixpipe(product, dst_stride=56))
    got = out.reshape(30, 56)
    np.testing.assert_array_equal(got[:, :40], product.c())
    assert (got[:, 40:].copy().view(np.uint8) == 0xEE).all()


def test_nd_float_atomic(cube, rng):
    product = Product(rng, "half", 16, 23, 16)
    before = rng.standard_normal((16, 23)).astype(np.float32)
    out = before.copy()
    cube("nd_float", product.inputs, out, fixpipe(product, dst_stride=23, atomic=1))
    np.testing.assert_array_equal(out, before + product.c())


def test_nd_of_several_matrices(cube, rng):
    """Three column blocks of C as matrices of their own, side by side in GM."""
    product = Product(rng, "half", 32, 48, 16)
    out = poisoned(32 * 60, np.float32)
    numbers = fixpipe(product, n=16, dst_stride=60, nd=(3, 2, 20))
    cube("nd_float", product.inputs, out, numbers)
    got, c = out.reshape(32, 60), product.c()
    for i in range(3):
        np.testing.assert_array_equal(got[:, 20 * i : 20 * i + 16], c[:, 16 * i : 16 * i + 16])


@pytest.mark.parametrize("relu", [0, 1])
def test_nd_half(cube, rng, relu):
    product = Product(rng, "float", 20, 37, 24, scale=100)
    out = poisoned(20 * 37, np.float16)
    cube("nd_half", product.inputs, out, fixpipe(product, dst_stride=37, quant=F322F16, relu=relu))
    c = np.maximum(product.c(), 0) if relu else product.c()
    expected = np.clip(c, -65504, 65504).astype(np.float16)
    assert np.abs(c).max() > 65520 and np.abs(c).min() < 6e4
    np.testing.assert_array_equal(out.reshape(20, 37), expected)


def test_nd_bfloat16(cube, rng):
    product = Product(rng, "float", 17, 16, 9)
    out = poisoned(17 * 16, np.uint16)
    cube("nd_bfloat16", product.inputs, out, fixpipe(product, dst_stride=16, quant=F322BF16))
    np.testing.assert_array_equal(out.reshape(17, 16), bfloat16_bits(product.c()))


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("relu", [0, 1])
@pytest.mark.parametrize("kernel", ["nd_half", "nd_bfloat16", "l1_half"])
def test_fixpipe_of_infinities_and_nan(cube, rng, kernel, relu, kept):
    to_l1, brain = kernel == "l1_half", kernel == "nd_bfloat16"
    kind = "half" if to_l1 else "float"
    product = Product(rng, kind, 16, 32, 16, special=True, scale=200)
    out = poisoned(16 * 32, np.uint16 if brain else np.float16)
    quant, stride = (F322BF16 if brain else F322F16), 16 if to_l1 else 32
    numbers = fixpipe(product, dst_stride=stride, quant=quant, relu=relu, l1_bytes=out.nbytes)
    cube(kernel + "_kept" * kept, product.inputs, out, numbers)
    with np.errstate(invalid="ignore", over="ignore"):
        c = product.c() if kept else saturated(product.c())
        c = np.where(c < 0, np.float32(0), c) if relu else c
        narrow = bfloat16_values(bfloat16_bits(c)) if brain else c.astype(np.float16)
    if not kept:
        largest = 3.3895313892515355e38 if brain else 65504
        narrow = np.clip(narrow, -largest, largest)
    got = bfloat16_values(out) if brain else out
    got = got.reshape(2, 16, 16).transpose(1, 0, 2).reshape(16, 32) if to_l1 else got
    # The statement of bfloat16 knows no NaN.
    number = ~np.isnan(c)
    got = got.reshape(16, 32)
    np.testing.assert_array_equal(got[number], narrow[number])
    assert np.isnan(got[~number]).all() and number.all() == (not kept)


def test_nd_int32(cube, rng):
    product = Product(rng, "int8", 18, 35, 64)
    out = poisoned(18 * 35, np.int32)
    cube("nd_int32", product.inputs, out, fixpipe(product, dst_stride=35, relu=1))
    np.testing.assert_array_equal(out.reshape(18, 35), np.maximum(product.c(), 0))


@pytest.mark.parametrize("relu", [0, 1])
def test_nd_dequant(cube, rng, relu):
    product = Product(rng, "int8", 18, 35, 64)
    # 0.1 keeps 10 bits of its fraction.
    factor = (np.array([0.1], np.float32).view(np.uint32) & ~np.uint32(0x1FFF)).view(np.float32)
    out = poisoned(18 * 35, np.float16)
    numbers = fixpipe(
        product, dst_stride=35, quant=DEQF16, relu=relu, factor=factor_bits(np.float32(0.1))
    )
    cube("nd_dequant", product.inputs, out, numbers)
    c = product.c().astype(np.float32) * factor
    expected = (np.maximum(c, 0) if relu else c).astype(np.float16)
    np.testing.assert_array_equal(out.reshape(18, 35), expected)


def test_nd_dequant_by_columns(cube, rng):
    product = Product(rng, "int8", 16, 32, 32)
    factors = 2.0 ** rng.integers(-6, 3, 32).astype(np.float32)
    bits = factors.astype(np.float32).view(np.uint32).astype(np.uint64)
    out = poisoned(16 * 32, np.float16)
    numbers = fixpipe(product, dst_stride=32, quant=VDEQF16)
    cube("nd_dequant_columns", product.inputs, out, numbers, more=[bits])
    expected = np.clip(product.c() * factors, -65504, 65504).astype(np.float16)
    np.testing.assert_array_equal(out.reshape(16, 32), expected)


def test_nz_half(cube, rng):
    product = Product(rng, "half", 24, 48, 32)
    pitch = 40  # blocks of 32 bytes: 16 halves
    out = poisoned(3 * pitch * 16, np.float16)
    cube("nz_half", product.inputs, out, fixpipe(product, dst_stride=pitch, quant=F322F16))
    got = out.reshape(3, pitch, 16)
    expected = product.c().astype(np.float16).reshape(24, 3, 16).transpose(1, 0, 2)
    np.testing.assert_array_equal(got[:, :24], expected)
    assert (got[:, 24:].copy().view(np.uint8) == 0xEE).all()


def test_older_parameters(cube, rng):
    """In bursts, as several matrices and in NZ: what the newer ones give."""
    product = Product(rng, "half", 32, 48, 16)
    numbers = fixpipe(product, n=16, dst_stride=60, nd=(3, 2, 20), relu=1)
    expected, out = poisoned(32 * 60, np.float32), poisoned(32 * 60, np.float32)
    cube("nd_float", product.inputs, expected, numbers)
    cube("bursts_float", product.inputs, out, (*numbers, 1))
    np.testing.assert_array_equal(out, expected)
    numbers = fixpipe(product, dst_stride=40, quant=F322F16)
    expected, out = poisoned(3 * 40 * 16, np.float16), poisoned(3 * 40 * 16, np.float16)
    cube("nz_half", product.inputs, expected, numbers)
    cube("bursts_half", product.inputs, out, (*numbers, 0))
    np.testing.assert_array_equal(out, expected)


def test_nz_float(cube, rng):
    product = Product(rng, "float", 19, 32, 16)
    out = poisoned(2 * 20 * 16, np.float32)
    cube("nz_float", product.inputs, out, fixpipe(product, dst_stride=40))
    expected = product.c().reshape(19, 2, 16).transpose(1, 0, 2)
    np.testing.assert_array_equal(out.reshape(2, 20, 16)[:, :19], expected)


@pytest.mark.parametrize("n", [24, 32])
def test_channel_split(cube, rng, n):
    product = Product(rng, "float", 64, 32, 8)
    out = poisoned(n // 8 * 64 * 8, np.float32)
    cube("nz_float", product.inputs, out, fixpipe(product, n=n, dst_stride=64, split=1))
    expected = product.c()[:, :n].reshape(64, n // 8, 8).transpose(1, 0, 2)
    np.testing.assert_array_equal(out.reshape(n // 8, 64, 8), expected)


@pytest.mark.parametrize(
    "kernel, kind, m, n, quant, dtype",
    [
        ("l1_half", "half", 32, 48, F322F16, np.float16),
        ("l1_half", "half", 20, 16, F322F16, np.float16),
        ("l1_bfloat16", "float", 16, 32, F322BF16, np.uint16),
        ("l1_dequant", "int8", 16, 32, DEQF16, np.float16),
    ],
)
def test_to_l1(cube, rng, kernel, kind, m, n, quant, dtype):
    product = Product(rng, kind, m, n, 32)
    rows = ceil_to(m, 16)
    out = poisoned(rows * n, dtype)
    numbers = fixpipe(
        product, dst_stride=rows, quant=quant, factor=factor_bits(0.25), l1_bytes=out.nbytes
    )
    cube(kernel, product.inputs, out, numbers)
    c = product.c()
    if quant == DEQF16:
        c = c.astype(np.float32) * 0.25
    values = bfloat16_bits(c) if quant == F322BF16 else c.astype(np.float16)
    expected = poisoned(rows * n, dtype).reshape(n // 16, rows, 16)
    expected[:, :m] = values.reshape(m, n // 16, 16).transpose(1, 0, 2)
    assert out.tobytes() == expected.tobytes()


def test_data_copy_of_several_matrices(cube, rng):
    product = Product(rng, "half", 32, 48, 16)
    out = poisoned(32 * 60, np.float32)
    numbers = fixpipe(product, n=16, dst_stride=60, nd=(3, 2, 20))
    cube("copy_float", product.inputs, out, (*numbers, 1))
    got, c = out.reshape(32, 60), product.c()
    for i in range(3):
        np.testing.assert_array_equal(got[:, 20 * i : 20 * i + 16], c[:, 16 * i : 16 * i + 16])


def test_data_copy_keeps_nz(cube, rng):
    product = Product(rng, "half", 24, 48, 32)
    out = poisoned(3 * 24 * 16, np.float16)
    numbers = fixpipe(product, dst_stride=24, quant=F322F16, relu=1)
    cube("copy_half", product.inputs, out, (*numbers, 0))
    expected = np.maximum(product.c(), 0).astype(np.float16).reshape(24, 3, 16)
    np.testing.assert_array_equal(out.reshape(3, 24, 16), expected.transpose(1, 0, 2))


@pytest.mark.parametrize("quant", [DEQF16, VDEQF16])
def test_data_copy_dequant(cube, rng, quant):
    product = Product(rng, "int8", 16, 32, 32)
    factors = np.full(32, 0.5) if quant == DEQF16 else 2.0 ** rng.integers(-6, 3, 32)
    bits = factors.astype(np.float32).view(np.uint32).astype(np.uint64)
    out = poisoned(16 * 32, np.float16)
    numbers = fixpipe(product, dst_stride=32, quant=quant, factor=factor_bits(0.5))
    cube("copy_dequant", product.inputs, out, (*numbers, 1), more=[bits])
    expected = np.clip(product.c() * factors, -65504, 65504).astype(np.float16)
    np.testing.assert_array_equal(out.reshape(16, 32), expected)


def test_result_layout_statement():
    """Two statements of L0C agree."""
    c = np.arange(20 * 40, dtype=np.float32).reshape(20, 40)
    np.testing.assert_array_equal(from_l0c(l0c(c), 20, 40), c)
