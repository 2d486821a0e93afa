"""NsaCompressAttentionInfer in Ascend C, on the twin, against the float64 reference."""

import numpy as np
import pytest

from mindspore_nsa.reference.rows import windows
from tests.common.cases import Case

from .attention_checks import calls_of, check_call, same_bits
from .cache_cases import GROUPS, make_compress_infer

CONFIGURATIONS = 64


@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, 16))
def test_random_configurations(compress_infer_runner, first):
    for seed in range(first, first + 16):
        check_call(compress_infer_runner, make_compress_infer(seed), calls_of(seed))


def test_the_cases_cover_what_matters():
    """Pages and rows in one piece, ragged and empty rows, several splits and windows of blocks."""
    cases = [make_compress_infer(seed) for seed in range(CONFIGURATIONS)]
    named = [case.named() for case in cases]
    paged = [x["block_table"] is not None for x in named]
    assert min(sum(paged), len(paged) - sum(paged)) > 10
    known = [x["actual_sel_seq_kvlen"] is not None for x in named]
    assert min(sum(known), len(known) - sum(known)) > 10
    given = [x["actual_seq_qlen"] for x in named if x["actual_seq_qlen"] is not None]
    assert sum(0 in counts for counts in given) >= 3
    assert sum(0 in list(x["actual_cmp_seq_kvlen"]) for x in named) > 5
    groups = [c.attrs["head_num"] // c.attrs["key_value_head_num"] for c in cases]
    assert set(groups) == set(GROUPS) | {5}
    keys = [max(x["actual_cmp_seq_kvlen"]) for x in named]
    assert sum(n > 512 for n in keys) > 5 and sum(n <= 128 for n in keys) > 5
    blocks = [
        n * c.attrs["compress_stride"] / c.attrs["select_block_size"] for n, c in zip(keys, cases)
    ]
    assert max(blocks) > 1024
    assert {c.attrs["layout"] for c in cases} == {"TND", "BSND"}
    assert {c.attrs["importance"] for c in cases} == {"cann", "overlap"}


def call(lengths=(1400, 300), counts=(3, 1), page=48, n1=8, n2=2, d=64, **attrs):
    """Rows in one piece, and the same in pages: two cases."""
    rng = np.random.default_rng(3)
    attrs = {
        **{"compress_block_size": 8, "compress_stride": 4, "select_block_size": 16},
        **{"select_block_count": 6, "init_blocks": 1, "local_blocks": 2, "importance": "cann"},
        **attrs,
    }

    def draw(*shape):
        return rng.standard_normal(shape, np.float32).astype(np.float16)

    compressed = [
        windows(n, attrs["compress_block_size"], attrs["compress_stride"]) for n in lengths
    ]
    capacity = max(compressed)
    key, value = draw(len(lengths), capacity, n2, d), draw(len(lengths), capacity, n2, d)
    inputs = {
        "query": draw(sum(counts), n1, d),
        "key": key,
        "value": value,
        "block_table": None,
        "actual_seq_qlen": np.array(counts),
        "actual_cmp_seq_kvlen": np.array(compressed),
        "actual_sel_seq_kvlen": np.array(lengths),
    }
    attrs = {
        **{"scale_value": d**-0.5, "head_num": n1, "key_value_head_num": n2, "layout": "TND"},
        "page_block_size": capacity,
        **attrs,
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
        Case.of("NsaCompressAttentionInfer", inputs, attrs, "float16"),
        Case.of("NsaCompressAttentionInfer", paged, {**attrs, "page_block_size": page}, "float16"),
    )


@pytest.mark.parametrize("page", [16, 48, 7])
def test_pages_change_no_bit(compress_infer_runner, page):
    """Nor do waves, cores, the blocks that are ranked at a time and a longer table."""
    run = compress_infer_runner.run
    one, paged = call(page=page)
    check_call(compress_infer_runner, one, [(2, 0), (24, 1)])
    first, _ = run(one, 3)
    assert same_bits(first, run(paged, 5, 1)[0])
    assert same_bits(first, run(paged, 2, 2, wave_queries=1)[0])
    assert same_bits(first, run(one, 7, 1, window=64)[0])
    # A table of places that the rows do not use, which hold anything.
    place = list(paged.named()).index("block_table")
    table = paged.inputs[place]
    paged.inputs[place] = np.hstack([table, np.full((len(table), 400), -7, np.int32)])
    assert same_bits(first, run(paged, 24, 2, wave_queries=1)[0])


def test_windows_of_blocks(compress_infer_runner):
    """The best of 1125 blocks are found, although some 64 are ranked at a time."""
    one, _ = call(lengths=(9000,), counts=(2,), n1=2, n2=1, d=16, select_block_size=8,
                  compress_block_size=6, compress_stride=2, select_block_count=40)  # fmt: skip
    check_call(compress_infer_runner, one, [(3, 0)])
    first, _ = compress_infer_runner.run(one, 3)
    assert same_bits(first, compress_infer_runner.run(one, 24, 1, window=64)[0])
    assert same_bits(first, compress_infer_runner.run(one, 2, 2, window=192)[0])
    # The query's own block is the first one behind a window that all keys are in.
    one, _ = call(lengths=(1030,), counts=(1,))
    first, _ = compress_infer_runner.run(one, 2)
    assert first[1][0, 0, 2] == 64
    assert same_bits(first, compress_infer_runner.run(one, 2, 1, window=64)[0])


def test_splits_of_a_large_group(compress_infer_runner):
    """Their statistics do not fit into the UB at once."""
    one, _ = call(lengths=(5000,), counts=(1,), n1=128, n2=1, d=16, scale_value=2.0)
    check_call(compress_infer_runner, one, [(24, 0)])


@pytest.mark.parametrize("n1", [2, 10, 34])
def test_queries_that_share_products(compress_infer_runner, n1):
    """Groups of 1, 5 and 17 heads: neither how many queries of a row share a product, nor waves and
    cores change a bit. Rows end within a product, and a split ends with some of its queries."""
    run = compress_infer_runner.run
    one, _ = call(lengths=(2068, 300, 4000), counts=(21, 1, 6), n1=n1, d=16)
    check_call(compress_infer_runner, one, [(3, 0)])
    alone, _ = run(one, 3, shared=1)
    assert same_bits(alone, run(one, 24, 1)[0])
    assert same_bits(alone, run(one, 2, 2, shared=3)[0])
    assert same_bits(alone, run(one, 5, 1, wave_queries=5)[0])


def test_queries_before_a_row(compress_infer_runner):
    """A list on the device may have fewer tokens than queries: those see nothing."""
    one, _ = call(lengths=(9,), counts=(3,))
    one.named()["actual_sel_seq_kvlen"][0] = 2
    one.named()["actual_cmp_seq_kvlen"][0] = 0
    (out, blocks), _ = compress_infer_runner.run(one, 2)
    assert not out.any() and (blocks[:, 0, 0] == [-1, 0, 0]).all() and (blocks[..., 1:] == -1).all()


# Only the kernel sees the contents of a device's Tensors.
WRONG = {
    "page": ("block_table", 99),
    "negative page": ("block_table", -1),
    "compressed length": ("actual_cmp_seq_kvlen", 2**40),
    "fewer compressed tokens": ("actual_cmp_seq_kvlen", 70),
    "negative length": ("actual_cmp_seq_kvlen", -5),
    "length": ("actual_sel_seq_kvlen", 2**62),
    "negative tokens": ("actual_sel_seq_kvlen", -(2**62)),
    "more queries": ("actual_seq_qlen", 2**40),
    "negative queries": ("actual_seq_qlen", -3),
}
WITHOUT_TOKENS = ("page", "compressed length", "negative length")


def check_left_out(runner, name, known):
    """A row whose lengths or pages are wrong is left out, and the others are as they were."""
    tensor, value = WRONG[name]
    for row in (0, 1):
        case = call()[1] if known else without_tokens()
        queries = slice(0, -1) if row == 0 else slice(-1, None)
        others = slice(-1, None) if row == 0 else slice(0, -1)
        right, _ = runner.run(case, 3)
        case.named()[tensor][(row, 1) if tensor == "block_table" else row] = value
        (out, blocks), _ = runner.run(case, 1)
        if tensor == "actual_seq_qlen":  # then no query is of the row that it was of
            continue
        assert not out[queries].any() and (blocks[queries] == -1).all(), row
        assert same_bits((out[others], blocks[others]), [x[others] for x in right]), row


def without_tokens():
    """A query of each row that sees all of its compressed tokens, in pages."""
    case = call(counts=(1, 1), init_blocks=0, local_blocks=0, importance="overlap")[1]
    case.inputs[list(case.named()).index("actual_sel_seq_kvlen")] = None
    return case


@pytest.mark.parametrize("name", WRONG)
def test_nothing_is_read_out_of_bounds(compress_infer_runner, name):
    check_left_out(compress_infer_runner, name, True)
    if name in WITHOUT_TOKENS:
        check_left_out(compress_infer_runner, name, False)


def test_a_nan_reaches_what_sees_it(compress_infer_runner):
    """And only that: a compressed token whose window ends behind a query is not read."""
    one, _ = call(lengths=(304,), counts=(2,))  # the last window ends at the last token
    (clean, blocks), _ = compress_infer_runner.run(one, 2)
    one.named()["value"][0, 74, 1, 5] = np.nan
    (out, same), _ = compress_infer_runner.run(one, 2)
    assert np.argwhere(np.isnan(out)).tolist() == [[1, head, 5] for head in range(4, 8)]
    assert np.array_equal(out[0], clean[0]) and np.array_equal(blocks, same)
    one.named()["key"][0, 74, 0, 5] = np.nan
    (out, same), _ = compress_infer_runner.run(one, 2)
    assert np.isnan(out[1, :4]).all() and np.array_equal(out[0], clean[0])
    assert np.array_equal(blocks[0], same[0]) and np.array_equal(blocks[1, 1], same[1, 1])


def test_traffic(compress_infer_runner):
    """Every key and value comes once, every score once more for the ranking."""
    n1, n2, d, count = 32, 2, 128, 16
    one, _ = call((4096 + 16,), (1,), 16, n1, n2, d, compress_block_size=32, compress_stride=16,
                  select_block_size=64, select_block_count=count)  # fmt: skip
    keys = one.named()["actual_cmp_seq_kvlen"][0]
    assert keys == 256
    _, counts = compress_infer_runner.run(one, 8)
    cache = 2 * keys * n2 * d * 2
    between = keys * n1 * (4 + 2) + n1 * (d * 4 + 64)
    read = cache + n1 * d * 2 + between + keys * n1 * 4 + n1 * 3 * 32 + keys * n2 * 4
    # Beside them lists by the cache line.
    assert read <= counts.gm_read <= read + 64 * 1024
    assert counts.gm_written == between + keys * n2 * 4 + n1 * d * 2 + n2 * count * 4


def check_shared_traffic(runner):
    """Eight queries of a row, of which the last four see a token more: what all of them see comes
    once, and the last split once for each four."""
    n1, n2, d, count, queries = 8, 2, 128, 16, 8
    one, _ = call((9827,), (queries,), 16, n1, n2, d, compress_block_size=32, compress_stride=16,
                  select_block_size=64, select_block_count=count)  # fmt: skip
    keys = one.named()["actual_cmp_seq_kvlen"][0]
    assert keys == 613
    _, counts = runner.run(one, 8)
    scores = (4 * 612 + 4 * 613) * n1
    parts = queries * 3
    between = scores * (4 + 2) + parts * n1 * (d * 4 + 64)
    # Two products of eight queries, and two of four for the last split. Numbers that are summed
    # over the heads come by 64.
    cache, products = (512 + 100 + 101) * n2 * 2 * d * 2, parts * n1 * d * 2
    ranked = scores * 4 + parts * n1 * 64
    sums = queries * 640 * n2 * 4
    assert counts.gm_written == between + sums + queries * (n1 * d * 2 + n2 * count * 4)
    read = cache + products + between + ranked + sums
    assert read <= counts.gm_read <= read + 64 * 1024


def test_shared_traffic(compress_infer_runner):
    check_shared_traffic(compress_infer_runner)
