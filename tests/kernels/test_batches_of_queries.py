"""NsaCompressAttention of groups of a multiple of 16 heads: a batch on AMX is a few queries.

Batches that a segment cuts, groups of an odd number of 16-row tiles, NaN and infinity.
"""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.reference import compressed_seq_len
from mindspore_nsa.testing.case import Case, compare
from mindspore_nsa.testing.dtypes import decode, encode

pytestmark = pytest.mark.usefixtures("isa")
WINDOW, STRIDE, BLOCK, COUNT = 16, 8, 16, 5
# Segments of one query, of less than a window, and of more queries than a tile of rows has.
LENGTHS = (1, 9, 250, 16, 131)
dtypes = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])


def _case(dtype, edit=None, lengths=LENGTHS, group=16, dims=(32, 32), causal=1, scale=0.2):
    draw = np.random.default_rng(5)
    ends = np.cumsum(lengths)
    keys = np.asarray(compressed_seq_len(ends, WINDOW, STRIDE), np.int64)
    dim, dim_v = dims
    query = draw.standard_normal((ends[-1], 2 * group, dim))
    key, value = (draw.standard_normal((max(keys[-1], 1), 2, d)) for d in (dim, dim_v))
    if edit:
        edit(query, key, value)
    named = zip(("query", "key", "value"), (query, key, value), strict=True)
    inputs = {
        **{name: encode(x.astype(np.float32), dtype) for name, x in named},
        **{"actual_seq_qlen": np.asarray(ends, np.int64), "actual_cmp_seq_kvlen": keys},
    }
    attrs = {
        **{"scale_value": scale, "head_num": 2 * group, "causal": causal},
        **{"compress_block_size": WINDOW, "compress_stride": STRIDE},
        **{"select_block_size": BLOCK, "select_block_count": COUNT},
        **{"init_blocks": causal, "local_blocks": 2 * causal, "importance": "overlap"},
    }
    return Case.of("NsaCompressAttention", inputs, attrs, dtype)


def _run(case, **settings):
    return _native.run(case.op, case.inputs, case.attrs, **settings)


def _check(case):
    with np.errstate(invalid="ignore", over="ignore"):
        compare(case, _run(case))


@dtypes
@pytest.mark.parametrize("group", [1, 8, 16, 32, 48, 64, 112])
def test_groups(dtype, group):
    _check(_case(dtype, group=group))


@pytest.mark.parametrize("dims", [(64, 48), (128, 128), (32, 20), (48, 64), (33, 7)])
def test_sizes_of_heads(dims):
    _check(_case("bfloat16", dims=dims))


@dtypes
def test_all_keys_are_visible(dtype):
    _check(_case(dtype, causal=0, lengths=(40, 250)))


@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 23, 24, 271, 272, 528])
def test_ends_of_units(tokens):
    _check(_case("bfloat16", lengths=(tokens,)))


@dtypes
@pytest.mark.parametrize("scale", [-0.25, 3.0])
def test_scales(dtype, scale):
    _check(_case(dtype, scale=scale))


@dtypes
@pytest.mark.parametrize("value", [3e38, 2.0**70, np.inf, np.nan])
def test_large_values(dtype, value):
    def edit(query, key, values):
        values[20, 0, 3] = value
        values[30, 1, 11] = -value

    _check(_case(dtype, edit=edit))


@dtypes
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("at", [0, 17, 44])
def test_scores_that_are_no_numbers(dtype, value, at):
    def edit(query, key, values):
        key[at, 0, 5] = value

    _check(_case(dtype, edit=edit))


@dtypes
def test_scores_far_apart(dtype):
    def edit(query, key, values):
        query[..., 0] = 1
        key[20:, :, 0] += 120
        key[35:, :, 0] -= 240

    _check(_case(dtype, edit=edit))


@dtypes
def test_a_query_alone_is_no_number(dtype):
    """Its batch goes the general way; every other query's results stay as they were, to the bit."""

    def edit(query, key, values):
        query[100, 3, 1] = np.nan

    plain, edited = (_run(_case(dtype, edit=e)) for e in (None, edit))
    for a, b in zip(plain, edited, strict=True):
        a, b = decode(a), decode(b)
        others = np.arange(len(a)) != 100
        np.testing.assert_array_equal(a[others], b[others])


@dtypes
@pytest.mark.parametrize("group", [16, 48])
def test_same_bits_for_any_number_of_threads(dtype, group):
    case = _case(dtype, group=group)
    first, *others = (_run(case, num_threads=threads) for threads in (1, 2, 3))
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(decode(a), decode(b))


def test_where_the_query_begins_does_not_matter():
    case = _case("bfloat16")
    first = _run(case)
    kind, bits = case.inputs[0]
    room = np.zeros(bits.size + 64, bits.dtype)
    for shift in (1, 8, 31):
        room[shift : shift + bits.size] = bits.ravel()
        inputs = [(kind, room[shift : shift + bits.size].reshape(bits.shape)), *case.inputs[1:]]
        for a, b in zip(first, _native.run(case.op, inputs, case.attrs), strict=True):
            np.testing.assert_array_equal(decode(a), decode(b))
