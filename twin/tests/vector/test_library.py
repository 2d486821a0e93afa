"""Progressions, logarithms, Silu, Sigmoid, reductions and running sums of a matrix, transposition
and dropout."""

import numpy as np
import pytest

from twin.tests.vector import call
from twin.tests.vector.semantics.lanes import NUMPY
from twin.tests.vector.test_adv import NONE, part

FORM = ("mask", 1)


def run(driver, api, dtype, image, args):
    return driver(api, [dtype], FORM, image.bytes(), args)[0]


def space(image):
    """Temporary space at the end of the image."""
    image.gap = 0
    return image.place(np.zeros(64 * 1024, np.uint8))


@pytest.mark.parametrize("older", [0, 1])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 63, 64, 65, 128, 130, 500])
@pytest.mark.parametrize("dtype", ["int16", "half", "int32", "float"])
def test_progression(driver, dtype, count, older):
    image = call.Image()
    block = 32 // call.width(dtype)
    room = -(-count // block) * block
    dst = image.place(np.full(room, 99, NUMPY[dtype]))
    args = [older, dst, call.bits(3, dtype), call.bits(2, dtype), count]
    after = run(driver, "Arange", dtype, image, args)
    # A block that is begun is written whole, but for the one that the scalar unit writes.
    written = count if count <= block else room
    expected = np.full(room, 99, NUMPY[dtype])
    expected[:written] = 3 + 2 * np.arange(written)
    assert (part(after, dst, dtype, room) == expected).all()
    before = image.bytes()
    assert (
        after[dst + room * call.width(dtype) :] == before[dst + room * call.width(dtype) :]
    ).all()


def test_progression_of_halves_rounds_each_step(driver):
    """The first block in single precision, what follows by additions of halves."""
    image = call.Image()
    dst = image.place(np.zeros(48, np.float16))
    tenth = np.float16(0.1)
    args = [0, dst, call.bits(1, "half"), call.bits(0.1, "half"), 48]
    got = part(run(driver, "Arange", "half", image, args), dst, "half", 48)
    steps = np.arange(16, dtype=np.float32)
    first = (np.float32(1) + np.float32(tenth) * steps).astype(np.float16)
    second = first + np.float16(np.float32(tenth) * np.float32(16))
    third = second + np.float16(np.float32(tenth) * np.float32(16))
    assert (got == np.concatenate([first, second, third])).all()


@pytest.mark.parametrize("tmp", [False, True])
@pytest.mark.parametrize("base", [0, 2, 10])
@pytest.mark.parametrize("dtype", ["half", "float"])
def test_logarithms(driver, dtype, base, tmp):
    image, count = call.Image(), 300
    x = image.rng.uniform(0.01, 50, count).astype(NUMPY[dtype])
    src, dst = image.place(x), image.place(np.zeros(304, NUMPY[dtype]))
    at = space(image)
    after = run(driver, "Log", dtype, image, [base, at if tmp else NONE, dst, src, count])
    exact = {0: np.log, 2: np.log2, 10: np.log10}[base](x.astype(np.float64))
    got = part(after, dst, dtype, count).astype(np.float64)
    # Log10 of halves rounds the natural logarithm, the factor and the product.
    relative = 3e-3 if dtype == "half" else 1e-6
    np.testing.assert_allclose(got, exact, rtol=relative, atol=relative / 10)


@pytest.mark.parametrize("count", [1, 64, 300])
@pytest.mark.parametrize("dtype", ["half", "float"])
def test_silu(driver, dtype, count):
    """Each of its four instructions rounds; what lies behind the last element stays."""
    image = call.Image()
    kind = NUMPY[dtype]
    x = np.concatenate([np.array([0, -0.0, 20, -8], kind), image.rng.normal(0, 4, count)])
    # Beyond 11 the exponential of a half overflows.
    x = x[:count].clip(-10, None).astype(kind)
    src, dst = image.place(x), image.place(np.full(304, 99, kind))
    after = run(driver, "Silu", dtype, image, [dst, src, count])
    grown = np.exp(-x.astype(np.float64)).astype(kind)
    expected = (x.astype(np.float64) / (grown + kind(1)).astype(np.float64)).astype(kind)
    got = part(after, dst, dtype, 304)
    np.testing.assert_allclose(got[:count], expected, rtol=1e-3 if dtype == "half" else 1e-6)
    exact = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(got[:count], exact, rtol=3e-3 if dtype == "half" else 1e-6)
    assert (got[count:] == 99).all()


@pytest.mark.parametrize("tmp", [False, True])
@pytest.mark.parametrize("dtype", ["half", "float"])
def test_sigmoid(driver, dtype, tmp):
    """With a temporary space it runs in passes; what lies behind the last element stays."""
    image, kind, count = call.Image(), NUMPY[dtype], 300
    x = image.rng.normal(0, 4, count).clip(-10, None).astype(kind)
    src, dst = image.place(x), image.place(np.full(304, 99, kind))
    image.gap = 0
    at = image.place(np.zeros(256, np.uint8))
    after = run(driver, "Sigmoid", dtype, image, [at if tmp else NONE, dst, src, count])
    got = part(after, dst, dtype, 304)
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(got[:count], exact, rtol=3e-3 if dtype == "half" else 1e-6)
    assert (got[count:] == 99).all()


@pytest.mark.parametrize("tmp", [False, True])
@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize("shape", [(1, 16), (5, 32), (33, 16)])
@pytest.mark.parametrize("dtype", ["half", "float"])
def test_running_sums(driver, dtype, shape, along, tmp):
    """In float whatever the dtype, rounded once."""
    image, kind = call.Image(), NUMPY[dtype]
    x = call.values(image.rng, dtype, shape[0] * shape[1], -2, 2).reshape(shape)
    src, dst = image.place(x), image.place(np.zeros_like(x))
    last = image.place(np.zeros(shape[1], kind))
    at = space(image)
    args = [at if tmp else NONE, along, *shape, dst, last, src]
    after = run(driver, "CumSum", dtype, image, args)
    expected = np.cumsum(x.astype(np.float32), along, dtype=np.float32).astype(kind)
    got = part(after, dst, dtype, *shape)
    assert (got == expected).all() and (part(after, last, dtype, shape[1]) == got[-1]).all()


@pytest.mark.parametrize("tmp", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (4, 64), (2, 130), (5, 1000)])
@pytest.mark.parametrize("dtype", ["half", "float"])
def test_sum(driver, dtype, shape, tmp):
    """Padding of rows is not read: it may hold anything."""
    rows, n = shape
    block = 32 // call.width(dtype)
    inner = -(-n // block) * block
    image = call.Image()
    x = call.values(image.rng, dtype, rows * inner, -2, 2).reshape(rows, inner)
    x[:, n:] = np.nan
    src, dst = image.place(x), image.place(np.full(-(-rows // block) * block, 7, NUMPY[dtype]))
    at = space(image)
    args = [at if tmp else NONE, rows, inner, n, dst, src]
    after = run(driver, "Sum", dtype, image, args)
    got = part(after, dst, dtype, -(-rows // block) * block)
    exact = x[:, :n].astype(np.float64).sum(1)
    bound = np.abs(x[:, :n].astype(np.float64)).sum(1) * np.finfo(NUMPY[dtype]).eps * 8
    assert (np.abs(got[:rows] - exact) <= bound + 1e-9).all()
    assert (got[rows:] == 7).all()


def test_sum_adds_neighbours_first(driver):
    """In halves 2048 + 1 + 1 is 2050 where the ones meet first, and 2048 where they do not."""
    image = call.Image()
    x = np.array([[1, 1, 2048, 0, 2048, 1, 1, 0] + [0] * 8], np.float16)
    src, dst = image.place(x), image.place(np.zeros(16, np.float16))
    after = run(driver, "Sum", "half", image, [NONE, 1, 16, 8, dst, src])
    tree = np.float16(np.float16(2) + np.float16(2048)) + np.float16(
        np.float16(2048 + 1) + np.float16(1)
    )
    assert part(after, dst, "half", 1)[0] == tree


@pytest.mark.parametrize("reuse", [0, 1])
@pytest.mark.parametrize("columns", [0, 1])
@pytest.mark.parametrize("shape", [(1, 8), (3, 5), (7, 64), (16, 200), (33, 16)])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(0, "float"), (1, "half"), (1, "float"), (2, "half"), (2, "float"), (3, "float")],
)
def test_reductions_with_a_pattern(driver, kind, dtype, shape, columns, reuse):
    rows, length = shape
    block = 32 // call.width(dtype)
    pitch = -(-length // block) * block
    image = call.Image()
    x = call.values(image.rng, dtype, rows * pitch).reshape(rows, pitch)
    results = length if columns else rows
    room = -(-results // block) * block
    dst, src = image.place(np.full(room, 7, NUMPY[dtype])), image.place(x)
    tmp = space(image)
    args = [kind, columns, reuse, tmp, rows, length, dst, src]
    after = run(driver, "ReduceAxis", dtype, image, args)
    got = part(after, dst, dtype, room)
    values = x[:, :length].astype(np.float64)
    reduced = (np.sum, np.max, np.min, np.mean)[kind](values, 0 if columns else 1)
    if kind in (0, 3):
        np.testing.assert_allclose(got[:results], reduced, rtol=1e-5, atol=1e-4)
    else:
        assert (got[:results] == reduced).all()
    assert (got[results:] == 7).all()


@pytest.mark.parametrize("shape", [(16, 16), (16, 48), (64, 32)])
@pytest.mark.parametrize("dtype", ["half", "int16", "uint16", "float", "int32", "uint32"])
def test_transposition(driver, dtype, shape):
    image = call.Image()
    x = call.values(image.rng, dtype, shape[0] * shape[1]).reshape(shape)
    src, dst = image.place(x), image.place(np.zeros(x.size, x.dtype))
    after = run(driver, "ConfusionTranspose", dtype, image, [*shape, dst, src, space(image)])
    assert (part(after, dst, dtype, *shape[::-1]) == x.T).all()


@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    ("mode", "columns", "mask_columns"),
    [(1, 32, 64), (2, 64, 64), (3, 256, 32), (4, 64, 32)],
)
@pytest.mark.parametrize("dtype", ["half", "float"])
def test_dropout(driver, dtype, mode, columns, mask_columns, in_place, inferred):
    rows, image = 3, call.Image()
    x = call.values(image.rng, dtype, rows * columns).reshape(rows, columns)
    kept = image.rng.integers(0, 2, (rows, columns), np.uint8)
    flags = np.full((rows, mask_columns), 0x5A, np.uint8)
    bits = np.packbits(kept, 1, bitorder="little") if mode > 2 else kept
    flags[:, : bits.shape[1]] = bits
    src = image.place(x)
    dst = src if in_place else image.place(np.zeros_like(x))
    mask = image.place(flags)
    keep = int(np.float32(0.8).view(np.uint32))
    args = [0 if inferred else mode, keep, rows, columns, mask_columns, space(image)]
    after = run(driver, "DropOut", dtype, image, [*args, dst, src, mask])
    factor = NUMPY[dtype](np.float32(1) / np.float32(0.8))
    expected = np.where(kept, x * factor, NUMPY[dtype](0))
    assert (part(after, dst, dtype, rows, columns) == expected).all()
