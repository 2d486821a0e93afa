"""DataCopy, LoadData and Fill of the cube side against the documented layouts."""

import numpy as np
import pytest

from twin.tests.cube.layouts import (
    c0_of,
    ceil_to,
    nz_offset,
    poisoned,
    unfold,
    zn,
    zz,
)

HALF, FLOAT, INT8 = np.float16, np.float32, np.int8


def numbers(rng, shape, dtype):
    return rng.integers(-100, 100, shape).astype(dtype)


@pytest.mark.parametrize(
    "kernel, dtype, nd_num, n, d, matrix_stride, pitch, c0_stride, n_stride, dst_matrix",
    [
        ("nd2nz_half", HALF, 1, 16, 23, 0, 32, 16, 1, 0),
        ("nd2nz_half", HALF, 2, 8, 23, 384, 32, 37, 2, 320),
        ("nd2nz_half", HALF, 1, 40, 56, 0, 60, 48, 1, 0),
        ("nd2nz_float", FLOAT, 1, 33, 19, 0, 19, 48, 1, 0),
        ("nd2nz_float", FLOAT, 3, 4, 8, 0, 8, 16, 1, 256),
        ("nd2nz_int8", INT8, 1, 32, 70, 0, 80, 32, 1, 0),
        ("nd2nz_int4", INT8, 1, 32, 70, 0, 80, 32, 1, 0),  # counted in bytes, two to each
        ("nd2nz_half", HALF, 4, 1, 64, 64, 64, 16, 1, 16),
    ],
)
def test_nd2nz(
    cube, rng, kernel, dtype, nd_num, n, d, matrix_stride, pitch, c0_stride, n_stride, dst_matrix
):
    source = numbers(rng, (nd_num - 1) * matrix_stride + n * pitch, dtype)
    c0 = c0_of(dtype)
    expected = poisoned(8192, dtype)
    for matrix in range(nd_num):
        for row in range(n):
            for column in range(ceil_to(d, c0)):
                at = matrix * dst_matrix + nz_offset(row, column, c0, c0_stride, n_stride)
                value = source[matrix * matrix_stride + row * pitch + column] if column < d else 0
                expected[at] = value
    fields = (nd_num, n, d, matrix_stride, pitch, c0_stride, n_stride, dst_matrix)
    out = cube(kernel, [source], np.zeros_like(expected), (*fields, expected.nbytes))
    assert out.tobytes() == expected.tobytes()


def fractals_of(source, dst_count, pairs, transpose):
    """Result of a 2D load: pairs are (fractal of the result, fractal of the source)."""
    c0 = c0_of(source.dtype)
    out = poisoned(dst_count * 16 * c0, source.dtype).reshape(dst_count, 16, c0)
    fractals = source.reshape(-1, 16, c0)
    for to, origin in pairs:
        out[to] = fractals[origin].T if transpose else fractals[origin]
    return out.reshape(-1)


@pytest.mark.parametrize(
    "kernel, dtype, to_b, start, repeats, stride, gap, transpose",
    [
        ("load2d_float", FLOAT, 0, 0, 4, 2, 2, 0),
        ("load2d_half", HALF, 0, 1, 4, 2, 2, 0),
        ("load2d_half", HALF, 1, 0, 3, 2, 1, 1),
        ("load2d_half", HALF, 0, 2, 2, 3, 0, 1),
        ("load2d_half", HALF, 1, 3, 5, 0, 0, 0),
        ("load2d_float", FLOAT, 1, 0, 4, 2, 1, 0),
        ("load2d_bfloat16", HALF, 1, 1, 4, 1, 0, 1),
    ],
)
def test_load_2d(cube, rng, kernel, dtype, to_b, start, repeats, stride, gap, transpose):
    source = numbers(rng, 16 * 16 * c0_of(dtype), dtype)
    pairs = [(i * (1 + gap), start + i * stride) for i in range(repeats)]
    expected = fractals_of(source, 24, pairs, transpose)
    fields = (source.nbytes, expected.nbytes, to_b, start, repeats, stride, 0, gap, transpose, 0)
    out = cube(kernel, [source], np.zeros_like(expected), fields)
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "kernel, dtype, to, start, repeats, stride, gap, down",
    [
        ("load_gm_half", HALF, 0, 0, 4, 2, 1, 0),
        ("load_gm_half", HALF, 1, 3, 3, 1, 0, 0),
        ("load_gm_float", FLOAT, 2, 6, 4, 2, 2, 1),
        ("load_gm_float", FLOAT, 2, 0, 2, 1, 1, 0),
    ],
)
def test_load_2d_from_gm(cube, rng, kernel, dtype, to, start, repeats, stride, gap, down):
    source = numbers(rng, 16 * 16 * c0_of(dtype), dtype)
    sign = -1 if down else 1
    pairs = [(i * (1 + gap), start + sign * i * stride) for i in range(repeats)]
    expected = fractals_of(source, 24, pairs, False)
    fields = (source.nbytes, expected.nbytes, to, start, repeats, stride, 0, gap, 0, down)
    out = cube(kernel, [source], np.zeros_like(expected), fields)
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("m, k", [(16, 16), (40, 56), (33, 80)])
def test_load_2d_builds_zz_and_zn(cube, rng, m, k):
    """NZ in L1 becomes ZZ in L0A row by row and, transposed, ZN in L0B."""
    a = numbers(rng, (ceil_to(m, 16), ceil_to(k, 16)), HALF)
    m1, k1 = a.shape[0] // 16, a.shape[1] // 16
    nz = a.reshape(a.shape[0], k1, 16).transpose(1, 0, 2).reshape(-1)
    rows = []
    for i in range(m1):
        out = np.zeros(k1 * 256, HALF)
        fields = (nz.nbytes, out.nbytes, 0, i, k1, m1, 0, 0, 0, 0)
        rows.append(cube("load2d_half", [nz], out, fields))
    np.testing.assert_array_equal(np.concatenate(rows), zz(a))
    # K x N in the same memory: fractal (i, j) of the ZN layout is the transposed fractal of NZ.
    rows = []
    for i in range(m1):
        out = np.zeros(k1 * 256, HALF)
        fields = (nz.nbytes, out.nbytes, 1, i, k1, m1, 0, 0, 1, 0)
        rows.append(cube("load2d_half", [nz], out, fields))
    np.testing.assert_array_equal(np.concatenate(rows), zn(a))


@pytest.mark.parametrize(
    "kernel, dtype, side, to_b, start, repeats, stride, gap, frac_gap, down",
    [
        ("transpose_half", HALF, 16, 0, 0, 3, 1, 0, 0, 0),
        ("transpose_half", HALF, 16, 1, 5, 3, 2, 1, 0, 1),
        ("transpose_int8", INT8, 32, 0, 0, 3, 1, 1, 0, 0),
        ("transpose_int8", INT8, 32, 1, 0, 3, 1, 0, 2, 0),
        ("transpose_int8", INT8, 32, 0, 2, 3, 1, 1, 0, 1),
        ("transpose_float", FLOAT, 16, 0, 0, 3, 1, 1, 0, 0),
        ("transpose_float", FLOAT, 16, 1, 1, 3, 1, 0, 2, 0),
        ("transpose_float", FLOAT, 16, 1, 0, 2, 2, 2, 1, 0),
    ],
)
def test_load_with_transpose(
    cube, rng, kernel, dtype, side, to_b, start, repeats, stride, gap, frac_gap, down
):
    c0 = c0_of(dtype)
    per_square = side * side // (16 * c0)
    source = numbers(rng, 8 * side * side, dtype)
    fractals = source.reshape(8, per_square, 16, c0)
    expected = poisoned(16 * 16 * c0, dtype).reshape(16, 16, c0)
    for i in range(repeats):
        parts = fractals[start + (-i if down else i) * stride]
        axis = 1 if dtype == FLOAT else 0  # beside each other, or below each other
        square = np.concatenate(parts, axis).T
        for j, part in enumerate(np.split(square, per_square, axis)):
            expected[i * (gap + 1) + j * (frac_gap + 1)] = part
    fields = (source.nbytes, expected.nbytes, to_b, start, repeats, stride, gap, frac_gap, down)
    out = cube(kernel, [source], np.zeros_like(expected), fields)
    assert out.tobytes() == expected.tobytes()


def load_3d(
    cube,
    kernel,
    x,
    *,
    to_b=0,
    pads=(0, 0, 0, 0),
    k,
    m,
    k_start=0,
    m_start=0,
    stride=(1, 1),
    filters=(1, 1),
    dilation=(1, 1),
    transpose=0,
    pad_value=0,
    registers=0,
    repeat=(0, 1, 0),
):
    """Gives what LoadData leaves in L0A or L0B, and the window of the unfolded matrix."""
    c1, h, w, c0 = x.shape
    matrix = unfold(x, pads, stride, filters, dilation, pad_value)
    repeat_stride, times, mode = repeat
    parts = []
    for i in range(times):
        row = m_start + (i * repeat_stride * 16 if mode == 0 else 0)
        column = k_start + (i * repeat_stride * c0 if mode == 1 else 0)
        parts.append(matrix[row : row + m, column : column + k])
    window = np.concatenate(parts, axis=mode)
    assert window.shape == ((m * times, k) if mode == 0 else (m, k * times))
    bits = int(np.array([pad_value], x.dtype).view(f"u{x.dtype.itemsize}")[0])
    count = ceil_to(window.shape[0], 16) * ceil_to(window.shape[1], 16)
    out = np.zeros(count, x.dtype)
    fields = (
        x.nbytes,
        out.nbytes,
        to_b,
        *pads,
        h,
        w,
        c1 * c0,
        k,
        m,
        k_start,
        m_start,
        *stride,
        *filters,
        *dilation,
        transpose,
        bits,
        registers,
        *repeat,
    )
    return cube(kernel, [x.reshape(-1)], out, fields), window


def expect(out, expected):
    assert out[: expected.size].tobytes() == expected.tobytes()
    assert (out[expected.size :].view(np.uint8) == 0xEE).all()


@pytest.mark.parametrize(
    "kernel, dtype, shape, arguments",
    [
        ("load3d_half", HALF, (3, 1, 48, 16), dict(k=48, m=48)),
        ("load3d_half", HALF, (3, 1, 64, 16), dict(k=32, m=32, k_start=16, m_start=16)),
        ("load3d_float", FLOAT, (5, 1, 40, 8), dict(k=24, m=20, k_start=8, m_start=3)),
        ("load3d_int8", INT8, (3, 8, 8, 32), dict(k=64, m=32, m_start=32)),
        (
            "load3d_half",
            HALF,
            (2, 6, 7, 16),
            dict(k=96, m=32, k_start=32, filters=(3, 2), pads=(1, 1, 0, 1), pad_value=-7),
        ),
        (
            "load3d_half",
            HALF,
            (1, 13, 13, 16),
            dict(k=64, m=16, filters=(2, 2), stride=(2, 3), dilation=(3, 2), pads=(1, 0, 2, 0)),
        ),
        (
            "load3d_half",
            HALF,
            (2, 4, 8, 16),
            dict(k=32, m=16, repeat=(1, 2, 0), pads=(0, 0, 1, 0), pad_value=3, registers=1),
        ),
    ],
)
def test_load_3d(cube, rng, kernel, dtype, shape, arguments):
    out, window = load_3d(cube, kernel, numbers(rng, shape, dtype), **arguments)
    c0 = c0_of(dtype)
    expected = zz(window)
    rows, blocks = ceil_to(window.shape[0], 16) // 16, window.shape[1] // c0
    # Bytes of the last fractal beyond the window are of no use and not compared.
    tail = window.shape[0] % 16 or 16
    got = out[: expected.size].reshape(rows, blocks, 16, c0).copy()
    want = expected.reshape(rows, blocks, 16, c0)
    got[-1, :, tail:] = want[-1, :, tail:]
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize(
    "shape, arguments",
    [
        ((3, 1, 48, 16), dict(k=48, m=32)),
        ((3, 1, 64, 16), dict(k=32, m=48, k_start=16, m_start=16)),
        ((2, 5, 6, 16), dict(k=64, m=16, filters=(2, 2), pads=(0, 1, 1, 0), pad_value=5)),
        ((4, 1, 48, 16), dict(k=16, m=16, repeat=(2, 2, 1))),
    ],
)
def test_load_3d_transposed_half(cube, rng, shape, arguments):
    x = numbers(rng, shape, HALF)
    out, window = load_3d(cube, "load3d_half", x, transpose=1, **arguments)
    expect(out, zz(np.ascontiguousarray(window.T)))
    out, window = load_3d(cube, "load3d_half", x, to_b=1, **arguments)
    expect(out, zn(window))


@pytest.mark.parametrize("k, m", [(16, 16), (24, 32), (40, 16)])
def test_load_3d_transposed_float(cube, rng, k, m):
    x = numbers(rng, (5, 1, 48, 8), FLOAT)
    out, window = load_3d(cube, "load3d_float", x, k=k, m=m, transpose=1)
    expect(out, zz(np.ascontiguousarray(window.T), 16))
    out, window = load_3d(cube, "load3d_float", x, k=k, m=m, to_b=1)
    expect(out, zn(window))


@pytest.mark.parametrize(
    "kernel, dtype, position, repeats, blocks, gap",
    [
        ("fill_half", HALF, 0, 5, 3, 5),
        ("fill_float", FLOAT, 1, 3, 2, 3),
        ("fill_int16", np.int16, 2, 1, 4, 0),
        ("fill_half", HALF, 0, 4, 1, 0),
    ],
)
def test_fill(cube, kernel, dtype, position, repeats, blocks, gap):
    unit = (32 if position == 0 else 512) // np.dtype(dtype).itemsize
    value = np.array([9], dtype)
    expected = poisoned(64 * unit, dtype)
    for i in range(repeats):
        begin = i * (blocks + gap) * unit
        expected[begin : begin + blocks * unit] = value[0]
    bits = int(value.view(f"u{value.itemsize}")[0])
    out = np.zeros_like(expected)
    cube(kernel, [], out, (expected.nbytes, position, repeats, blocks, gap, bits))
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "kernel, dtype, table, unit, starts, blocks, length, src_gap, dst_gap, count",
    [
        ("bias_float", FLOAT, FLOAT, 64, False, 1, 4, 0, 0, 0),
        ("bias_float", FLOAT, FLOAT, 64, False, 3, 2, 1, 2, 0),
        ("bias_int32", np.int32, np.int32, 64, False, 2, 1, 2, 1, 0),
        ("bias_half", HALF, FLOAT, 64, False, 1, 3, 0, 0, 0),
        ("bias_half", HALF, FLOAT, 64, False, 2, 1, 1, 1, 0),
        ("bias_float", FLOAT, FLOAT, 64, False, 1, 2, 0, 0, 32),
        ("fixpipe_buffer", np.uint64, np.uint64, 128, True, 1, 2, 0, 0, 0),
        ("fixpipe_buffer", np.uint64, np.uint64, 128, True, 3, 1, 6, 2, 0),
        ("fixpipe_buffer", np.uint64, np.uint64, 128, True, 1, 3, 0, 0, 48),
    ],
)
def test_tables(
    cube, rng, kernel, dtype, table, unit, starts, blocks, length, src_gap, dst_gap, count
):
    source = rng.integers(0, 200, 2048 // np.dtype(dtype).itemsize).astype(dtype)
    expected = poisoned(1024 // np.dtype(table).itemsize, table)
    each = length * unit // source.itemsize
    src_pitch = (src_gap * 32 if starts else length * unit + src_gap * 32) // source.itemsize
    dst_bytes = each * np.dtype(table).itemsize
    dst_pitch = (dst_gap * unit if starts else dst_bytes + dst_gap * unit) // expected.itemsize
    for i in range(blocks):
        part = source[i * src_pitch : i * src_pitch + each]
        expected[i * dst_pitch : i * dst_pitch + each] = part.astype(table)
    fields = (source.nbytes, expected.nbytes, blocks, length, src_gap, dst_gap, count)
    out = cube(kernel, [source], np.zeros_like(expected), fields)
    assert out.tobytes() == expected.tobytes()


def test_load_3d_of_packed_words(cube, rng):
    x = numbers(rng, (2, 6, 7, 16), HALF)
    arguments = dict(k=96, m=32, k_start=32, filters=(3, 2), pads=(1, 1, 0, 1))
    given, window = load_3d(cube, "load3d_half", x, registers=1, **arguments)
    packed, _ = load_3d(cube, "load3d_half", x, registers=2, **arguments)
    assert (given == packed).all()
    expect(packed, zz(window))


def test_load_3d_wraps_around(cube, rng):
    """Beyond the boundary L1 is read from its start again."""
    x = numbers(rng, (512,), HALF)
    rows = np.concatenate([x[256:], x[:256]]).reshape(32, 16)
    assert (cube("load3d_wraps", [x], np.zeros(512, HALF), []).reshape(32, 16) == rows).all()


@pytest.mark.parametrize("m, n, k", [(16, 16, 64), (32, 48, 192)])
def test_sparse_product(cube, rng, m, n, k):
    """Two of four rows of B and an index of two numbers: the second counts from row 1 on."""
    a = numbers(rng, (m, k), INT8)
    full = np.zeros((k, n), np.int64)
    rows, index = np.zeros((k // 2, n), INT8), np.zeros((k // 2, n), np.uint8)
    for column in range(n):
        for group in range(0, k, 4):
            pair = sorted(rng.choice(4, 2, replace=False))
            values = rng.integers(-9, 10, 2)
            if rng.integers(5) == 0:  # one value alone: the second number says nothing
                values[1], pair[1] = 0, pair[0]
            if pair[0] == 3:
                pair, values = [0, 3], values[::-1]
            at = slice(group // 2, group // 2 + 2)
            rows[at, column] = values
            index[at, column] = pair[0], max(pair[1] - 1, 0)
            full[group + pair[0], column] += values[0]
            full[group + pair[1], column] += values[1]
    packed = zn(rows).reshape(-1, 16, 32)  # fractals, their columns, 32 rows
    bits = zn(index.view(INT8)).view(np.uint8).reshape(-1, 16, 8, 4)
    words = (bits << np.array([0, 2, 4, 6], np.uint8)).sum(-1, dtype=np.uint8)
    out = np.zeros(m * n, np.int32)
    cube("sparse", [zz(a), packed, words], out, [m, n, k])
    c = out.reshape(n // 16, m, 16).transpose(1, 0, 2).reshape(m, n)
    assert (c == a.astype(np.int64) @ full).all()
