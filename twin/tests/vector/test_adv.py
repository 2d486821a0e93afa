"""The high-level APIs against NumPy."""

import numpy as np
import pytest

from twin.tests import harness
from twin.tests.vector import call
from twin.tests.vector.semantics import adv
from twin.tests.vector.semantics.lanes import NUMPY

STATS = [("float", "float"), ("half", "half"), ("half", "float")]
SHAPES = [(4, 32, 4, 32), (8, 64, 7, 61), (3, 160, 3, 150), (4, 1024, 4, 1000)]
NONE = -1


def part(image, offset, dtype, *shape):
    """An array of the image."""
    kind = np.dtype(NUMPY.get(dtype, dtype))
    count = int(np.prod(shape))
    return image[offset : offset + count * kind.itemsize].view(kind).reshape(shape)


def close(got, expected, dtype):
    tolerance = 2e-3 if dtype == "half" else 3e-6
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=tolerance, atol=1e-7)


class Case:
    """Image and offsets of a softmax: rows [m, k], statistics of a block per row."""

    def __init__(self, dtype, stat, shape, seed=0):
        self.dtype, self.stat, self.shape = dtype, stat, shape
        self.m, self.k, self.rows, self.columns = shape
        self.image = call.Image(seed)
        self.block = 32 // call.width(stat)

    def data(self, values=None):
        values = self.random() if values is None else values
        return self.image.place(values)

    def random(self):
        return call.values(self.image.rng, self.dtype, self.m * self.k).reshape(self.m, self.k)

    def stats(self, values=None, per_row=None, dtype=None):
        dtype = dtype or self.stat
        per_row = per_row or 32 // call.width(dtype)
        values = np.zeros(self.m) if values is None else values
        return self.image.place(np.repeat(values.astype(NUMPY[dtype]), per_row))

    def tmp(self):
        self.image.gap = 0
        return self.image.place(np.zeros(64 * 1024, np.uint8))

    def stat_of(self, after, offset, per_row=None, dtype=None):
        """[rows]: every element of a row's block is the same."""
        dtype = dtype or self.stat
        per_row = per_row or 32 // call.width(dtype)
        block = part(after, offset, dtype, self.m, per_row)[: self.rows]
        assert (block == block[:, :1]).all()
        return block[:, 0]


@pytest.mark.parametrize("dtype, stat", STATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ("own space", "tmp", "nz", "one per row"))
def test_softmax(driver, dtype, stat, shape, mode):
    case = Case(dtype, stat, shape)
    x = case.random()
    per_row = 1 if mode == "one per row" else None
    src = case.data(adv.to_nz(x) if mode == "nz" else x)
    dst, total, largest = case.data(), case.stats(per_row=per_row), case.stats(per_row=per_row)
    tmp = case.tmp() if mode == "tmp" else NONE
    args = [tmp, mode == "nz", mode == "one per row", *shape, dst, total, largest, src]
    after, _ = driver("SoftMax", [dtype, stat], ("mask", 1), case.image.bytes(), args)
    got = part(after, dst, dtype, case.m, case.k)
    if mode == "nz":
        got = adv.from_nz(got, (case.m, case.k))
    expected = adv.softmax(x[: case.rows], case.columns)
    close(got[: case.rows], expected[0], dtype)
    close(case.stat_of(after, total, per_row), expected[1], stat)
    close(case.stat_of(after, largest, per_row), expected[2], stat)


@pytest.mark.parametrize("dtype", ("half", "float"))
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_softmax_without_statistics(driver, dtype, shape):
    case = Case(dtype, dtype, shape)
    x = case.random()
    src, dst = case.data(x), case.data()
    args = [NONE, 0, 0, *shape, dst, 0, 0, src]
    after, _ = driver("SoftMaxAlone", [dtype, dtype], ("mask", 1), case.image.bytes(), args)
    got = part(after, dst, dtype, case.m, case.k)[: case.rows]
    close(got, adv.softmax(x[: case.rows], case.columns)[0], dtype)


@pytest.mark.parametrize("dtype, stat", STATS)
@pytest.mark.parametrize("shape", SHAPES[:3])
@pytest.mark.parametrize("with_tmp", (False, True))
def test_simple_softmax(driver, dtype, stat, shape, with_tmp):
    case = Case(dtype, stat, shape)
    x = case.random()
    _, total, largest = adv.softmax(x, case.columns)
    total, largest = total.astype(NUMPY[stat]), largest.astype(NUMPY[stat])
    src, dst = case.data(x), case.data()
    sums, maxima = case.stats(total), case.stats(largest)
    tmp = case.tmp() if with_tmp else NONE
    args = [tmp, 0, 0, *shape, dst, sums, maxima, src]
    after, _ = driver("SimpleSoftMax", [dtype, stat], ("mask", 1), case.image.bytes(), args)
    got = part(after, dst, dtype, case.m, case.k)[: case.rows]
    close(got, adv.simple_softmax(x, total, largest)[: case.rows], dtype)


# The form with the rows' own maxima has one data type.
FLASH = [(*types, mode) for types in STATS for mode in ("own space", "tmp")]
FLASH += [(dtype, dtype, "reduce max") for dtype in ("half", "float")]


@pytest.mark.parametrize("dtype, stat, mode", FLASH)
@pytest.mark.parametrize("shape", SHAPES[:3])
@pytest.mark.parametrize("update", (False, True))
def test_softmax_flash(driver, dtype, stat, shape, update, mode):
    case = Case(dtype, stat, shape)
    x = case.random()
    per_row = 1 if mode == "reduce max" else None
    before = [
        case.image.rng.uniform(1, 9, case.m).astype(NUMPY[stat]),
        case.image.rng.uniform(5, 9, case.m).astype(NUMPY[stat]),
    ]
    src, dst = case.data(x), case.data()
    sums, maxima = case.stats(per_row=per_row), case.stats(per_row=per_row)
    correction = case.stats(per_row=per_row, dtype=dtype)
    sums_before, maxima_before = (case.stats(b, per_row) for b in before)
    own = case.stats(per_row=per_row) if mode == "reduce max" else NONE
    tmp = NONE if mode == "own space" else case.tmp()
    args = [tmp, 0, 0, *shape, dst, sums, maxima, src]
    args += [correction, sums_before, maxima_before, own, update]
    after, _ = driver("SoftmaxFlashV2", [dtype, stat], ("mask", 1), case.image.bytes(), args)
    rows = slice(0, case.rows)
    weights, total, largest, factor, of_rows = adv.flash(
        x[rows], case.columns, [b[rows] for b in before] if update else None
    )
    close(part(after, dst, dtype, case.m, case.k)[rows], weights, dtype)
    close(case.stat_of(after, sums, per_row), total, stat)
    close(case.stat_of(after, maxima, per_row), largest, stat)
    if update:
        close(case.stat_of(after, correction, per_row, dtype), factor, dtype)
        if own != NONE:
            close(case.stat_of(after, own, per_row), of_rows, stat)


@pytest.mark.parametrize("dtype", ("half", "float"))
@pytest.mark.parametrize("shape", SHAPES[:3])
@pytest.mark.parametrize("mode", ("own space", "tmp", "nz"))
def test_softmax_grad_front(driver, dtype, shape, mode):
    case = Case(dtype, dtype, shape)
    nz = mode == "nz"
    grad, x = case.random(), case.random()
    x = np.abs(x)
    dst = case.stats()
    grad_at, src = (case.data(adv.to_nz(a) if nz else a) for a in (grad, x))
    tmp = case.tmp() if mode == "tmp" else NONE
    args = [tmp, nz, 0, *shape, dst, grad_at, src]
    after, _ = driver("SoftmaxGradFront", [dtype, dtype], ("mask", 1), case.image.bytes(), args)
    expected = adv.grad_front(grad, x, case.columns)[: case.rows]
    scale = np.abs(grad.astype(np.float64) * x).sum(1)[: case.rows]
    error = np.abs(case.stat_of(after, dst) - expected)
    assert (error <= (1e-3 if dtype == "half" else 1e-6) * scale).all()


@pytest.mark.parametrize("dtype", ("half", "float"))
@pytest.mark.parametrize("largest", (True, False))
@pytest.mark.parametrize("rows, inner, n, k", ((1, 32, 32, 1), (3, 64, 50, 13), (2, 512, 512, 512)))
@pytest.mark.parametrize("mode", ("plain", "index", "finish", "tmp"))
def test_topk(driver, dtype, largest, rows, inner, n, k, mode):
    image = call.Image()
    x = image.rng.integers(-20, 20, (rows, inner)).astype(NUMPY[dtype])
    x[:, 7] = np.nan
    x[:, 9], x[:, 10], x[:, 11] = np.inf, -np.inf, np.inf
    x[:, n:] = -60000 if largest else 60000
    unit = 32 // call.width(dtype)
    pitch, index_pitch = -(-k // unit) * unit, -(-k // 8) * 8
    index = image.rng.permutation(inner).astype(np.int32)
    finished = image.rng.integers(0, 2, 32).astype(np.uint8)
    src = image.place(x)
    values = image.place(np.zeros((rows, pitch), NUMPY[dtype]))
    indices = image.place(np.zeros((rows, index_pitch), np.int32))
    index_at = image.place(index) if mode == "index" else NONE
    finish_at = image.place(finished) if mode == "finish" else NONE
    image.gap = 0
    tmp = image.place(np.zeros(20 * inner, np.uint8)) if mode == "tmp" else NONE
    args = [tmp, values, indices, src, index_at, finish_at, k, rows, inner, n, largest, 0]
    after, _ = driver("TopK", [dtype], ("mask", 1), image.bytes(), args)
    expected = adv.topk(
        x,
        k,
        largest,
        [index] * rows if mode == "index" else None,
        finished if mode == "finish" else None,
        n,
    )
    got = part(after, values, dtype, rows, pitch)[:, :k]
    np.testing.assert_array_equal(got, expected[0])
    np.testing.assert_array_equal(
        part(after, indices, "int32", rows, index_pitch)[:, :k], expected[1]
    )


@pytest.mark.parametrize("dtype", ("half", "float"))
@pytest.mark.parametrize("largest", (True, False))
@pytest.mark.parametrize("rows, n, k", ((4, 32, 1), (8, 31, 8), (16, 32, 32)))
@pytest.mark.parametrize("with_index", (False, True))
def test_topk_small(driver, dtype, largest, rows, n, k, with_index):
    image = call.Image()
    x = image.rng.integers(-20, 20, (rows, 32)).astype(NUMPY[dtype])
    index = image.rng.integers(0, 1 << 20, (rows, 32)).astype(np.int32)
    src = image.place(x)
    values = image.place(np.zeros(rows * k, NUMPY[dtype]))
    indices = image.place(np.zeros(rows * k, np.int32))
    index_at = image.place(index) if with_index else NONE
    args = [NONE, values, indices, src, index_at, NONE, k, rows, 32, n, largest, 1]
    after, _ = driver("TopK", [dtype], ("mask", 1), image.bytes(), args)
    expected = adv.topk(x, k, largest, index if with_index else None)
    np.testing.assert_array_equal(part(after, values, dtype, rows, k), expected[0])
    np.testing.assert_array_equal(part(after, indices, "int32", rows, k), expected[1])


@pytest.mark.parametrize("dtype", ("int8", "uint8", "half", "float"))
@pytest.mark.parametrize(
    "dim, axis, dst, src",
    (
        (1, 0, (1, 100), (1, 1)),
        (1, 0, (1, 64), (1, 64)),
        (2, 0, (9, 64), (1, 64)),
        (2, 1, (16, 32), (16, 1)),
        (2, 1, (7, 37), (7, 1)),
        (2, 1, (5, 48), (1, 1)),
    ),
)
@pytest.mark.parametrize("with_tmp", (False, True))
def test_broadcast(driver, dtype, dim, axis, dst, src, with_tmp):
    image = call.Image()
    x = call.values(image.rng, dtype, int(np.prod(src))).reshape(src)
    from_at = image.place(x)
    to_at = image.place(np.zeros(dst, NUMPY[dtype]))
    image.gap = 0
    tmp = image.place(np.zeros(16 * 1024, np.uint8)) if with_tmp else NONE
    # A shape of one dimension is in the first place.
    shapes = (dst[1], 0, src[1], 0) if dim == 1 else (*dst, *src)
    before = image.bytes()
    after, _ = driver(
        "Broadcast", [dtype], ("mask", 1), before, [tmp, to_at, from_at, dim, axis, *shapes]
    )
    expected = before.copy()
    part(expected, to_at, dtype, *dst)[:] = x
    call.same(after, expected)


@pytest.mark.parametrize("dtype", ("half", "float"))
@pytest.mark.parametrize(
    "mask_dtype", ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32")
)
@pytest.mark.parametrize("scalar_first", (False, True))
@pytest.mark.parametrize(
    "rows, columns, mask_columns, reuse",
    ((1, 64, 64, True), (5, 32, 32, False), (9, 48, 96, True), (3, 16, 64, False)),
)
def test_select_bytes(driver, dtype, mask_dtype, scalar_first, rows, columns, mask_columns, reuse):
    image = call.Image()
    x = call.values(image.rng, dtype, rows * columns).reshape(rows, columns)
    kind = np.dtype(NUMPY.get(mask_dtype, mask_dtype))
    mask = image.rng.integers(0, 2, (rows, mask_columns)).astype(kind)
    src, dst = image.place(x), image.place(np.zeros_like(x))
    mask_at = image.place(mask)
    image.gap = 0
    tmp = image.place(np.zeros(8 * 1024, np.uint8))
    args = [tmp, dst, src, mask_at, call.bits(-3, dtype), scalar_first, reuse]
    args += [rows, columns, mask_columns]
    before = image.bytes()
    after, _ = driver("SelectWithBytesMask", [dtype, mask_dtype], ("mask", 1), before, args)
    expected = before.copy()
    part(expected, dst, dtype, rows, columns)[:] = adv.select_bytes(x, -3, mask, scalar_first)
    call.same(after[:mask_at], expected[:mask_at])


@pytest.mark.parametrize("name", ("Fill", "InitOutput"))
@pytest.mark.parametrize("size", (1, 8, 2041, 40000))
@pytest.mark.parametrize("dtype", ("int16", "uint16", "half", "int32", "uint32", "float"))
def test_fill(fault_kernels, name, size, dtype):
    out = np.full(size + 32, 7, NUMPY[dtype])
    number = 0 if name == "Fill" else 1
    kinds = ("int16", "uint16", "half", "int32", "uint32", "float")
    report = fault_kernels.launch(
        "fill",
        [(harness.INOUT, out)],
        (number, kinds.index(dtype), size),
        type=harness.AIV_ONLY,
    )
    assert report.ok, report.error
    assert (out[:size] == 42).all()
    assert (out[size:] == 7).all()
