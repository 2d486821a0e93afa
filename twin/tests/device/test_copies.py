"""DMA against statements of its documented semantics in NumPy."""

import numpy as np
import pytest

from twin.tests.harness import AIC_ONLY, INOUT, INPUT, OUTPUT

DTYPES = {"float": np.float32, "half": np.float16, "int8": np.int8, "int64": np.int64}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cores, tile, tiles", [(1, 64, 3), (7, 128, 31), (48, 1024, 100)])
def test_through_a_queue(copies, dtype, cores, tile, tiles):
    x = (np.arange(tile * tiles) % 2039).astype(DTYPES[dtype])
    y = np.zeros_like(x)
    report = copies.launch(
        f"through_{dtype}", [(INPUT, x), (OUTPUT, y)], [tile, tiles], block_dim=cores, seed=cores
    )
    assert report.ok, report.error
    assert (y == x).all()
    assert report.unwritten == [0, 0] and report.warnings == []
    assert report.pipe("MTE2")["instructions"] == tiles
    assert report.pipe("MTE2")["gm_read"] == report.pipe("MTE3")["gm_written"] == x.nbytes


BLOCKS = [  # elements of the window in data blocks, offset, blockCount, blockLen, srcGap, dstGap
    (8, 0, 1, 8, 0, 0),
    (24, 2, 3, 2, 1, 3),
    (64, 0, 5, 1, 7, 11),
    (64, 5, 0, 3, 0, 0),
    (300, 9, 255, 1, 0, 0),
    (40, 1, 4, 6, 3, 2),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("blocks, offset, count, length, src_gap, dst_gap", BLOCKS)
@pytest.mark.parametrize("direction", ["in", "out", "inside"])
def test_blocks(copies, direction, dtype, blocks, offset, count, length, src_gap, dst_gap):
    numpy_type = np.dtype(DTYPES[dtype])
    per_block = 32 // numpy_type.itemsize
    if direction == "out":
        src_gap, dst_gap = dst_gap, src_gap
    elements = blocks * per_block
    x = (np.arange(elements) % 113).astype(numpy_type)
    y = np.full(elements, -1, numpy_type)
    numbers = [elements, -1, offset * per_block, count, length, src_gap, dst_gap]
    role = OUTPUT if direction != "out" else INOUT
    report = copies.launch(f"{direction}_{dtype}", [(INPUT, x), (role, y)], numbers)
    assert report.ok, report.error
    expected = np.full((blocks, per_block), -1, numpy_type)
    source, src_at, dst_at = x.reshape(blocks, per_block), 0, offset
    if direction == "out":
        src_at, dst_at = offset, 0
    for _ in range(count):
        expected[dst_at : dst_at + length] = source[src_at : src_at + length]
        src_at += length + src_gap
        dst_at += length + dst_gap
    assert (y.reshape(blocks, per_block) == expected).all()
    assert report.warnings == []


PADS = [  # rows, elements in a row, gap in GM (elements), gap in UB (blocks), isPad, left, right
    (1, 5, 0, 0, True, 0, 3),
    (3, 5, 2, 1, True, 1, 2),
    (4, 3, 0, 0, False, 0, 0),
    (2, 8, 5, 2, True, 0, 0),
    (5, 1, 9, 0, True, 2, 0),
    (2, 11, 1, 0, True, 1, 0),
    (1, 7, 0, 0, "register", 1, 0),
    (2, 3, 1, 1, "register", 0, 0),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, length, gm_gap, ub_gap, mode, left, right", PADS)
def test_pad_in(copies, dtype, rows, length, gm_gap, ub_gap, mode, left, right):
    numpy_type = np.dtype(DTYPES[dtype])
    per_block = 32 // numpy_type.itemsize
    value = 0 if dtype == "int64" else 77
    x = (np.arange(rows * (length + gm_gap)) % 100 + 1).astype(numpy_type)
    row = -(-(left + length + right) // per_block) * per_block
    elements = per_block * 2 + rows * (row + ub_gap * per_block)
    y = np.zeros(elements, numpy_type)
    numbers = [elements, -1, per_block]
    numbers += [rows, length * numpy_type.itemsize, gm_gap * numpy_type.itemsize, ub_gap]
    numbers += [mode is True, left, right, value, mode == "register"]
    report = copies.launch(f"pad_in_{dtype}", [(INPUT, x), (OUTPUT, y)], numbers)
    assert report.ok, report.error
    expected = np.full(elements, -1, numpy_type)
    for r in range(rows):
        values = x[r * (length + gm_gap) :][:length]
        # Without padding of its own a row is followed by its first element.
        fill = value if mode == "register" or left + right > 0 else values[0]
        at = per_block + r * (row + ub_gap * per_block)
        expected[at : at + row] = fill
        expected[at + left : at + left + length] = values
    assert (y == expected).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, length, ub_gap, gm_gap", [(1, 5, 0, 0), (3, 7, 1, 2), (6, 1, 2, 1)])
def test_pad_out(copies, dtype, rows, length, ub_gap, gm_gap):
    numpy_type = np.dtype(DTYPES[dtype])
    per_block = 32 // numpy_type.itemsize
    row = -(-length // per_block) * per_block
    elements = per_block + rows * (row + ub_gap * per_block)
    x = (np.arange(elements) % 113).astype(numpy_type)
    y = np.full(rows * (length + gm_gap), -1, numpy_type)
    numbers = [elements, 0, per_block]
    numbers += [rows, length * numpy_type.itemsize, ub_gap, gm_gap * numpy_type.itemsize]
    report = copies.launch(f"pad_out_{dtype}", [(INPUT, x), (OUTPUT, y)], numbers)
    assert report.ok, report.error
    expected = np.full_like(y, -1)
    for r in range(rows):
        at = per_block + r * (row + ub_gap * per_block)
        expected[r * (length + gm_gap) :][:length] = x[at : at + length]
    assert (y == expected).all()
    assert report.pipe("MTE3")["gm_written"] == rows * length * numpy_type.itemsize
    assert report.unwritten[1] == rows * gm_gap * numpy_type.itemsize


@pytest.mark.parametrize("count", [8, 1024, 131072])
def test_through_l1(copies, count):
    x = np.random.default_rng(0).random(count, np.float32)
    y = np.zeros_like(x)
    report = copies.launch("through_l1", [(INPUT, x), (OUTPUT, y)], [count], type=AIC_ONLY)
    assert report.ok, report.error
    assert (y == x).all() and report.warnings == []
