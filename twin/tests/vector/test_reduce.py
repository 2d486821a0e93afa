"""Reductions, bit for bit: the order of additions is the documented one."""

import numpy as np
import pytest

from twin.tests.vector import call
from twin.tests.vector.semantics import reduce
from twin.tests.vector.test_elementwise import lanes

FLOATS = ("half", "float")
ODD = (0x5A5A_0FF0_1234_8001, 0x8000_0000_0000_0003)


def cases(n):
    """(form, repeats' stride of dst, block and repeat strides of src)."""
    bits = (ODD[0], ODD[1] if n > 64 else 0)
    return [
        (("mask", n, 1), 1, (1, 8)),
        (("mask", n, 5), 1, (1, 8)),
        (("mask", n // 2 + 3, 3), 2, (1, 9)),
        (("mask", 5, 4), 1, (2, 16)),
        (("bits", bits, 3), 3, (1, 8)),
        (("counter", 3 * n + 7, 1), 1, (1, 8)),
        (("outside mask", n - 1, 2), 1, (1, 8)),
        (("outside bits", bits, 2), 1, (1, 8)),
        (("outside counter", n + 5, 1), 2, (1, 9)),
    ]


def setup(dtype, index, offset=0):
    n = lanes(dtype)
    form, dst_rep, (blk, rep) = cases(n)[index]
    image = call.Image(index)
    dst = image.place(call.values(image.rng, dtype, 1024)) + offset
    src = image.place(call.values(image.rng, dtype, 8 * n, low=-3000, high=3000))
    return image.bytes(), form, (dst, dst_rep), (src, blk, rep)


ALIASES = {
    "pair": ("ReducePairElem", "PairReduceSum"),
    "Sum": ("ReduceDataBlock<SUM>", "BlockReduceSum"),
    "Max": ("ReduceDataBlock<MAX>", "BlockReduceMax"),
    "Min": ("ReduceDataBlock<MIN>", "BlockReduceMin"),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", range(9))
@pytest.mark.parametrize("op", ALIASES)
def test_pairs_and_blocks(driver, op, dtype, index):
    # A block's results need 16 bytes' alignment in half.
    offset = 16 if op != "pair" and dtype == "half" and index % 2 else 0
    before, form, dst, src = setup(dtype, index, offset)
    meaning = call.meaning(form)

    def statement(ub):
        if op == "pair":
            reduce.pair_reduce_sum(ub, dtype, meaning, dst, src)
        else:
            reduce.block_reduce(ub, op, dtype, meaning, dst, src)

    for name in ALIASES[op]:
        after, _ = driver(name, [dtype], form, before, [dst[0], src[0], dst[1], *src[1:]])
        call.same(after, call.expected(before, statement))


ORDERS = ("VALUE_INDEX", "INDEX_VALUE", "ONLY_VALUE", "ONLY_INDEX")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", range(9))
@pytest.mark.parametrize("op", ("Sum", "Max", "Min"))
def test_whole_repeats(driver, op, dtype, index):
    order = ORDERS[index % 4]
    width = call.width(dtype)
    unit = width if op == "Sum" else {"ONLY_VALUE": width, "ONLY_INDEX": 4}.get(order, 2 * width)
    before, form, dst, src = setup(dtype, index, 3 * unit)
    for name in (f"ReduceRepeat<{op.upper()}>", f"WholeReduce{op}"):
        args = [dst[0], src[0], dst[1], *src[1:], ORDERS.index(order)]
        after, _ = driver(name, [dtype], form, before, args)
        call.same(
            after,
            call.expected(
                before,
                lambda ub: reduce.whole_reduce(ub, op, dtype, call.meaning(form), dst, src, order),
            ),
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_repeat_reduce_sum(driver, dtype):
    before, form, dst, src = setup(dtype, 1)
    after, _ = driver("RepeatReduceSum", [dtype], form, before, [dst[0], src[0], dst[1], *src[1:]])
    call.same(
        after,
        call.expected(before, lambda ub: reduce.whole_reduce(ub, "Sum", dtype, form, dst, src)),
    )


def test_equal_extremes_give_the_first_index(driver):
    x = np.full(128, 10, np.float16)
    x[[52, 70]] = 1
    image = call.Image()
    dst, src = image.place(np.zeros(16, np.float16)), image.place(x)
    after, _ = driver(
        "WholeReduceMin", ["half"], ("mask", 128, 1), image.bytes(), [dst, src, 1, 1, 8, 0]
    )
    # The documentation's sample: value 1, index 52 read as a half 3.09944e-06.
    np.testing.assert_array_equal(after[dst : dst + 4].view(np.uint16)[1], 52)
    assert after[dst : dst + 2].view(np.float16)[0] == 1


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ("ReduceDataBlock<SUM>", "ReducePairElem"))
def test_onto_the_start_of_the_source(driver, dtype, name):
    n = lanes(dtype)
    image = call.Image()
    src = image.place(call.values(image.rng, dtype, 4 * n))
    before = image.bytes()
    form = ("mask", n, 4)
    after, _ = driver(name, [dtype], form, before, [src, src, 1, 1, 8])

    def statement(ub):
        scratch = ub.copy()
        if name == "ReducePairElem":
            reduce.pair_reduce_sum(scratch, dtype, form, (src + 8192, 1), (src, 1, 8))
        else:
            reduce.block_reduce(scratch, "Sum", dtype, form, (src + 8192, 1), (src, 1, 8))
        size = 4 * (128 if name == "ReducePairElem" else 8 * call.width(dtype))
        ub[src : src + size] = scratch[src + 8192 : src + 8192 + size]

    call.same(after, call.expected(before, statement))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", (1, 5, 64, 100, 128, 288, 1000, 8320))
def test_reduce_sum_count(driver, dtype, count):
    image = call.Image(count)
    dst = image.place(call.values(image.rng, dtype, 16))
    src = image.place(call.values(image.rng, dtype, count, low=-30, high=30))
    tmp = image.place(call.values(image.rng, dtype, 16))
    before = image.bytes()
    after, results = driver("ReduceSum", [dtype], ("count", count), before, [dst, src, tmp, 8, 0])
    call.same(
        after,
        call.expected(before, lambda ub: reduce.reduce_sum_count(ub, dtype, count, dst, src)),
    )
    first = after[dst : dst + call.width(dtype)]
    assert results[0] == int.from_bytes(first.tobytes(), "little")


def scratch_of(dtype, repeats, index):
    """Elements of sharedTmpBuffer, as the documentation computes them."""
    per_block, per_repeat = 32 // call.width(dtype), lanes(dtype)

    def up(n):
        return -(-n // per_block) * per_block

    values = 2 * repeats
    total = up(values)
    while index and values > 2:
        values = 2 * -(-values // per_repeat)
        total += up(values)
    return total


MASKED = (
    (lambda n: ("mask", n, 1), 8),
    (lambda n: ("mask", n, 7), 8),
    (lambda n: ("mask", n - 3, 65), 8),
    (lambda n: ("mask", 8, 300), 1),
    (lambda n: ("bits", (ODD[0], ODD[1] if n > 64 else 0), 9), 10),
)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", range(len(MASKED)))
def test_reduce_sum_mask(driver, dtype, case):
    n = lanes(dtype)
    form, rep = MASKED[case][0](n), MASKED[case][1]
    repeats = form[2]
    image = call.Image(case)
    dst = image.place(call.values(image.rng, dtype, 16))
    size = ((repeats - 1) * rep + 8) * 32 // call.width(dtype)
    src = image.place(call.values(image.rng, dtype, size, low=-30, high=30))
    image.gap = 0
    per_block = 32 // call.width(dtype)
    tmp = image.place(np.zeros(-(-repeats // per_block) * 32, np.uint8))
    before = image.bytes()
    after, _ = driver("ReduceSum", [dtype], form, before, [dst, src, tmp, rep, 0])

    def statement(ub):
        values, active = reduce.repeats(ub, dtype, form, (src, 1, rep))
        total = reduce.reduce_sum_mask(values, active)
        ub[dst : dst + call.width(dtype)] = np.array([total], call.NUMPY[dtype]).view(np.uint8)

    call.same(after[:tmp], call.expected(before, statement)[:tmp])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ("ReduceMax", "ReduceMin"))
@pytest.mark.parametrize("index", (False, True))
@pytest.mark.parametrize("case", range(len(MASKED)))
def test_extreme_mask(driver, dtype, name, index, case):
    n = lanes(dtype)
    form, rep = MASKED[case][0](n), MASKED[case][1]
    repeats = form[2]
    image = call.Image(case + 10)
    dst = image.place(call.values(image.rng, dtype, 16))
    size = ((repeats - 1) * rep + 8) * 32 // call.width(dtype)
    src = image.place(call.values(image.rng, dtype, size))
    image.gap = 0
    tmp = image.place(np.zeros(scratch_of(dtype, repeats, index), call.NUMPY[dtype]))
    before = image.bytes()
    after, _ = driver(name, [dtype], form, before, [dst, src, tmp, rep, index])

    def statement(ub):
        values, active = reduce.repeats(ub, dtype, form, (src, 1, rep))
        value, repeat, lane = reduce.extreme(values, active, name == "ReduceMax")
        at = repeat * rep * 32 // call.width(dtype) + lane
        store_extreme(ub, dtype, dst, value, at if index else None)

    call.same(after[:tmp], call.expected(before, statement)[:tmp])


def store_extreme(ub, dtype, dst, value, index):
    width = call.width(dtype)
    ub[dst : dst + width] = np.array([value], call.NUMPY[dtype]).view(np.uint8)
    if index is not None:
        raw = np.array([index], f"u{width}").view(np.uint8)
        ub[dst + width : dst + 2 * width] = raw


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ("ReduceMax", "ReduceMin"))
@pytest.mark.parametrize("index", (False, True))
@pytest.mark.parametrize("count", (1, 17, 128, 200, 1000, 8257))
def test_extreme_count(driver, dtype, name, index, count):
    n = lanes(dtype)
    image = call.Image(count)
    dst = image.place(call.values(image.rng, dtype, 16))
    src = image.place(call.values(image.rng, dtype, count))
    image.gap = 0
    repeats = max(1, count // n)
    tmp = image.place(np.zeros(scratch_of(dtype, repeats, index), call.NUMPY[dtype]))
    before = image.bytes()
    after, _ = driver(name, [dtype], ("count", count), before, [dst, src, tmp, 8, index])

    def statement(ub):
        values, active = reduce.repeats(ub, dtype, ("count", count), (src, 1, 8))
        value, repeat, lane = reduce.extreme(values, active, name == "ReduceMax")
        store_extreme(ub, dtype, dst, value, repeat * n + lane if index else None)

    call.same(after[:tmp], call.expected(before, statement)[:tmp])


@pytest.mark.parametrize("dtype", FLOATS)
def test_extreme_of_all_repeats_in_the_register(driver, dtype):
    n = lanes(dtype)
    image = call.Image(5)
    dst = image.place(np.zeros(64, np.uint8))
    x = call.values(image.rng, dtype, 4 * n)
    src = image.place(x)
    _, results = driver(
        "GetReduceRepeatMaxMinSpr", [dtype], ("mask", n, 4), image.bytes(), [dst, src]
    )
    assert results[0] == call.bits(x.max(), dtype)
    assert results[1] == int(np.argmax(x))


def test_order_of_additions_in_half(driver):
    """Neighbours first: 2048 + 1 rounds to 2048, 1 + 1 does not."""
    x = np.zeros(16, np.float16)
    x[:4] = [2048, 1, 1, 1]
    image = call.Image()
    dst, src = image.place(np.zeros(16, np.float16)), image.place(x)
    after, _ = driver(
        "BlockReduceSum", ["half"], ("mask", 16, 1), image.bytes(), [dst, src, 1, 1, 8]
    )
    # (2048 + 1) + (1 + 1) = 2048 + 2; from left to right it would stay 2048.
    assert after[dst : dst + 2].view(np.float16)[0] == 2050
