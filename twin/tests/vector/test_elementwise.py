"""Arithmetic, logic, shifts and fused operations against their statements."""

import numpy as np
import pytest

from twin.tests.vector import call
from twin.tests.vector.semantics import elementwise

ADD = ("half", "float", "int16", "int32")
FLOATS = ("half", "float")
BITS = ("int16", "uint16")
BINARY = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min"), ADD),
    "Div": FLOATS,
    **dict.fromkeys(("And", "Or"), BITS),
    **dict.fromkeys(("AddRelu", "SubRelu"), ("half", "float", "int16")),
}
SCALAR = {
    **dict.fromkeys(("Adds", "Muls", "Maxs", "Mins"), ADD),
    "LeakyRelu": FLOATS,
}
UNARY = {
    **dict.fromkeys(("Exp", "Ln", "Abs", "Sqrt", "Rsqrt", "Reciprocal"), FLOATS),
    "Relu": (*FLOATS, "int32"),
    "Not": BITS,
}
SHIFTS = ("int16", "uint16", "int32", "uint32")
POSITIVE = ("Ln", "Sqrt", "Rsqrt")


def lanes(*dtypes):
    return 256 // max(call.width(t) for t in dtypes)


def forms(n):
    """(form, strides (block, repeat) of dst and of the sources) for n lanes in a repeat."""
    odd = (0x5A5A_0FF0_1234_8001, 0x8000_0000_0000_0003 if n > 64 else 0)
    if n == 32:
        odd = (odd[0] & 0xFFFF_FFFF, 0)
    return [
        (("count", 1), (1, 8), (1, 8)),
        (("count", 3 * n + 5), (1, 8), (1, 8)),
        (("mask", n, 3), (1, 8), (1, 8)),
        (("mask", n // 2 + 3, 2), (2, 16), (1, 9)),
        (("mask", n, 4), (1, 8), (0, 1)),
        (("bits", odd, 3), (1, 10), (2, 17)),
        (("counter", 2 * n + 7, 1), (2, 16), (1, 8)),
        (("outside mask", n - 1, 2), (1, 8), (1, 8)),
        (("outside bits", odd, 2), (1, 8), (1, 8)),
        (("outside counter", n + 9, 1), (1, 8), (1, 8)),
    ]


def space(form, n, blk, rep):
    """Elements that an operand of this form spans."""
    if form[0] == "count":
        return form[1]
    repeats = form[2] if form[0] in ("mask", "bits", "outside mask", "outside bits") else 3
    return ((repeats - 1) * rep + 7 * blk + 1) * n // 8


def operand(image, dtype, form, n, strides, **limits):
    """Places random values for an operand; (offset, block stride, repeat stride)."""
    blk, rep = strides
    size = space(form, max(n, 256 // call.width(dtype)), blk, rep)
    return (image.place(call.values(image.rng, dtype, size, **limits)), blk, rep)


def numbers(*operands):
    return [o[0] for o in operands] + [stride for o in operands for stride in o[1:]]


def all_forms(table):
    return [
        pytest.param(name, dtype, index, id=f"{name}-{dtype}-{form[0][0]}{index}")
        for name, dtypes in table.items()
        for dtype in dtypes
        for index, form in enumerate(forms(lanes(dtype)))
    ]


@pytest.mark.parametrize("name, dtype, index", all_forms(BINARY))
def test_binary(driver, name, dtype, index):
    n = lanes(dtype)
    form, to, from_ = forms(n)[index]
    image = call.Image(index)
    dst = operand(image, dtype, form, n, to)
    src0 = operand(image, dtype, form, n, from_)
    src1 = operand(image, dtype, form, n, to)
    before = image.bytes()
    after, _ = driver(name, [dtype], form, before, numbers(dst, src0, src1))
    meaning = call.meaning(form)
    call.same(
        after,
        call.expected(
            before, lambda ub: elementwise.binary(ub, name, dtype, meaning, dst, src0, src1)
        ),
    )


@pytest.mark.parametrize("name, dtype, index", all_forms(SCALAR))
def test_scalar(driver, name, dtype, index):
    n = lanes(dtype)
    form, to, from_ = forms(n)[index]
    image = call.Image(index)
    dst, src = operand(image, dtype, form, n, to), operand(image, dtype, form, n, from_)
    value = call.values(image.rng, dtype, 1)[0]
    before = image.bytes()
    args = [*numbers(dst, src), call.bits(value, dtype)]
    after, _ = driver(name, [dtype], form, before, args)
    meaning = call.meaning(form)
    call.same(
        after,
        call.expected(
            before, lambda ub: elementwise.scalar(ub, name, dtype, meaning, dst, src, value)
        ),
    )


@pytest.mark.parametrize("name, dtype, index", all_forms(UNARY))
def test_unary(driver, name, dtype, index):
    n = lanes(dtype)
    form, to, from_ = forms(n)[index]
    image = call.Image(index)
    limits = {"low": 2.0**-6} if name in POSITIVE else {}
    dst = operand(image, dtype, form, n, to)
    src = operand(image, dtype, form, n, from_, **limits)
    before = image.bytes()
    after, _ = driver(name, [dtype], form, before, numbers(dst, src))
    meaning = call.meaning(form)
    call.same(
        after,
        call.expected(before, lambda ub: elementwise.unary(ub, name, dtype, meaning, dst, src)),
    )


@pytest.mark.parametrize("dtype", SHIFTS)
@pytest.mark.parametrize("name", ("ShiftLeft", "ShiftRight"))
@pytest.mark.parametrize("index", range(10))
def test_shift(driver, name, dtype, index):
    n = lanes(dtype)
    form, to, from_ = forms(n)[index]
    image = call.Image(index)
    dst, src = operand(image, dtype, form, n, to), operand(image, dtype, form, n, from_)
    positions = (0, 1, 5, 8 * call.width(dtype))[index % 4]
    rounds = index % 2 == 1 and form[0] != "count"
    before = image.bytes()
    after, _ = driver(name, [dtype], form, before, [*numbers(dst, src), positions, rounds])
    rounds = rounds and name == "ShiftRight"
    meaning = call.meaning(form)
    call.same(
        after,
        call.expected(
            before,
            lambda ub: elementwise.shift(ub, name, dtype, meaning, dst, src, positions, rounds),
        ),
    )


MUL_ADD = (("half", "half"), ("float", "float"), ("float", "half"))


@pytest.mark.parametrize("dst_dtype, src_dtype", MUL_ADD)
@pytest.mark.parametrize("index", range(10))
def test_mul_add_dst(driver, dst_dtype, src_dtype, index):
    n = lanes(dst_dtype, src_dtype)
    form, to, from_ = forms(n)[index]
    image = call.Image(index)
    dst = operand(image, dst_dtype, form, n, to)
    src0 = operand(image, src_dtype, form, n, from_)
    src1 = operand(image, src_dtype, form, n, to)
    before = image.bytes()
    after, _ = driver("MulAddDst", [dst_dtype, src_dtype], form, before, numbers(dst, src0, src1))
    meaning = call.meaning(form)
    call.same(
        after,
        call.expected(
            before,
            lambda ub: elementwise.mul_add_dst(ub, dst_dtype, src_dtype, meaning, dst, src0, src1),
        ),
    )


@pytest.mark.parametrize("dst_dtype, src_dtype", MUL_ADD)
@pytest.mark.parametrize("index", range(10))
def test_axpy(driver, dst_dtype, src_dtype, index):
    n = lanes(dst_dtype, src_dtype)
    form, to, from_ = forms(n)[index]
    image = call.Image(index)
    dst = operand(image, dst_dtype, form, n, to)
    src = operand(image, src_dtype, form, n, from_)
    value = call.values(image.rng, src_dtype, 1)[0]
    before = image.bytes()
    args = [*numbers(dst, src), call.bits(value, src_dtype)]
    after, _ = driver("Axpy", [dst_dtype, src_dtype], form, before, args)
    meaning = call.meaning(form)
    call.same(
        after,
        call.expected(
            before, lambda ub: elementwise.axpy(ub, dst_dtype, src_dtype, meaning, dst, src, value)
        ),
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ("FusedMulAdd", "MulAddRelu"))
@pytest.mark.parametrize("index", range(10))
def test_fused_mul_add(driver, name, dtype, index):
    n = lanes(dtype)
    form, to, from_ = forms(n)[index]
    image = call.Image(index)
    dst = operand(image, dtype, form, n, to)
    src0 = operand(image, dtype, form, n, from_)
    src1 = operand(image, dtype, form, n, to)
    before = image.bytes()
    after, _ = driver(name, [dtype], form, before, numbers(dst, src0, src1))
    meaning = call.meaning(form)
    call.same(
        after,
        call.expected(
            before,
            lambda ub: elementwise.fused_mul_add(ub, name, dtype, meaning, dst, src0, src1),
        ),
    )


@pytest.mark.parametrize("dtype", ("half", "float", "int32"))
@pytest.mark.parametrize("name", ("Add", "Max"))
def test_accumulation_over_repeats(driver, name, dtype):
    """Dst is the second source of the next repeat: allowed when its repeat stride is 0."""
    n = lanes(dtype)
    image = call.Image(3)
    dst = (image.place(call.values(image.rng, dtype, n)), 1, 0)
    src0 = (image.place(call.values(image.rng, dtype, 6 * n)), 1, 8)
    form = ("mask", n, 6)
    before = image.bytes()
    after, _ = driver(name, [dtype], form, before, numbers(dst, src0, dst))
    call.same(
        after,
        call.expected(before, lambda ub: elementwise.binary(ub, name, dtype, form, dst, src0, dst)),
    )


@pytest.mark.parametrize(
    "name, argument, result",
    (
        (
            "Reciprocal",
            [-7.152, -7.24, 1.771, -1.339, 4.473],
            [-0.1396, -0.1382, 0.5645, -0.748, 0.2231],
        ),
        ("Rsqrt", [0.8335, 2.2, 2.672, 2.312, 5.36], [1.094, 0.676, 0.6113, 0.6562, 0.4316]),
        ("Exp", [0.0, 1.0, 2.0, 3.0], [1.0, 2.719, 7.391, 20.08]),
        ("Sqrt", [1.0, 2.0, 3.0, 4.0], [1.0, 1.414, 1.732, 2.0]),
    ),
)
def test_sample_values_of_the_documentation(driver, name, argument, result):
    image = call.Image()
    dst = (image.place(np.zeros(16, np.float16)), 1, 8)
    src = (image.place(np.array(argument, np.float16)), 1, 8)
    form = ("count", len(argument))
    after, _ = driver(name, ["half"], form, image.bytes(), numbers(dst, src))
    got = after[: 2 * len(argument)].view(np.float16)
    np.testing.assert_array_equal(got, np.array(result, np.float16))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ("Max", "Min", "Relu"))
def test_nan_goes_through(driver, name, dtype):
    image = call.Image()
    x = np.array([np.nan, 1, -1, np.nan, np.inf, -np.inf, 0, 2], call.NUMPY[dtype])
    y = np.array([1, np.nan, -2, np.nan, np.nan, 3, 0, np.inf], call.NUMPY[dtype])
    dst = (image.place(np.zeros(8, x.dtype)), 1, 8)
    operands = [dst, (image.place(x), 1, 8), (image.place(y), 1, 8)]
    operands = operands[: 2 if name == "Relu" else 3]
    after, _ = driver(name, [dtype], ("count", 8), image.bytes(), numbers(*operands))
    got = after[: x.nbytes].view(x.dtype)
    function = {"Max": np.maximum, "Min": np.minimum}.get(name)
    expected = np.maximum(x, 0) if function is None else function(x, y)
    np.testing.assert_array_equal(got, expected)
