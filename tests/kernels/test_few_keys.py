"""Queries of 16 heads that see few keys each, in a window or in blocks that they select: maxima
that grow by little and by far, large values, and what is no number, at the edges of what is seen.

On AMX a query's heads are a tile of rows, and exponents are taken against a maximum that need not
be the row's.
"""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.case import Case, compare
from mindspore_nsa.testing.dtypes import decode, encode

pytestmark = pytest.mark.usefixtures("isa")
# Blocks of 64, the last one cut; more of them than a query goes through at once.
TOKENS, HEADS, DIM, BLOCK, COUNT = 330, 16, 32, 64, 4


def _inputs(dtype, dim_v, edit, grow):
    draw = np.random.default_rng(11)
    query = draw.standard_normal((TOKENS, HEADS, DIM))
    key, value = (draw.standard_normal((TOKENS, 1, d)) for d in (DIM, dim_v))
    # One dimension in which all queries are 1 adds the same number to all scores of a key.
    query[..., 0], key[..., 0] = 1, 0
    for at, by in grow:
        key[at:, :, 0] += by
    if edit:
        edit(query, key, value)
    named = zip(("query", "key", "value"), (query, key, value))
    return {name: encode(x, dtype) for name, x in named}


def _window(dtype, dim_v=72, edit=None, grow=(), scale=0.25):
    ends = np.array([TOKENS], np.int64)
    inputs = _inputs(dtype, dim_v, edit, grow)
    inputs |= {"actual_seq_qlen": ends, "actual_seq_kvlen": ends}
    attrs = {
        **{"head_num": HEADS, "input_layout": "TND", "scalar_value": scale, "sparse_mode": 4},
        **{"pre_tokens": 150, "next_tokens": 0},
    }
    return Case.of("FlashAttentionScore", inputs, attrs, dtype)


def _selected(dtype, dim_v=72, edit=None, grow=(), scale=0.25, block=BLOCK, repeats=False):
    draw = np.random.default_rng(3)
    blocks = -(-TOKENS // block)
    chosen = [draw.permutation(blocks)[:COUNT] for _ in range(TOKENS)]
    for i, row in enumerate(chosen):
        if i // block not in row:
            row[i % COUNT] = i // block
        if repeats and i % 7 == 0:
            row[-1] = row[0]
    ends = np.array([TOKENS], np.int64)
    inputs = {
        **_inputs(dtype, dim_v, edit, grow),
        "topk_indices": np.array(chosen, np.int32)[:, None],
        **{"actual_seq_qlen": ends, "actual_seq_kvlen": ends},
    }
    attrs = {
        **{"scale_value": scale, "head_num": HEADS, "causal": 1},
        **{"select_block_size": block, "select_block_count": COUNT},
    }
    return Case.of("NsaSelectedAttention", inputs, attrs, dtype)


def _run(case, **settings):
    return _native.run(case.op, case.inputs, case.attrs, **settings)


def _check(case):
    with np.errstate(invalid="ignore", over="ignore"):
        compare(case, _run(case))


dtypes = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
both = pytest.mark.parametrize("build", [_window, _selected])
GROWTH = {
    "even": (),
    "little by little": [(33, 8), (129, 8), (200, 12), (201, 12), (300, 20)],
    "by far": [(40, 60), (250, 80)],
    "falls": [(0, 60), (256, -60)],
}


@both
@dtypes
@pytest.mark.parametrize("grow", GROWTH.values(), ids=GROWTH)
def test_maxima_that_grow(build, dtype, grow):
    _check(build(dtype, grow=grow))


@both
@dtypes
@pytest.mark.parametrize("dim_v", [32, 64, 100, 128])
def test_values_of_other_sizes(build, dtype, dim_v):
    _check(build(dtype, dim_v=dim_v))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("block", [16, 48, 64, 100])
def test_blocks_of_other_sizes(dtype, block):
    _check(_selected(dtype, block=block))


@pytest.mark.parametrize("dim_v", [64, 72])
@pytest.mark.parametrize("grow", GROWTH.values(), ids=GROWTH)
def test_windows_of_float16(dim_v, grow):
    _check(_window("float16", dim_v=dim_v, grow=grow))


@dtypes
@pytest.mark.parametrize("value", [2e9, np.inf])
def test_tiles_beside_a_huge_query(dtype, value):
    """A query that is too large for bf16x3 leaves those that see none of its tile as they were."""
    plain = _run(_window(dtype))

    def edit(query, key, values):
        query[0, 3, 1] = value

    changed = _window(dtype, edit=edit)
    _check(changed)
    for ours, before in zip(_run(changed), plain, strict=True):
        ours, before = (decode(x).reshape(TOKENS, HEADS, -1) for x in (ours, before))
        np.testing.assert_array_equal(ours[-1], before[-1])


@both
def test_negative_scale(build):
    _check(build("bfloat16", scale=-0.25))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_repeated_blocks(dtype):
    _check(_selected(dtype, repeats=True))


@both
@pytest.mark.parametrize("powers", [(-100, 100), (100, -100)])
def test_magnitudes_of_float32(build, powers):
    """Scores are those of numbers near 1, whatever both operands are."""
    plain = _run(build("float32"))

    def edit(query, key, value):
        query *= 2.0 ** powers[0]
        key *= 2.0 ** powers[1]
        value *= 2.0 ** powers[0]

    case = build("float32", edit=edit)
    _check(case)
    scaled = decode(_run(case)[0]).astype(np.float64) * 2.0 ** -powers[0]
    np.testing.assert_allclose(scaled, decode(plain[0]), rtol=0, atol=2e-6)


@both
@dtypes
@pytest.mark.parametrize("value", [3e38, 2.0**70, np.inf, np.nan])
def test_large_values(build, dtype, value):
    def edit(query, key, values):
        values[230, 0, 3] = value
        values[290, 0, 70] = -value

    # They stand where the scores are largest.
    _check(build(dtype, edit=edit, grow=[(200, 20), (231, -20)]))


@both
@dtypes
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("at", [0, 200, TOKENS - 1])
def test_scores_that_are_no_numbers(build, dtype, value, at):
    def edit(query, key, values):
        key[at, 0, 5] = value

    _check(build(dtype, edit=edit))


@both
@dtypes
def test_huge_scores_are_numbers(build, dtype):
    def edit(query, key, values):
        query *= 1e5
        key *= 1e5

    out, _, total = (decode(x) for x in _run(build(dtype, edit=edit)))
    assert np.isfinite(out).all() and (total >= 1).all()


@both
@dtypes
def test_same_bits_for_any_number_of_threads(build, dtype):
    case = build(dtype, grow=[(250, 30)])
    first, *others = (_run(case, num_threads=threads) for threads in (1, 2, 3))
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(decode(a), decode(b))


@both
def test_bits_do_not_depend_on_the_place_in_memory(build):
    case = build("bfloat16")
    shifted = {name: _shifted(x) if isinstance(x, tuple) else x for name, x in case.named().items()}
    ours = _run(case), _run(Case.of(case.op, shifted, case.attrs, case.dtype))
    for a, b in zip(*ours, strict=True):
        np.testing.assert_array_equal(decode(a), decode(b))


def _shifted(x):
    """A bfloat16 tensor whose address is two bytes past a multiple of 64."""
    name, bits = x
    memory = np.empty(bits.nbytes + 66, np.uint8)
    begin = -memory.ctypes.data % 64 + 2
    copy = memory[begin : begin + bits.nbytes].view(bits.dtype).reshape(bits.shape)
    copy[...] = bits
    return name, copy
