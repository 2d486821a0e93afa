"""Sort32, MrgSort, Sort and Extract."""

import numpy as np
import pytest

from twin.tests.vector import call
from twin.tests.vector.semantics import sort

FLOATS = ("half", "float")


def scores(rng, dtype, n, special=True):
    x = rng.integers(-9, 10, n).astype(call.NUMPY[dtype])
    if special and n >= 32:
        x[rng.permutation(n)[:6]] = [np.nan, np.inf, -np.inf, np.nan, 0.0, np.inf]
    return x


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("repeats", (1, 3, 8))
def test_sort32(driver, dtype, repeats):
    image = call.Image(repeats)
    n = 32 * repeats
    dst = image.place(np.zeros(8 * n, np.uint8))
    values = image.place(scores(image.rng, dtype, n))
    indices = image.place(image.rng.permutation(n).astype(np.uint32))
    before = image.bytes()
    after, _ = driver("Sort32", [dtype], ("mask", 0, repeats), before, [dst, values, indices])
    call.same(
        after,
        call.expected(before, lambda ub: sort.sort32(ub, dtype, repeats, dst, values, indices)),
    )


def sorted_list(image, dtype, n):
    """Places a sorted list of pairs; returns its offset."""
    x = np.sort(scores(image.rng, dtype, n, special=False))[::-1]
    pairs = np.zeros(8 * n, np.uint8)
    sort.write_pairs(pairs, dtype, 0, x, image.rng.integers(0, 1000, n))
    return image.place(pairs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("lengths", ((32, 32), (5, 40, 17), (64, 1, 33, 20)))
@pytest.mark.parametrize("suspend", (False, True))
def test_mrg_sort(driver, dtype, lengths, suspend):
    image = call.Image(len(lengths))
    dst = image.place(np.zeros(8 * sum(lengths), np.uint8))
    lists = [sorted_list(image, dtype, n) for n in lengths]
    before = image.bytes()
    missing = 4 - len(lengths)
    args = [dst, *lists, *[lists[0]] * missing, *lengths, *[0] * missing]
    args += [(1 << len(lengths)) - 1, suspend]
    taken = []
    expected = call.expected(
        before,
        lambda ub: taken.extend(sort.merge_sort(ub, dtype, dst, lists, lengths, suspend)),
    )
    after, results = driver("MrgSort", [dtype], ("mask", 0, 1), before, args)
    call.same(after, expected)
    if suspend:
        assert list(results[: len(lengths)]) == taken
        after, results = driver("MrgSortCounts", [dtype], ("mask", 0, 1), before, args)
        call.same(after, expected)
        assert list(results[: len(lengths)]) == taken


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("repeats", (1, 3))
def test_mrg_sort_repeats(driver, dtype, repeats):
    image = call.Image(repeats, gap=0)
    dst = image.place(np.zeros(8 * 4 * 32 * repeats, np.uint8))
    lists = [sorted_list(image, dtype, 32) for _ in range(4 * repeats)][:4]
    before = image.bytes()
    args = [dst, *lists, 32, 32, 32, 32, 15, False]
    after, _ = driver("MrgSort", [dtype], ("mask", 0, repeats), before, args)
    call.same(
        after,
        call.expected(
            before,
            lambda ub: sort.merge_sort(ub, dtype, dst, lists, [32] * 4, False, repeats),
        ),
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("repeats", (1, 4, 5, 18))
def test_full_sort_and_extract(driver, dtype, repeats):
    image = call.Image(repeats)
    n = 32 * repeats
    x = scores(image.rng, dtype, n)
    dst = image.place(np.zeros(8 * n, np.uint8))
    values = image.place(x)
    indices = image.place(np.arange(n, dtype=np.uint32))
    tmp = image.place(np.zeros(8 * n, np.uint8))
    out = image.place(np.zeros(n, call.NUMPY[dtype]))
    out_indices = image.place(np.zeros(n, np.uint32))
    args = [dst, values, indices, tmp, out, out_indices]
    after, results = driver("Sort", [dtype], ("mask", 0, repeats), image.bytes(), args)
    best, order = sort.top_k(x[None], n, True, np.arange(n))
    got = after[out : out + x.nbytes].view(x.dtype)
    np.testing.assert_array_equal(got, best[0])
    np.testing.assert_array_equal(
        after[out_indices : out_indices + 4 * n].view(np.uint32), order[0]
    )
    assert tuple(results[:2]) == (32 * 8 // x.itemsize, 7 * 8 // x.itemsize)
