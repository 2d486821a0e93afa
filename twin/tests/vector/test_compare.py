"""Compare, Compares, Select and CMPMASK."""

import numpy as np
import pytest

from twin.tests.vector import call
from twin.tests.vector.semantics import compare
from twin.tests.vector.test_elementwise import forms, lanes, space

MODES = ("LT", "GT", "EQ", "LE", "GE", "NE")
CASES = [(t, m) for t in ("half", "float") for m in MODES] + [("int32", "EQ")]


def some_equal(rng, dtype, n):
    return rng.integers(-3, 4, n).astype(call.NUMPY[dtype])


@pytest.mark.parametrize("dtype, mode", CASES)
@pytest.mark.parametrize(
    "kind", (("count", 1), ("count", 5), ("mask", 3, 1, 8, 0, 0), ("bits", 4, 2, 16, 1, 8))
)
def test_compare(driver, dtype, mode, kind):
    n = lanes(dtype)
    if kind[0] == "count":
        form, strides = ("count", kind[1] * n), (1, 8, 1, 8)
    else:
        value = 7 if kind[0] == "mask" else (0xF0F0, 0)
        form, strides = (kind[0], value, kind[1]), kind[2:]
    image = call.Image(2)
    dst = image.place(np.full(256, 0x77, np.uint8))
    src0 = image.place(some_equal(image.rng, dtype, 16 * n))
    src1 = image.place(some_equal(image.rng, dtype, 16 * n))
    before = image.bytes()
    args = [dst, src0, src1, MODES.index(mode), *strides]
    after, _ = driver("Compare", [dtype], form, before, args)
    call.same(
        after,
        call.expected(
            before,
            lambda ub: compare.compare(
                ub, mode, dtype, form, dst, (src0, *strides[:2]), (src1, *strides[2:])
            ),
        ),
    )


@pytest.mark.parametrize("dtype, mode", CASES)
@pytest.mark.parametrize("kind", (("count", 3), ("mask", 2, 1, 9), ("bits", 3, 2, 16)))
def test_compares(driver, dtype, mode, kind):
    n = lanes(dtype)
    if kind[0] == "count":
        form, strides = ("count", kind[1] * n), (1, 8)
    else:
        form = (kind[0], 1 if kind[0] == "mask" else (1, 0), kind[1])
        strides = kind[2:]
    image = call.Image(2)
    dst = image.place(np.full(256, 0x77, np.uint8))
    src = image.place(some_equal(image.rng, dtype, 8 * n))
    before = image.bytes()
    args = [dst, src, call.bits(1, dtype), MODES.index(mode), *strides]
    expected = call.expected(
        before,
        lambda ub: compare.compare(ub, mode, dtype, form, dst, (src, *strides), ("scalar", 1)),
    )
    for name in ("Compares", "CompareScalar"):
        after, _ = driver(name, [dtype], form, before, args)
        call.same(after, expected)


@pytest.mark.parametrize("dtype", ("half", "float"))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ("mask", "bits", "outside mask"))
def test_compare_to_register(driver, dtype, mode, kind):
    n = lanes(dtype)
    value = (0x0FF0_1234_5678_9ABC, 0x7 if n > 64 else 0) if kind == "bits" else n - 11
    form = (kind, value, 1)
    image = call.Image(3)
    dst = image.place(np.zeros(128, np.uint8))
    src0 = image.place(some_equal(image.rng, dtype, n))
    src1 = image.place(some_equal(image.rng, dtype, 2 * n))
    before = image.bytes()
    words = (0x5555_AAAA_0F0F_F0F0, 0x0123_4567_89AB_CDEF)
    args = [dst, src0, src1, MODES.index(mode), 1, 2, *words]
    after, _ = driver("CompareToCmpMask", [dtype], form, before, args)
    register = compare.compare_to_register(
        before,
        mode,
        dtype,
        call.meaning(form),
        (src0, 1),
        (src1, 2),
        np.array(words, np.uint64).view(np.uint8),
    )
    expected = before.copy()
    expected[dst : dst + 16] = register
    call.same(after, expected)


SELECT_MODES = ("SPR", "SCALAR", "TENSOR")


@pytest.mark.parametrize("dtype", ("half", "float"))
@pytest.mark.parametrize("mask_dtype", ("uint8", "uint16", "uint32", "uint64"))
@pytest.mark.parametrize("mode", SELECT_MODES)
@pytest.mark.parametrize("index", range(7))
def test_select(driver, dtype, mask_dtype, mode, index):
    n = lanes(dtype)
    form, to, from_ = forms(n)[index]
    image = call.Image(index)
    dst = (image.place(call.values(image.rng, dtype, space(form, n, *to))), *to)
    mask = image.place(image.rng.integers(0, 256, 128, np.uint8))
    src0 = (image.place(call.values(image.rng, dtype, space(form, n, *from_))), *from_)
    src1 = (image.place(call.values(image.rng, dtype, space(form, n, *to))), *to)
    value = call.values(image.rng, dtype, 1)[0]
    before = image.bytes()
    other = call.bits(value, dtype) if mode == "SCALAR" else src1[0]
    args = [dst[0], mask, src0[0], other, SELECT_MODES.index(mode), *to, *from_, *to]
    after, _ = driver("Select", [dtype, mask_dtype], form, before, args)
    statement = ("scalar", value) if mode == "SCALAR" else src1
    call.same(
        after,
        call.expected(
            before,
            lambda ub: compare.select(
                ub, mode, dtype, call.meaning(form), dst, mask, src0, statement
            ),
        ),
    )


@pytest.mark.parametrize("dtype", ("half", "float"))
@pytest.mark.parametrize("mode", SELECT_MODES)
@pytest.mark.parametrize("active, repeats", ((1.0, 1), (0.5, 3), (1.0, 2)))
def test_select_without_a_mask_argument(driver, dtype, mode, active, repeats):
    n = lanes(dtype)
    form = ("mask", int(active * n), repeats)
    image = call.Image(4)
    dst = (image.place(call.values(image.rng, dtype, 3 * n)), 1, 8)
    mask = image.place(image.rng.integers(0, 256, 64, np.uint8))
    src0 = (image.place(call.values(image.rng, dtype, 3 * n)), 1, 8)
    src1 = (image.place(call.values(image.rng, dtype, 3 * n)), 1, 8)
    address = image.place(np.zeros(32, np.uint8))
    before = image.bytes()
    args = [dst[0], mask, src0[0], src1[0], SELECT_MODES.index(mode), 1, 8, 1, 8, 1, 8, address]
    after, _ = driver("SelectFromCmpMask", [dtype], form, before, args)
    value = before[src1[0] : src1[0] + call.width(dtype)].view(call.NUMPY[dtype])[0]
    statement = ("scalar", value) if mode == "SCALAR" else src1
    call.same(
        after,
        call.expected(
            before,
            lambda ub: compare.select(ub, mode, dtype, form, dst, mask, src0, statement),
        ),
    )
