"""Cast: every documented pair of types, round mode and form."""

import numpy as np
import pytest

from twin.tests.vector import call
from twin.tests.vector.semantics import cast

MODES = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD")


def source(rng, dtype, other, n):
    """Values that meet ties, the edges of the other type, subnormals, infinities."""
    if dtype == "int4":
        return rng.integers(0, 256, -(-n // 2), np.uint8)
    if dtype.startswith(("int", "uint")):
        x = call.values(rng, dtype, n)
        edges = [0, 1, -1, 2049, 4098, 4099, (1 << 24) + 1, (1 << 24) + 3, (1 << 31) - 1]
        info = np.iinfo(x.dtype)
        edges = [e for e in edges if info.min <= e <= info.max] + [info.min, info.max]
        x[: min(n, len(edges))] = np.array(edges, x.dtype)[: min(n, len(edges))]
        return x
    x = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)
    ties = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 127.5, 255.5, 2049, 2051, -4097]
    ties += [0.5 + 2.0**-12, 0.5 + 2.0**-11 + 2.0**-12, 65519.0, 65520.0, 65504.0, -70000.0]
    ties += [6.1e-5, 5.96e-8, 2.98e-8, 8.9e-8, 1e-9, 0.0, -0.0, np.inf, -np.inf, np.nan]
    ties += [2.0**31, -(2.0**31), 2.0**15, 7.5, -8.5, 200.0, -200.0, 3e38]
    if n > len(ties):
        x[: len(ties)] = ties
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
        if dtype == "bfloat16":
            return (x.view(np.uint32) >> 16).astype(np.uint16)
        return x.astype(call.NUMPY[dtype])


def bits_of(dtype):
    return 4 if dtype == "int4" else 8 * call.width(dtype)


CASES = [
    pytest.param(src, dst, mode, id=f"{src}-{dst}-{mode}")
    for (src, dst), modes in cast.PAIRS.items()
    for mode in modes
]


def run(driver, src, dst, mode, form, strides, deq_scale=None):
    lanes = 64 * 32 // max(bits_of(src), bits_of(dst))
    n = 600 if form[0] == "count" else 12 * lanes
    image = call.Image(MODES.index(mode))
    x = source(image.rng, src, dst, n)
    (dst_blk, dst_rep), (src_blk, src_rep) = strides
    to = image.place(np.zeros(n * bits_of(dst) // 8, np.uint8))
    from_ = image.place(x)
    before = image.bytes()
    scale = -1 if deq_scale is None else call.bits(deq_scale, "half")
    args = [to, from_, dst_blk, dst_rep, src_blk, src_rep, MODES.index(mode), scale]
    after, _ = driver("Cast", [dst, src], form, before, args)
    call.same(
        after,
        call.expected(
            before,
            lambda ub: cast.cast(
                ub,
                src,
                dst,
                call.meaning(form),
                mode,
                (to, dst_blk, dst_rep),
                (from_, src_blk, src_rep),
                1.0 if deq_scale is None else deq_scale,
            ),
        ),
    )


@pytest.mark.parametrize("src, dst, mode", CASES)
def test_forms(driver, src, dst, mode):
    lanes = 64 * 32 // max(bits_of(src), bits_of(dst))
    dense = tuple((1, lanes * bits_of(t) // 256) for t in (dst, src))
    scale = 0.37 if (src, dst) == ("int32", "half") else None
    even = (0xC3F0_0F30_FFCC_0003 & (2**lanes - 1), 0xC000_0000_0000_000F if lanes > 64 else 0)
    run(driver, src, dst, mode, ("count", 522), dense, scale)
    run(driver, src, dst, mode, ("mask", lanes, 3), dense, scale)
    run(driver, src, dst, mode, ("bits", even, 2), ((2, 17), (1, 9)), scale)
    run(driver, src, dst, mode, ("counter", lanes + 6, 1), ((1, 10), (1, 11)), scale)
    run(driver, src, dst, mode, ("outside counter", lanes + 6, 1), dense, scale)


def test_narrowing_in_place(driver):
    image = call.Image()
    x = image.rng.standard_normal(200).astype(np.float32)
    at = image.place(x)
    before = image.bytes()
    after, _ = driver(
        "Cast", ["half", "float"], ("count", 200), before, [at, at, 1, 8, 1, 8, 1, -1]
    )
    np.testing.assert_array_equal(after[at : at + 400].view(np.float16), x.astype(np.float16))


@pytest.mark.parametrize(
    "dst, src, mode, said",
    (
        ("float", "half", "RINT", "roundMode is CAST_RINT, half to float takes CAST_NONE"),
        (
            "bfloat16",
            "float",
            "NONE",
            "roundMode is CAST_NONE, float to bfloat16_t takes CAST_RINT",
        ),
        ("int32", "float", "ODD", "float to int32_t takes CAST_RINT, CAST_FLOOR"),
        ("half", "int32", "NONE", "needs SetDeqScale"),
    ),
)
def test_refused(driver, dst, src, mode, said):
    image = call.Image()
    args = [image.place(np.zeros(64, np.float32)), image.place(np.zeros(64, np.float32))]
    args += [1, 8, 1, 8, MODES.index(mode), -1]
    with pytest.raises(call.TwinError, match=said):
        driver("Cast", [dst, src], ("count", 8), image.bytes(), args)


def test_odd_number_of_four_bit_elements(driver):
    image = call.Image()
    args = [image.place(np.zeros(64, np.float32)), image.place(np.zeros(64, np.float32))]
    args += [1, 2, 1, 8, 1, -1]
    with pytest.raises(call.TwinError, match="has to be even"):
        driver("Cast", ["int4", "half"], ("count", 9), image.bytes(), args)
    with pytest.raises(call.TwinError, match="mask bits 2 and 3 differ"):
        driver("Cast", ["int4", "half"], ("bits", (0b0111, 0), 1), image.bytes(), args)
