"""The judge of the kernels' tests is itself tested: it passes what is right and nothing else."""

import inspect
from pathlib import Path

import numpy as np
import pytest

from mindspore_nsa.reference.attention import FLT_MAX, contract_heads
from mindspore_nsa.testing.dtypes import (
    DTYPES,
    ULP,
    decode,
    encode,
    from_bfloat16_bits,
    round_to,
    to_bfloat16_bits,
)
from mindspore_nsa.testing.plain import ROWS, Sizes, plain_precision
from mindspore_nsa.testing.tolerance import check, check_rows, check_statistics, check_topk, limit
from tests.common.tiles import tile


def test_bfloat16_rounds_to_nearest_even():
    # One ulp is 2^-7 here, so the ties are the odd multiples of 2^-8.
    values = [1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 3 * 2**-8, np.inf, 3.4e38]
    expected = [1, 1, 1 + 2**-6, 1 + 2**-7, -1 - 2**-6, np.inf, np.inf]
    np.testing.assert_array_equal(from_bfloat16_bits(to_bfloat16_bits(values)), expected)
    assert np.isnan(from_bfloat16_bits(to_bfloat16_bits([np.nan]))).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_and_encoding_agree(dtype):
    x = np.random.default_rng(0).standard_normal(1000)
    np.testing.assert_array_equal(decode(encode(x, dtype)).astype(np.float32), round_to(x, dtype))
    assert 0 < np.abs(round_to(x, dtype) / x - 1).max() <= ULP[dtype] / 2


REF = np.array([1.0, -2.0, 0.5])


def test_error_is_judged_by_the_plain_one():
    plain = REF + [0, 1e-4, 0]  # e = 5e-5
    check("x", REF + [0, 0, 1.9e-4], REF, plain, "float32")
    with pytest.raises(AssertionError, match=r"e = 1.050e-04 > 1.000e-04"):
        check("x", REF + [0, 0, 2.1e-4], REF, plain, "float32")


def test_one_ulp_is_always_allowed():
    check("x", REF + [0, 0, 2 * 0.9 * 2**-10], REF, REF, "float16")
    with pytest.raises(AssertionError):
        check("x", REF + [0, 0, 2 * 1.1 * 2**-10], REF, REF, "float16")


def test_nsa_operators_in_float32_have_a_limit_of_their_own():
    plain = REF + [0, 1.8e-5, 0]
    with pytest.raises(AssertionError, match="1.000e-05"):
        check("x", REF + [0, 0, 3e-5], REF, plain, "float32", nsa=True)
    check("x", REF + [0, 0, 3e-5], REF, plain, "float16", nsa=True)


def test_nsa_operators_in_float32_are_as_good_as_the_plain_one_beyond_that():
    plain = REF + [0, 1e-4, 0]
    check("x", REF + [0, 0, 0.9e-4], REF, plain, "float32", nsa=True)
    with pytest.raises(AssertionError, match="5.000e-05"):
        check("x", REF + [0, 0, 1.1e-4], REF, plain, "float32", nsa=True)


def test_a_worse_order_of_sums_counts():
    plains = [REF + [0, error, 0] for error in (1e-6, 1e-4)]
    check("x", REF + [0, 0, 1.9e-4], REF, iter(plains), "float32")
    with pytest.raises(AssertionError):
        check("x", REF + [0, 0, 1.9e-4], REF, iter(plains[:1]), "float32")


def test_rows_of_a_sum_are_a_step_of_the_kernels():
    steps = (tile("kTileRows"), tile("kStepKeys", "ascendc/attention/attention_sizes.h"))
    assert max(steps) == ROWS


@pytest.mark.parametrize("order", range(1, 5))
@pytest.mark.parametrize("group", [1, 2])
def test_long_sums_of_a_key_are_those_of_steps(order, group):
    """Ones behind 2^24 are lost one by one, and kept as the sum of a step."""
    ones = np.ones((group, 1, 3 * ROWS), np.float32)
    x = np.ones((group, 3 * ROWS, 1), np.float32)
    x[0, 0] = 2**24
    found = contract_heads(ones, ones, x, group, plain_precision("float32", order))
    assert found.item() == 2**24 + (3 * group - 1) * ROWS


def test_the_page_shows_the_rule():
    page = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
    assert f"```python\n{inspect.getsource(limit)}```" in page.read_text()


LOUD_AND_QUIET = np.array([[4.0, -3.0], [2.0**-8, 2.0**-9], [0.0, 0.0]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_quiet_row_is_judged_by_itself(dtype):
    """One unit of its own scale, in float32 four; the largest row may be off by as much of its."""
    ref, most = LOUD_AND_QUIET, limit(0, dtype, what="row")
    check_rows("x", ref * (1 + 0.9 * most), ref, [ref], dtype, 2, lambda: ref)
    quiet = ref + [[0, 0], [1.1 * most * 2.0**-8, 0], [0, 0]]
    check("x", quiet, ref, ref, dtype)
    with pytest.raises(AssertionError, match="1 of 3 rows of 2, the worst row 1"):
        check_rows("x", quiet, ref, [ref], dtype, 2, lambda: ref)


def test_a_row_is_as_good_as_the_worst_of_the_plain_one():
    ref, off = LOUD_AND_QUIET, np.array([[0, 1e-3], [0, 0], [0, 0]])
    worse = ref + [[0, 0], [1.9e-3 * 2.0**-10, 0], [0, 0]]
    check_rows("x", worse, ref, iter([ref, ref + off]), "float32", 2, lambda: ref)
    with pytest.raises(AssertionError, match="plain 0.000e"):
        check_rows("x", worse, ref, iter([ref]), "float32", 2, lambda: ref)


def test_the_scale_of_a_row_is_that_of_its_terms():
    """Terms that cancel are rounded as large as they were; a row without terms is exact."""
    ref = LOUD_AND_QUIET
    quiet = ref + [[0, 0], [2.0**-8, 0], [0, 0]]
    check_rows("x", quiet, ref, [ref], "bfloat16", 2, lambda: np.array([[4, 4], [2, 2], [0, 0]]))
    with pytest.raises(AssertionError, match="the worst row 2"):
        empty = ref + [[0, 0], [0, 0], [1e-30, 0]]
        check_rows("x", empty, ref, [ref], "bfloat16", 2, lambda: ref)


def test_each_number_of_the_statistics_counts():
    ref = np.repeat([[1.0], [1000.0]], 8, axis=1)
    wrong = ref.astype(np.float32) + np.array([[1e-5], [0]], np.float32)
    check("sum", wrong, ref, ref, "float32")
    with pytest.raises(AssertionError, match="the worst row 0"):
        check_statistics("sum", wrong, ref, ref, what="softmax_sum")


def test_zeros_must_be_exact():
    zeros = np.zeros(3)
    check("x", zeros, zeros, zeros, "float16")
    with pytest.raises(AssertionError):
        check("x", zeros + 1e-30, zeros, zeros, "float16")


def test_cancelled_gradients_are_judged_by_their_terms():
    noise = np.array([1e-17, 0, 0])
    check("x", noise + 1e-8, noise, noise + 1e-8, "float32", terms=REF)
    with pytest.raises(AssertionError):
        check("x", noise + 1e-6, noise, noise + 1e-8, "float32", terms=REF)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_wrong_unless_expected(bad):
    with pytest.raises(AssertionError, match=r"first at \(1,\)"):
        check("x", np.array([1.0, bad, 0.5]), REF, REF, "float16")
    expected = np.array([1.0, bad, 0.5])
    check("x", expected, expected, expected, "float16")
    with pytest.raises(AssertionError):
        check("x", np.array([1.0, 3.0, 0.5]), expected, expected, "float16")


def test_shape():
    with pytest.raises(AssertionError, match="shape"):
        check("x", REF[:2], REF, REF, "float32")


def test_statistics():
    ref = np.repeat(np.array([[1.0], [-FLT_MAX]]), 8, axis=1)
    check_statistics("max", ref.astype(np.float32), ref, ref)
    lanes = ref.astype(np.float32)
    lanes[0, 7] = np.nextafter(np.float32(1), np.float32(2))
    with pytest.raises(AssertionError, match="lanes differ"):
        check_statistics("max", lanes, ref, ref)
    with pytest.raises(AssertionError, match="sees nothing"):
        check_statistics("max", np.where(ref < 0, -np.inf, ref).astype(np.float32), ref, ref)
    # A row that sees nothing must not hide the error of the others.
    with pytest.raises(AssertionError, match="e = "):
        check_statistics("max", np.where(ref > 0, 1.01, ref).astype(np.float32), ref, ref)


SCORES = np.array([[0.5, 0.9, 0.5 + 1e-9, 0.0, 0.0, 0.7]])
CANDIDATE = np.array([[True, True, True, True, True, False]])
FORCED = np.array([[False, False, False, True, False, False]])


@pytest.mark.parametrize(
    "row",
    [
        [3, 1, 2, 0, 4, -1],
        [3, 1, 0, 2, 4, -1],  # scores 1e-9 apart may change places
        [3, 1],
        [3],
    ],
)
def test_topk_accepts(row):
    check_topk("topk", np.array([row]), SCORES, CANDIDATE, FORCED, 1e-6)


@pytest.mark.parametrize(
    "row, problem",
    [
        ([3, 0, 2, 1, 4, -1], "worse scores"),
        ([1, 3, 2, 0, 4, -1], "forced"),
        ([3, 1, 2, 0, 5, -1], "no candidate"),
        ([3, 1, 2, 2, 4, -1], "twice"),
        ([3, 1, 2, 0, -1, -1], "number of blocks"),
        ([3, 1, 2, 0, 4, 5], "number of blocks"),
        ([3, 1, 2, 0, 9, -1], "no candidate"),
    ],
)
def test_topk_rejects(row, problem):
    with pytest.raises(AssertionError, match=problem):
        check_topk("topk", np.array([row]), SCORES, CANDIDATE, FORCED, 1e-6)


def test_topk_takes_zeros_by_index():
    nothing_forced = np.zeros_like(FORCED)
    check_topk("topk", np.array([[1, 2, 0, 3]]), SCORES, CANDIDATE, nothing_forced, 1e-6)
    with pytest.raises(AssertionError, match="by index"):
        check_topk("topk", np.array([[1, 2, 0, 4]]), SCORES, CANDIDATE, nothing_forced, 1e-6)


def test_rows_of_flushed_probabilities():
    """A kernel keeps them or counts them as 0; what lies outside of both is wrong."""
    kept = np.full((1, 4), 2.0**-129)
    given = (np.zeros_like(kept), [np.zeros_like(kept)], "float32", 4, lambda: kept, lambda: kept)
    for ours in (0 * kept, kept / 2, kept):
        check_rows("row", ours, *given)
    for ours in (-kept, 1.1 * kept):
        with pytest.raises(AssertionError, match="1 of 1 rows of 4"):
            check_rows("row", ours, *given)


def test_sizes_of_subnormal_operands():
    """Rounding to float16 is to multiples of 2^-24 below 2^-14, as at 2^-14 itself."""
    p = np.array([[2.0**-20, 0.0, 0.5]])
    found = Sizes("float16").matmul(Sizes("float16").operand(p), np.eye(3))
    np.testing.assert_array_equal(found, [[2.0**-14, 0, 0.5]])
