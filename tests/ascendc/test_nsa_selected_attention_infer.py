"""NsaSelectedAttentionInfer in Ascend C, on the twin, against the float64 reference."""

import numpy as np
import pytest

from tests.common.cases import Case

from .attention_checks import calls_of, check_call, same_bits
from .cache_cases import GROUPS, make_selected_infer

CONFIGURATIONS = 48


@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, 16))
def test_random_configurations(selected_infer_runner, first):
    for seed in range(first, first + 16):
        check_call(selected_infer_runner, make_selected_infer(seed), calls_of(seed))


def test_the_cases_cover_what_matters():
    """Pages and rows in one piece, ragged rows, several splits of a row, every kind of group."""
    cases = [make_selected_infer(seed) for seed in range(CONFIGURATIONS)]
    named = [case.named() for case in cases]
    paged = [x["block_table"] is not None for x in named]
    assert min(sum(paged), len(paged) - sum(paged)) > 10
    given = [x["actual_seq_qlen"] for x in named if x["actual_seq_qlen"] is not None]
    assert sum(0 in counts for counts in given) >= 3
    groups = [c.attrs["head_num"] // c.attrs["key_value_head_num"] for c in cases]
    assert set(groups) == set(GROUPS)
    keys = [
        c.attrs["select_block_count"]
        * min(c.attrs["select_block_size"], max(x["actual_seq_kvlen"]))
        for c, x in zip(cases, named)
    ]
    assert sum(n > 512 for n in keys) > 5 and sum(n <= 128 for n in keys) > 5
    assert {c.attrs["layout"] for c in cases} == {"TND", "BSND"}


def call(lengths=(300, 75), counts=(2, 1), block=64, count=4, page=48, n1=8, n2=2, d=64):
    """Rows in one piece, and the same in pages: two cases."""
    rng = np.random.default_rng(3)

    def draw(*shape):
        return rng.standard_normal(shape, np.float32).astype(np.float16)

    capacity = max(lengths)
    key, value = draw(len(lengths), capacity, n2, d), draw(len(lengths), capacity, n2, d)
    blocks = [rng.integers(0, -(-n // block), (c, n2, count)) for n, c in zip(lengths, counts)]
    inputs = {
        "query": draw(sum(counts), n1, d),
        "key": key,
        "value": value,
        "topk_indices": np.concatenate(blocks).astype(np.int32),
        "block_table": None,
        "actual_seq_qlen": np.array(counts),
        "actual_seq_kvlen": np.array(lengths),
    }
    attrs = {
        "scale_value": d**-0.5,
        "head_num": n1,
        "key_value_head_num": n2,
        "select_block_size": block,
        "select_block_count": count,
        "page_block_size": capacity,
        "layout": "TND",
    }
    places = -(-capacity // page)
    table = rng.permutation(len(lengths) * places).astype(np.int32).reshape(-1, places)
    pages = []
    for cache in (key, value):
        whole = np.zeros((len(lengths), places * page, n2, d), np.float16)
        whole[:, :capacity] = cache
        paged = np.empty((table.size, page, n2, d), np.float16)
        paged[table] = whole.reshape(len(lengths), places, page, n2, d)
        pages.append(paged)
    paged = {**inputs, "key": pages[0], "value": pages[1], "block_table": table}
    return (
        Case.of("NsaSelectedAttentionInfer", inputs, attrs, "float16"),
        Case.of("NsaSelectedAttentionInfer", paged, {**attrs, "page_block_size": page}, "float16"),
    )


@pytest.mark.parametrize("page", [16, 48, 7])
def test_pages_change_no_bit(selected_infer_runner, page):
    """Nor do the order of a query's blocks, the waves and the cores."""
    one, paged = call(page=page)
    check_call(selected_infer_runner, one, [(2, 0), (24, 1)])
    first, _ = selected_infer_runner.run(one, 3)
    assert same_bits(first, selected_infer_runner.run(paged, 5, 1)[0])
    assert same_bits(first, selected_infer_runner.run(paged, 2, 2, wave_queries=1)[0])
    place = list(one.named()).index("topk_indices")
    one.inputs[place] = np.ascontiguousarray(one.inputs[place][..., ::-1])
    assert same_bits(first, selected_infer_runner.run(one, 24)[0])


# Only the kernel sees the contents of a device's Tensors.
WRONG = {
    "page": ("block_table", (0, 1), 99),
    "negative page": ("block_table", (0, 1), -1),
    "length": ("actual_seq_kvlen", 0, 2**40),
    "negative length": ("actual_seq_kvlen", 0, -5),
    "more queries": ("actual_seq_qlen", 0, 2**40),
}


@pytest.mark.parametrize("name", WRONG)
def test_nothing_is_read_out_of_bounds(selected_infer_runner, name):
    """A block on a page that the cache does not have contributes nothing."""
    _, case = call()
    (right,), _ = selected_infer_runner.run(case, 3)
    tensor, at, value = WRONG[name]
    case.named()[tensor][at] = value
    (out,), _ = selected_infer_runner.run(case, 3)
    if tensor != "actual_seq_qlen":
        assert np.isfinite(out).all() and np.array_equal(out[2], right[2])


def test_a_length_behind_the_cache(selected_infer_runner):
    """It is the cache's: the tokens behind are the next row's."""
    one, _ = call()
    one.named()["topk_indices"][...] = [4, 0, -1, 1]
    (right,), _ = selected_infer_runner.run(one, 3)
    one.named()["actual_seq_kvlen"][0] = 2**40
    (out,), _ = selected_infer_runner.run(one, 3)
    assert np.array_equal(out, right)


def test_a_nan_reaches_what_sees_it(selected_infer_runner):
    """And only that: a token behind a query is not read."""
    one, _ = call(lengths=(300,), counts=(2,))
    one.named()["topk_indices"][...] = [4, 0, -1, 1]
    (clean,), _ = selected_infer_runner.run(one, 2)
    one.named()["value"][0, 299, 1, 5] = np.nan
    (out,), _ = selected_infer_runner.run(one, 2)
    assert np.argwhere(np.isnan(out)).tolist() == [[1, head, 5] for head in range(4, 8)]
    assert np.array_equal(out[0], clean[0])


def test_traffic(selected_infer_runner):
    """Every selected key and value comes once."""
    lengths, counts, block, count, n1, n2, d = (1024,), (1,), 64, 16, 32, 2, 128
    one, _ = call(lengths, counts, block, count, 16, n1, n2, d)
    one.named()["topk_indices"][...] = np.arange(16)
    _, counts = selected_infer_runner.run(one, 8)
    keys = 2 * 1024 * n2 * d * 2
    parts, group = 1024 // 256, n1 // n2
    queries = parts * n1 * d * 2
    between = 1024 * n1 * (4 + 2) + parts * n1 * (d * 4 + 64)
    # Beside them lists by the cache line.
    assert keys + queries + between <= counts.gm_read <= keys + queries + between + 64 * 1024
    assert counts.gm_written == between + n1 * d * 2
    assert group == 16
