"""NsaDecode in Ascend C, on the twin, against the float64 reference."""

import numpy as np
import pytest

from mindspore_nsa.reference.rows import windows
from tests.common.cases import Case

from .attention_checks import calls_of, check_call, same_bits
from .cache_cases import GROUPS, make_decode

CONFIGURATIONS = 48


@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, 16))
def test_random_configurations(decode_runner, first):
    for seed in range(first, first + 16):
        check_call(decode_runner, make_decode(seed), calls_of(seed))


def test_the_cases_cover_what_matters():
    """Pages and rows in one piece, heads before tokens, ragged rows, rings that have gone round."""
    cases = [make_decode(seed) for seed in range(CONFIGURATIONS)]
    named = [case.named() for case in cases]
    paged = [x["block_table"] is not None for x in named]
    assert min(sum(paged), len(paged) - sum(paged)) > 10
    assert {c.attrs["cache_layout"] for c in cases} == {"BSND", "BNSD"}
    given = [x["actual_seq_qlen"] for x in named if x["actual_seq_qlen"] is not None]
    assert sum(0 in counts for counts in given) >= 3
    groups = [c.attrs["head_num"] // shape_of(c)[2] for c in cases]
    assert set(groups) == set(GROUPS)
    rings = [shape_of(c)[1] for c in cases]
    assert sum(max(x["actual_seq_kvlen"]) > r for x, r in zip(named, rings)) > 10


def shape_of(case):
    """[B, R, N2, D] of the rings."""
    key = case.named()["key_win"]
    shape = (key[1] if isinstance(key, tuple) else key).shape
    return shape if case.attrs["cache_layout"] == "BSND" else [shape[i] for i in (0, 2, 1, 3)]


def call(lengths=(700, 150), counts=(2, 1), page=48, n1=8, n2=2, d=64, window=100, **attrs):
    """Rows in one piece, the same in pages, and with heads before tokens: three cases."""
    rng = np.random.default_rng(3)
    attrs = {
        **{"compress_block_size": 8, "compress_stride": 4, "select_block_size": 16},
        **{"select_block_count": 6, "init_blocks": 1, "local_blocks": 2, "importance": "cann"},
        **{"scale_value": d**-0.5, "head_num": n1, "window_size": window, "layout": "TND"},
        "cache_layout": "BSND",
        **attrs,
    }

    def draw(*shape):
        return rng.standard_normal(shape, np.float32).astype(np.float16)

    places = {
        "cmp": max(
            windows(n, attrs["compress_block_size"], attrs["compress_stride"]) for n in lengths
        ),
        "slc": max(lengths),
        "win": window + max(counts),
    }
    caches = {
        f"{kind}_{branch}": draw(len(lengths), n, n2, d)
        for branch, n in places.items()
        for kind in ("key", "value")
    }
    rest = {
        "block_table": None,
        "cmp_block_table": None,
        "actual_seq_qlen": np.array(counts),
        "actual_seq_kvlen": np.array(lengths),
    }
    inputs = {
        "query": draw(sum(counts), n1, d),
        "gates": rng.random((sum(counts), 3, n1), np.float32),
        **caches,
        **rest,
    }
    pages, tables = dict(caches), {}
    for branch, name in (("cmp", "cmp_block_table"), ("slc", "block_table")):
        of_row = -(-places[branch] // page)
        tables[name] = rng.permutation(len(lengths) * of_row).astype(np.int32).reshape(-1, of_row)
        for kind in ("key", "value"):
            whole = np.zeros((len(lengths), of_row * page, n2, d), np.float16)
            whole[:, : places[branch]] = caches[f"{kind}_{branch}"]
            paged = np.empty((tables[name].size, page, n2, d), np.float16)
            paged[tables[name]] = whole.reshape(len(lengths), of_row, page, n2, d)
            pages[f"{kind}_{branch}"] = paged
    paged = {**inputs, **pages, **tables}
    turned = {n: np.ascontiguousarray(x.swapaxes(1, 2)) for n, x in pages.items()}
    turned = {**paged, **turned}
    return (
        Case.of("NsaDecode", inputs, attrs, "float16"),
        Case.of("NsaDecode", paged, attrs, "float16"),
        Case.of("NsaDecode", turned, {**attrs, "cache_layout": "BNSD"}, "float16"),
    )


@pytest.mark.parametrize("page", [16, 48])
def test_pages_change_no_bit(decode_runner, page):
    """Nor do the layout of the caches, waves and cores."""
    run = decode_runner.run
    one, paged, turned = call(page=page)
    first, _ = run(one, 3)
    assert same_bits(first, run(paged, 24, 1)[0])
    assert same_bits(first, run(turned, 5, 2)[0])
    assert same_bits(first, run(paged, 1, 0, wave_queries=1)[0])
    assert same_bits(first, run(turned, 2, 1, wave_queries=1)[0])


def test_the_branches_are_those_of_the_operators(
    decode_runner, compress_infer_runner, selected_infer_runner
):
    """A gate of 1 for one branch gives the bits of its operator."""
    _, paged, _ = call()
    x, a = paged.named(), paged.attrs
    compressed = [windows(n, 8, 4) for n in x["actual_seq_kvlen"]]
    shared = {"query": x["query"]}
    rows = {"actual_seq_qlen": x["actual_seq_qlen"]}
    first = Case.of(
        "NsaCompressAttentionInfer",
        {
            **shared,
            **{"key": x["key_cmp"], "value": x["value_cmp"], "block_table": x["cmp_block_table"]},
            **rows,
            "actual_cmp_seq_kvlen": compressed,
            "actual_sel_seq_kvlen": x["actual_seq_kvlen"],
        },
        {**a, "key_value_head_num": 2, "page_block_size": 48},
        "float16",
    )
    (out, blocks), _ = compress_infer_runner.run(first, 3)
    second = Case.of(
        "NsaSelectedAttentionInfer",
        {
            **shared,
            **{"key": x["key_slc"], "value": x["value_slc"], "topk_indices": blocks},
            "block_table": x["block_table"],
            **rows,
            "actual_seq_kvlen": x["actual_seq_kvlen"],
        },
        {**a, "key_value_head_num": 2, "page_block_size": 48},
        "float16",
    )
    (chosen,), _ = selected_infer_runner.run(second, 3)
    for branch, expected in enumerate((out, chosen)):
        x["gates"][:] = 0
        x["gates"][:, branch] = 1
        assert np.array_equal(decode_runner.run(paged, 7)[0][0], expected)


# Only the kernel sees the contents of a device's Tensors.
WRONG = {
    "page": ("block_table", 99),
    "compressed page": ("cmp_block_table", 99),
    "negative page": ("cmp_block_table", -1),
    "length": ("actual_seq_kvlen", 2**62),
    "a token too many": ("actual_seq_kvlen", 15 * 48 + 1),
    "negative length": ("actual_seq_kvlen", -(2**62)),
    "more queries": ("actual_seq_qlen", 2**40),
    "negative queries": ("actual_seq_qlen", -3),
}


def check_wrong(runner, name):
    """A row whose length is wrong is left out, as are queries of no row; the others are as they
    were."""
    tensor, value = WRONG[name]
    for row in (0, 1):
        _, case, _ = call()
        queries = slice(0, 2) if row == 0 else slice(2, 3)
        others = slice(2, 3) if row == 0 else slice(0, 2)
        (right,), _ = runner.run(case, 3)
        # The first page has the first block, which every query selects.
        case.named()[tensor][(row, 0) if "table" in tensor else row] = value
        (out,), _ = runner.run(case, 1)
        if tensor != "actual_seq_qlen":
            assert np.isfinite(out).all() and np.array_equal(out[others], right[others]), row
        elif value < 0:  # the other row has the first queries
            counted = 1 if row == 0 else 2
            assert out[:counted].any((1, 2)).all() and not out[counted:].any(), row
        if tensor == "actual_seq_kvlen":
            assert not out[queries].any(), row


@pytest.mark.parametrize("name", WRONG)
def test_nothing_is_read_out_of_bounds(decode_runner, name):
    check_wrong(decode_runner, name)


def check_lost(runner):
    """A ring that has lost tokens that are seen leaves the branch out."""
    one, _, _ = call(lengths=(700,), counts=(1,))
    x = one.named()
    x["gates"][:, :2] = 0
    one.inputs[list(x).index("key_win")] = x["key_win"][:, :99].copy()
    one.inputs[list(x).index("value_win")] = x["value_win"][:, :99].copy()
    assert not runner.run(one, 2)[0][0].any()


def test_a_ring_that_has_lost_tokens(decode_runner):
    check_lost(decode_runner)


def test_a_nan_reaches_what_sees_it(decode_runner):
    """And only that: a token behind a query, or one that has left the window, is not read."""
    one, _, _ = call(lengths=(700,), counts=(2,))
    (clean,), _ = decode_runner.run(one, 2)
    x, ring = one.named(), 102
    x["value_win"][0, 699 % ring, 1, 5] = np.nan
    (out,), _ = decode_runner.run(one, 2)
    assert np.argwhere(np.isnan(out)).tolist() == [[1, head, 5] for head in range(4, 8)]
    x["value_win"][0, 699 % ring, 1, 5] = 0
    x["value_win"][0, 599 % ring, 0, 3] = np.nan  # the first query sees 599 to 698
    (out,), _ = decode_runner.run(one, 2)
    assert np.argwhere(np.isnan(out)).tolist() == [[0, head, 3] for head in range(4)]
    x["value_slc"][0, 699, 0, 7] = np.nan
    (out,), _ = decode_runner.run(one, 2)
    assert np.isnan(out[1, :4, 7]).all() and np.array_equal(out[0, :, 8:], clean[0, :, 8:])


def test_traffic(decode_runner):
    """Every key and value of a branch comes once."""
    n1, n2, d, count, window = 32, 2, 64, 16, 512
    rule = {"compress_block_size": 32, "compress_stride": 16, "select_block_size": 64}
    one, _, _ = call((4112,), (1,), 16, n1, n2, d, window, select_block_count=count, **rule)
    _, counts = decode_runner.run(one, 8)
    # The query's own block, which is forced, has 16 tokens; a window that wraps adds no key.
    keys = (256, (count - 1) * 64 + 16, window)
    parts = [-(-k // 256) for k in keys]
    between = sum(k * n1 * (4 + 2) + p * n1 * (d * 4 + 64) for k, p in zip(keys, parts))
    blocks, sums, outputs = n2 * count * 4, keys[0] * n2 * 4, 3 * n1 * d * 2
    assert counts.gm_written == between + sums + blocks + outputs + n1 * d * 2
    cache = sum(keys) * n2 * 2 * d * 2
    ranked = keys[0] * n1 * 4 + n1 * 3 * 32 + sums
    read = cache + sum(parts) * n1 * d * 2 + between + ranked + outputs + 3 * n1 * 4
    # Beside them lists by the cache line.
    assert read <= counts.gm_read <= read + 64 * 1024
