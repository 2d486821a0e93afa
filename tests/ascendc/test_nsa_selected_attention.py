"""NsaSelectedAttention in Ascend C, on the twin, against the float64 reference."""

from copy import deepcopy

import numpy as np
import pytest

from mindspore_nsa.testing.dtypes import decode
from tests.common.draw import Draw
from tests.common.parity import selected

from .attention_checks import CALLS, calls_of, check_call, same_bits
from .selected_cases import lengths, make_selected_case, selected_parity, shapes

CONFIGURATIONS = 60


@pytest.mark.parametrize("name", selected_parity())
def test_parity(selected_runner, name):
    check_call(selected_runner, selected_parity()[name](), CALLS)


def test_random_configurations(selected_runner):
    for number in range(CONFIGURATIONS):
        check_call(selected_runner, make_selected_case(number), calls_of(number))


def test_the_cases_cover_what_matters():
    """Sizes at every edge, repeated and strange indices, empty segments, rows in several parts."""
    cases = [make_selected_case(number) for number in range(CONFIGURATIONS)]
    sizes, attrs = [shapes(case) for case in cases], [case.attrs for case in cases]
    assert {s["group"] for s in sizes} >= {1, 2, 3, 16, 33}
    assert {s["d"] for s in sizes} >= {16, 128, 192, 256}
    assert sum(s["d"] != s["dv"] for s in sizes) > 20 and sum(s["dv"] > s["d"] for s in sizes) > 3
    assert {a["select_block_size"] for a in attrs} >= {16, 48, 64, 112, 128}
    assert {a["select_block_count"] for a in attrs} >= {1, 3, 16, 31, 32}
    assert sum(a["causal"] for a in attrs) > 20
    assert sum(a["select_block_size"] * a["select_block_count"] > 1024 for a in attrs) > 10
    assert sum(case.named()["q_offset"] is not None for case in cases) > 20
    segments = [lengths(case) for case in cases]
    assert sum(any(q > 0 and k == 0 for q, k in s) for s in segments) > 5
    assert sum(any(q == 0 for q, _ in s) for s in segments) > 5
    for case in cases:
        chosen = np.sort(case.named()["topk_indices"])
        case.repeated = (np.diff(chosen) == 0)[chosen[..., 1:] >= 0].any()
        case.strange = chosen.min() < -1
    assert sum(case.repeated for case in cases) > 20 and sum(case.strange for case in cases) > 10


def test_rows_that_see_nothing(selected_runner):
    """Without a valid index, or with none before the query's position."""
    case = selected(Draw(1, "float16"), [40], [200], 4, 2, 64, 48, 3, select=16, causal=True)
    indices = case.named()["topk_indices"]
    indices[:16] = 5
    indices[20] = [-1, 13, 100]
    (out, row_max, row_sum), _ = selected_runner.run(case, 2)
    blind = np.zeros(40, bool)
    blind[:16] = blind[20] = True
    blind |= (indices.min(axis=-1) * 16 > np.arange(40)[:, None]).all(axis=1)
    assert (out[blind] == 0).all()
    largest = np.finfo(np.float32).max
    assert (row_max[blind] == -largest).all() and (row_sum[blind] == largest).all()


def test_queries_that_see_half_a_block(selected_runner):
    """L0 holds 64 of the block's 128 values at a time; a query has none of the second."""
    case = selected(
        *(Draw(12, "float16"), [72], [128], 1, 1, 256, 256, 1),
        select=128,
        causal=True,
        indices=np.zeros((72, 1, 1)),
    )
    # A tile with a query that sees 64 keys and others that see more.
    case = case.of(case.op, {**case.named(), "q_offset": np.array([4])}, case.attrs, case.dtype)
    check_call(selected_runner, case, [(2, 0)])


def test_blocks_that_only_other_queries_of_the_tile_see(selected_runner):
    """Query 6 ends with block 0 and query 22 with block 1; all of them select the blocks 0 to 2.

    And one so far behind that its number and the query's do not fit together into 32 bits.
    """
    case = selected(
        *(Draw(13, "float16"), [24], [64], 4, 1, 32, 48, 4),
        select=16,
        causal=True,
        indices=np.tile([2, 0, 2**27, 1], (24, 1, 1)),
    )
    case = case.of(case.op, {**case.named(), "q_offset": np.array([9])}, case.attrs, case.dtype)
    check_call(selected_runner, case, [(2, 0), (1, 1)])


def test_all_blocks_selected_is_dense(selected_runner):
    """In any order, with the bits of the ascending one."""
    rng = np.random.default_rng(3)
    blocks = np.tile(np.arange(7), (50, 2, 1))
    ends = {"seq_q": [50], "seq_kv": [100]}
    sizes = {"n1": 8, "n2": 2, "d": 64, "dv": 64, "count": 7, "select": 16, "causal": True}
    ordered = selected(Draw(4, "bfloat16"), **ends, **sizes, indices=blocks)
    first, _ = selected_runner.run(ordered, 2)
    shuffled = deepcopy(ordered)
    shuffled.named()["topk_indices"][:] = rng.permuted(blocks, axis=-1)
    assert not np.array_equal(shuffled.named()["topk_indices"], blocks)
    again, _ = selected_runner.run(shuffled, 7, 1)
    assert same_bits(first, again)
    q, k, v = (decode(x).astype(np.float64) for x in ordered.inputs[:3])
    for head in range(8):
        s = q[:, head] @ k[:, head // 4].T * ordered.attrs["scale_value"]
        s[np.triu_indices(50, 1, 100)] = -np.inf
        p = np.exp(s - s.max(axis=1, keepdims=True))
        dense = p / p.sum(axis=1, keepdims=True) @ v[:, head // 4]
        assert np.abs(decode(first[0])[:, head] - dense).max() <= 2.0**-7 * np.abs(dense).max()


def test_other_queries_and_segments_change_no_bit(selected_runner):
    """A query's row depends on its own blocks alone: not on later keys, segments, tile mates."""
    case = selected(
        Draw(6, "float16"), [40, 90], [200, 420], 4, 1, 64, 64, 4, select=16, causal=True
    )
    (before, *_), _ = selected_runner.run(case, 2)
    other, query = deepcopy(case), 33
    x = other.named()
    x["key"][query + 1 : 200] += 1
    x["value"][query + 1 : 200] += 1
    x["topk_indices"][[*range(query), *range(query + 1, 90)]] = 0
    x["key"][200:], x["value"][200:] = 0, 0
    (after, *_), _ = selected_runner.run(other, 7, 2)
    assert np.array_equal(before[query], after[query])
    assert not np.array_equal(before[query + 1 :], after[query + 1 :])


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
@pytest.mark.parametrize("name", ("query", "key", "value"))
def test_a_nan_reaches_what_sees_it(selected_runner, dtype, name):
    """And nothing else: not the queries before it in its own block, nor other queries' rows."""
    case = selected(Draw(5, dtype), [60, 130], [60, 130], 4, 2, 64, 64, 3, select=16, causal=True)
    (clean, *_), _ = selected_runner.run(case, 2)
    token, head = 85, 1  # 25 in its segment
    tensor = case.named()[name]
    bits = tensor[1] if isinstance(tensor, tuple) else tensor
    bits[token, head, 3] = 0x7FC0 if isinstance(tensor, tuple) else np.nan
    (dirty, *_), _ = selected_runner.run(case, 2)
    clean, dirty = decode(clean), decode(dirty)
    touched = np.isnan(dirty)
    assert np.array_equal(clean[~touched], dirty[~touched])
    rows, heads = np.nonzero(touched.any(axis=-1))
    if name == "query":
        assert set(zip(rows, heads, strict=True)) == {(token, head)}
        return
    selects = (case.named()["topk_indices"][:, head] == 25 // 16).any(axis=-1)
    sees = selects & (np.arange(130) >= token)
    assert sees.sum() > 5
    assert set(zip(rows, heads, strict=True)) == {
        (i, h) for i in np.flatnonzero(sees) for h in (2, 3)
    }
    if name == "value":
        assert set(np.nonzero(touched)[2]) == {3}
