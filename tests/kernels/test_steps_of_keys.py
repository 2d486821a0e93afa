"""FlashAttentionScore over many steps of keys: rows whose maximum grows late, by little and by far,
values near the end of the range, and what is no number, in the middle of steps that are plain.

On AMX such steps are done several at once, against a maximum that need not be the row's.
"""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import Case, compare
from mindspore_nsa.testing.dtypes import DTYPES, decode, encode

pytestmark = pytest.mark.usefixtures("isa")
# Rows of several 32-row tiles and half a one, keys of several sweeps and of less than a step.
ROWS, KEYS, HEADS, DIM = 176, 1700, 2, 40


def _case(dtype, dim_v=72, edit=None, grow=(), rows=ROWS, **attrs):
    draw = np.random.default_rng(7)
    query, key, value = (
        draw.standard_normal((1, HEADS, n, d)) for n, d in ((rows, DIM), (KEYS, DIM), (KEYS, dim_v))
    )
    # One dimension in which all queries are 1 adds the same number to all scores of a key.
    query[..., 0], key[..., 0] = 1, 0
    for at, by in grow:
        key[:, :, at:, 0] += by
    if edit:
        edit(query, key, value)
    named = {
        name: encode(x, dtype) for name, x in zip(("query", "key", "value"), (query, key, value))
    }
    mode = {"head_num": HEADS, "input_layout": "BNSD", "scalar_value": 0.25, **attrs}
    return Case.of("FlashAttentionScore", named, mode, dtype)


def _run(case):
    return _native.run(case.op, case.inputs, case.attrs)


def _check(case):
    with np.errstate(invalid="ignore", over="ignore"):
        compare(case, _run(case))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "grow",
    [
        (),
        [(33, 8), (129, 8), (700, 12), (701, 12), (1500, 20)],
        [(40, 300), (1100, 400)],
        [(0, 500), (512, -600)],
        [(1024, 2000)],
    ],
    ids=["even", "little by little", "by far", "falls", "at the sweep's end"],
)
def test_maxima_that_grow(dtype, grow):
    _check(_case(dtype, grow=grow))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "attrs",
    [
        {"sparse_mode": 3},
        {"sparse_mode": 4, "pre_tokens": 1000, "next_tokens": 0},
        {"scalar_value": -0.25},
    ],
    ids=["causal", "window", "negative scale"],
)
def test_visible_intervals(dtype, attrs):
    _check(_case(dtype, grow=[(900, 10)], **attrs))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [3e38, 2.0**70, np.inf, np.nan])
def test_large_values(dtype, value):
    def edit(query, key, values):
        values[0, 0, 300, 3] = value
        values[0, 1, 1400, 70] = -value

    if dtype == "float16" and np.isfinite(value):
        value = 65504.0
    # They stand where the scores are largest.
    _check(_case(dtype, edit=edit, grow=[(200, 20), (301, -20)]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("at", [0, 700, KEYS - 1])
def test_scores_that_are_no_numbers(dtype, value, at):
    def edit(query, key, values):
        key[0, 1, at, 5] = value

    _check(_case(dtype, edit=edit))


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_for_any_number_of_threads(dtype):
    case = _case(dtype, grow=[(700, 30)])
    first, *others = (
        _native.run(case.op, case.inputs, case.attrs, num_threads=threads) for threads in (1, 2, 3)
    )
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(decode(a), decode(b))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [1e3, 1e5, 1e7, 1e9, 1e11])
def test_equal_scores_weigh_the_same_however_large(dtype, size):
    """Also in different steps, and beside the causal edge."""

    def edit(query, key, values):
        query[:], key[:], values[:] = 1, size / 10, 0
        values[:, :, 1024:] = 1

    _check(_case(dtype, edit=edit, rows=96, sparse_mode=3))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_huge_scores_are_numbers(dtype):
    def edit(query, key, values):
        query *= 1e5
        key *= 1e5

    out, _, total = (decode(x) for x in _run(_case(dtype, edit=edit)))
    assert np.isfinite(out).all() and (total >= 1).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("scale", [1e-36, 1e-38])
def test_products_beyond_float32_with_a_tiny_scale(dtype, scale):
    def edit(query, key, values):
        query[:], key[:] = 0, 0
        query[..., 1], key[..., 700, 1] = 1e30, 1e30

    out, top, total = (decode(x) for x in _run(_case(dtype, edit=edit, scalar_value=scale)))
    assert np.isnan(out).all() and (top == np.inf).all() and np.isnan(total).all()


def test_infinity_beside_nan():
    def edit(query, key, values):
        query[:], key[:] = 1, 0.25
        key[..., 740, 5], key[..., 756, 5] = np.inf, np.nan

    _, top, total = (decode(x) for x in _run(_case("bfloat16", edit=edit)))
    assert (top == np.inf).all() and np.isnan(total).all()
