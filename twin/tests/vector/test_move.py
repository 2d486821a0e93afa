"""Duplicate, Brcb, CreateVecIndex, Copy, Gather, Gatherb, GatherMask, transposes."""

import numpy as np
import pytest

from twin.tests.vector import call
from twin.tests.vector.semantics import move
from twin.tests.vector.test_elementwise import forms, lanes, space

ALL = ("int16", "uint16", "half", "bfloat16", "int32", "uint32", "float")


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("index", range(10))
def test_duplicate(driver, dtype, index):
    n = lanes(dtype)
    form, (blk, rep), _ = forms(n)[index]
    image = call.Image(index)
    dst = image.place(call.values(image.rng, dtype, space(form, n, blk, rep)))
    value = call.values(image.rng, dtype, 1)[0]
    before = image.bytes()
    after, _ = driver("Duplicate", [dtype], form, before, [dst, blk, rep, call.bits(value, dtype)])
    call.same(
        after,
        call.expected(
            before,
            lambda ub: move.duplicate(ub, dtype, call.meaning(form), (dst, blk, rep), value),
        ),
    )


@pytest.mark.parametrize("form", [("mask", 64, 1), ("mask", 64, 3)])
def test_duplicate_on_one_block(driver, form):
    """With a stride of 0 the blocks of a fill fall on one another, with the same value."""
    image = call.Image()
    dst = image.place(np.zeros(64, np.float32))
    value = call.bits(np.float32(3), "float")
    after, _ = driver("Duplicate", ["float"], form, image.bytes(), [dst, 0, 1, value])
    got = after[dst : dst + 256].view(np.float32)
    assert got.tolist() == [3.0] * 8 * form[2] + [0.0] * (64 - 8 * form[2])


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("repeats, blk, rep", ((1, 1, 8), (3, 1, 8), (4, 2, 16), (2, 1, 300)))
def test_brcb(driver, dtype, repeats, blk, rep):
    image = call.Image(repeats)
    per_block = 32 // call.width(dtype)
    size = ((repeats - 1) * rep + 7 * blk + 1) * per_block
    dst = image.place(call.values(image.rng, dtype, size))
    src = image.place(call.values(image.rng, dtype, 8 * repeats))
    before = image.bytes()
    after, _ = driver("Brcb", [dtype], ("mask", 0, repeats), before, [dst, src, blk, rep])
    call.same(
        after,
        call.expected(before, lambda ub: move.brcb(ub, dtype, repeats, (dst, blk, rep), src)),
    )


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("index", range(2, 10))
def test_copy(driver, dtype, index):
    n = lanes(dtype)
    form, to, from_ = forms(n)[index]
    repeats = form[2]
    if "counter" in form[0]:
        # The number of elements is that of every repeat here.
        repeats = 3
        form = (form[0], form[1], repeats)
        to, from_ = (1, 40), (1, 33)
    image = call.Image(index)
    span = 4 * 32 * 32 // call.width(dtype)
    dst = (image.place(call.values(image.rng, dtype, span)), *to)
    src = (image.place(call.values(image.rng, dtype, span)), *from_)
    before = image.bytes()
    after, _ = driver("Copy", [dtype], form, before, [dst[0], src[0], *to, *from_])
    call.same(
        after,
        call.expected(
            before, lambda ub: move.copy(ub, dtype, call.meaning(form), repeats, dst, src)
        ),
    )


@pytest.mark.parametrize("dtype", ("int16", "half", "int32", "float"))
@pytest.mark.parametrize("first", (0, 7, -3))
@pytest.mark.parametrize("count", (1, 5, 16, 100, 128, 300, 2500))
def test_create_vec_index_count(driver, dtype, first, count):
    image = call.Image()
    dst = image.place(call.values(image.rng, dtype, count))
    before = image.bytes()
    form = ("count", count)
    args = [dst, 1, 8, call.bits(first, dtype)]
    after, _ = driver("CreateVecIndex", [dtype], form, before, args)
    call.same(
        after,
        call.expected(
            before, lambda ub: move.create_vec_index(ub, dtype, form, (dst, 1, 8), first)
        ),
    )


@pytest.mark.parametrize("dtype", ("int16", "half", "int32", "float"))
@pytest.mark.parametrize("kind", ("mask", "few", "bits"))
def test_create_vec_index_repeats(driver, dtype, kind):
    n = lanes(dtype)
    form = {
        "mask": ("mask", n, 4),
        "few": ("mask", 5, 1),
        "bits": ("bits", (0x0F0F_1234_8765_00FF, 0x3 if n > 64 else 0), 3),
    }[kind]
    image = call.Image()
    dst = (image.place(call.values(image.rng, dtype, 5 * 2 * n)), 1, 9)
    before = image.bytes()
    args = [*dst, call.bits(11, dtype)]
    after, _ = driver("CreateVecIndex", [dtype], form, before, args)
    call.same(
        after,
        call.expected(before, lambda ub: move.create_vec_index(ub, dtype, form, dst, 11)),
    )


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("kind", ("count", "mask", "bits"))
def test_gather(driver, dtype, kind):
    n = lanes(dtype)
    form = {
        "count": ("count", 2 * n + 3),
        "mask": ("mask", n - 5, 3),
        "bits": ("bits", (0x8421_0F0F_0000_FFFF, 0x5 if n > 64 else 0), 2),
    }[kind]
    width = call.width(dtype)
    image = call.Image(1)
    dst = (image.place(call.values(image.rng, dtype, 4 * n * 2)), 9)
    src = image.place(call.values(image.rng, dtype, 500))
    offsets = image.place((width * image.rng.integers(0, 490, 4 * n)).astype(np.uint32))
    before = image.bytes()
    base = 4 * width
    after, _ = driver("Gather", [dtype], form, before, [dst[0], src, offsets, base, dst[1]])
    call.same(
        after,
        call.expected(before, lambda ub: move.gather(ub, dtype, form, dst, src, offsets, base)),
    )


@pytest.mark.parametrize("dtype", ("uint16", "uint32"))
@pytest.mark.parametrize("repeats, blk, rep", ((1, 1, 8), (3, 2, 16), (2, 0, 8)))
def test_gatherb(driver, dtype, repeats, blk, rep):
    image = call.Image()
    dst = (image.place(np.zeros(32 * 64, np.uint8)), blk, rep)
    src = image.place(image.rng.integers(0, 256, 32 * 40, np.uint8))
    offsets = image.place((32 * image.rng.integers(0, 40, 8 * repeats)).astype(np.uint32))
    before = image.bytes()
    args = [dst[0], src, offsets, blk, rep]
    after, _ = driver("Gatherb", [dtype], ("mask", 0, repeats), before, args)
    call.same(after, call.expected(before, lambda ub: move.gatherb(ub, repeats, dst, src, offsets)))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("pattern", (1, 2, 3, 4, 5, 6, 7, "tensor"))
@pytest.mark.parametrize(
    "counter, params",
    ((None, (1, 3, 8, 1)), (None, (2, 2, 16, 0)), (70, (1, 2, 12, 1)), (37, (1, 3, 8, 0))),
)
def test_gather_mask(driver, dtype, pattern, counter, params):
    image = call.Image(2)
    dst = image.place(call.values(image.rng, dtype, 512))
    src = image.place(call.values(image.rng, dtype, 32 * 40 // call.width(dtype)))
    mask = image.place(image.rng.integers(0, 256, 256, np.uint8))
    before = image.bytes()
    tensor = pattern == "tensor"
    blk, repeats, rep, pattern_rep = params
    args = [dst, src, mask if tensor else pattern, tensor, counter is not None, counter or 0]
    args += [blk, repeats, rep, pattern_rep]
    after, results = driver("GatherMask", [dtype], ("mask", 0), before, args)
    statement = ("tensor", mask) if tensor else pattern
    kept = []
    call.same(
        after,
        call.expected(
            before,
            lambda ub: kept.append(
                move.gather_mask(ub, dtype, dst, src, statement, counter, params)
            ),
        ),
    )
    assert results[0] == kept[0]


@pytest.mark.parametrize("dtype", ("int16", "uint16", "half"))
@pytest.mark.parametrize("in_place", (False, True))
@pytest.mark.parametrize("seed", range(2))
def test_transpose(driver, dtype, in_place, seed):
    image = call.Image(seed)
    src = image.place(call.values(image.rng, dtype, 256))
    dst = src if in_place else image.place(call.values(image.rng, dtype, 256))
    before = image.bytes()
    after, _ = driver("Transpose", [dtype], ("mask", 0), before, [dst, src])
    call.same(after, call.expected(before, lambda ub: move.transpose16(ub, dst, src)))


TO_NHWC, TO_NCHW, TILE = 11, 12, 10


@pytest.mark.parametrize("dtype", ("int8", "uint8", "int16", "uint16", "half", "int32", "float"))
@pytest.mark.parametrize("to_nhwc", (True, False))
@pytest.mark.parametrize("shape", ((1, 3, 4, 16), (3, 3, 2, 32), (2, 5, 1, 32)))
def test_transpose_images(driver, dtype, to_nhwc, shape):
    image = call.Image()
    n = int(np.prod(shape))
    src = image.place(call.values(image.rng, dtype, n))
    dst = image.place(call.values(image.rng, dtype, n))
    rows = 32 if call.width(dtype) == 1 else 16
    planes = shape[1] + 2 if to_nhwc else 2 * shape[1] + 1
    image.gap = 0
    tmp = image.place(np.zeros(planes * rows * 32, np.uint8))
    before = image.bytes()
    args = [dst, src, tmp, *shape, TO_NHWC if to_nhwc else TO_NCHW]
    after, _ = driver("TransposeImages", [dtype], ("mask", 0), before, args)
    # The content of the scratch afterwards is not specified.
    expected = call.expected(
        before, lambda ub: move.transpose_nchw(ub, dtype, dst, src, shape, to_nhwc)
    )
    call.same(after[:tmp], expected[:tmp])


def test_transpose_tile_through_images(driver):
    image = call.Image()
    src = image.place(call.values(image.rng, "uint16", 256))
    dst = image.place(call.values(image.rng, "uint16", 256))
    image.gap = 0
    tmp = image.place(np.zeros(32, np.uint8))
    before = image.bytes()
    args = [dst, src, tmp, 0, 0, 16, 16, TILE]
    after, _ = driver("TransposeImages", ["uint16"], ("mask", 0), before, args)
    expected = call.expected(before, lambda ub: move.transpose16(ub, dst, src))
    call.same(after[:tmp], expected[:tmp])


@pytest.mark.parametrize(
    "dtype", ("int8", "uint8", "int16", "uint16", "half", "int32", "uint32", "float")
)
@pytest.mark.parametrize(
    "lists, dst_high, src_high", ((0, False, False), (1, True, False), (2, True, True))
)
@pytest.mark.parametrize("repeats, dst_rep, src_rep", ((1, 0, 0), (3, 16, 1), (2, 1, 16)))
def test_trans_data_to_5hd(driver, dtype, lists, repeats, dst_rep, src_rep, dst_high, src_high):
    if call.width(dtype) > 1:
        dst_high = src_high = False
    image = call.Image(lists)
    source = image.place(image.rng.integers(0, 256, 32 * 100, np.uint8))
    target = image.place(image.rng.integers(0, 256, 32 * 100, np.uint8))
    to_list = image.place(np.zeros(128, np.uint8))
    from_list = image.place(np.zeros(128, np.uint8))
    src = [source + (32 if src_rep in (0, 16) else 96) * i for i in range(16)]
    dst = [target + (96 if dst_rep == 1 else 32) * i for i in range(16)]
    before = image.bytes()
    args = [lists, dst_high, src_high, dst_rep, src_rep, *dst, *src, to_list, from_list]
    after, _ = driver("TransDataTo5HD", [dtype], ("mask", 0, repeats), before, args)
    call.same(
        after,
        call.expected(
            before,
            lambda ub: move.trans_data_to_5hd(
                ub, dtype, dst, src, repeats, dst_rep, src_rep, dst_high, src_high
            ),
        ),
    )
