"""The operators that read a cache: pages, threads and chunks change no bit; what is written."""

import numpy as np
import pytest

from mindspore_nsa import _native, reference
from mindspore_nsa.reference.rows import windows
from mindspore_nsa.testing.case import INPUTS, Case, compare
from mindspore_nsa.testing.dtypes import DTYPES, decode, encode
from tests.common.cases import make_case

RULE = {
    "compress_block_size": 32,
    "compress_stride": 16,
    "select_block_size": 64,
    "select_block_count": 5,
    "init_blocks": 1,
    "local_blocks": 2,
}
N1, N2, D, DV, WINDOW = 8, 2, 64, 48, 100
LENGTHS = (700, 1, 333)


def run(op, named, attrs, **options):
    return _native.run(op, [named.get(name) for name in INPUTS[op]], attrs, **options)


def bits(outputs):
    return [x[1].tobytes() if isinstance(x, tuple) else x.tobytes() for x in outputs]


def paged(cache, page, rng):
    """A contiguous cache [B, capacity, N2, D] in shuffled pages, and their table."""
    rows, capacity = cache.shape[:2]
    places = -(-capacity // page)
    padded = np.zeros((rows, places * page, *cache.shape[2:]), cache.dtype)
    padded[:, :capacity] = cache
    table = rng.permutation(rows * places).reshape(rows, places).astype(np.int32)
    pages = np.empty((rows * places, page, *cache.shape[2:]), cache.dtype)
    pages[table.reshape(-1)] = padded.reshape(-1, page, *cache.shape[2:])
    return pages, table


def problem(seed, dtype, queries=1, lengths=LENGTHS):
    """A call of NsaDecode with contiguous caches, and its arrays before they got their dtype."""
    rng = np.random.default_rng(seed)
    rows, longest = len(lengths), max(lengths)
    sizes = {
        "cmp": windows(longest, 32, 16),
        "slc": longest,
        "win": min(longest, WINDOW + queries - 1),
    }
    arrays = {"query": rng.standard_normal((rows * queries, N1, D), np.float32)}
    for branch, size in sizes.items():
        for kind, dim in (("key", D), ("value", DV)):
            shape = (rows, size, N2, dim)
            arrays[f"{kind}_{branch}"] = rng.standard_normal(shape, np.float32)
    named = {name: encode(x, dtype) for name, x in arrays.items()}
    named["gates"] = rng.random((rows * queries, 3, N1), np.float32)
    named["actual_seq_kvlen"] = np.array(lengths)
    attrs = {"scale_value": D**-0.5, "head_num": N1, "window_size": WINDOW, **RULE}
    return named, arrays, attrs


@pytest.mark.parametrize("isa", _native.available_isas())
@pytest.mark.parametrize("dtype", DTYPES)
def test_pages_change_no_bit(dtype, isa):
    named, arrays, attrs = problem(0, dtype)
    before = _native.isa()
    _native.set_isa(isa)
    try:
        expected = bits(run("NsaDecode", named, attrs))
        for page in (1, 16, 64, 100):
            for branch, table in (("slc", "block_table"), ("cmp", "cmp_block_table")):
                given = dict(named)
                for kind in ("key", "value"):
                    pages, given[table] = paged(
                        arrays[f"{kind}_{branch}"], page, np.random.default_rng(page)
                    )
                    given[f"{kind}_{branch}"] = encode(pages, dtype)
                assert bits(run("NsaDecode", given, attrs)) == expected, (page, branch)
        swapped = dict(named)
        for name, x in arrays.items():
            if name != "query":
                swapped[name] = encode(np.ascontiguousarray(x.swapaxes(1, 2)), dtype)
        assert bits(run("NsaDecode", swapped, {**attrs, "cache_layout": "BNSD"})) == expected
    finally:
        _native.set_isa(before)


SIZES = [(1, 16), (3, 40), (16, 128), (17, 12), (40, 64), (16, 200)]


@pytest.mark.parametrize("group, dim", SIZES)
@pytest.mark.parametrize("tokens", [1, 15, 16, 33, 64, 81, 127, 300])
def test_every_number_of_keys_and_heads(tokens, group, dim, isa):
    """Steps of fewer keys, and groups of fewer or more heads, than a vector or a tile has rows."""
    rng = np.random.default_rng((tokens, group, dim))
    heads, value_dim, dtype = 2, dim // 2 + 3, "bfloat16"
    inputs = {
        "query": encode(rng.standard_normal((1, heads * group, dim), np.float32), dtype),
        "gates": rng.random((1, 3, heads * group), np.float32),
        "actual_seq_kvlen": np.array([tokens]),
    }
    places = {"cmp": max(1, windows(tokens, 32, 16)), "slc": tokens, "win": tokens}
    for branch, size in places.items():
        for kind, width in (("key", dim), ("value", value_dim)):
            drawn = rng.standard_normal((1, heads, size, width), np.float32)
            inputs[f"{kind}_{branch}"] = encode(drawn, dtype)
    attrs = {
        **RULE,
        "scale_value": float(np.float32(dim**-0.5)),
        "head_num": heads * group,
        "window_size": 70,
        "cache_layout": "BNSD",
    }
    case = Case.of("NsaDecode", inputs, attrs, dtype)
    outputs = _native.run(case.op, case.inputs, case.attrs)
    compare(case, outputs)
    assert bits(_native.run(case.op, case.inputs, case.attrs, num_threads=1)) == bits(outputs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_change_no_bit(dtype):
    for op in ("NsaCompressAttentionInfer", "NsaSelectedAttentionInfer"):
        case = make_case(7, op, dtype)
        alone = bits(_native.run(op, case.inputs, case.attrs, num_threads=1))
        for threads in (2, 3, 8):
            assert bits(_native.run(op, case.inputs, case.attrs, num_threads=threads)) == alone
    named, _, attrs = problem(1, dtype, queries=1, lengths=(5000, 40))
    alone = bits(run("NsaDecode", named, attrs, num_threads=1))
    for threads in (2, 3, 8):
        for _ in range(5):
            assert bits(run("NsaDecode", named, attrs, num_threads=threads)) == alone


def test_a_chunk_is_its_tokens_one_by_one():
    """Several queries of a row give the bits that each gives alone at its length."""
    named, _, attrs = problem(2, "float32", queries=4, lengths=(700, 4, 333))
    together = run("NsaDecode", named, attrs)[0].reshape(3, 4, N1, DV)
    for i in range(4):
        alone = dict(named)
        alone["query"] = named["query"].reshape(3, 4, N1, D)[:, i].copy()
        alone["gates"] = named["gates"].reshape(3, 4, 3, N1)[:, i].copy()
        alone["actual_seq_kvlen"] = np.array((700, 4, 333)) - 3 + i
        assert run("NsaDecode", alone, attrs)[0].tobytes() == together[:, i].tobytes(), i


def test_order_of_blocks_changes_no_bit():
    case = make_case(3, "NsaSelectedAttentionInfer", "float32")
    expected = bits(_native.run(case.op, case.inputs, case.attrs))
    place = INPUTS[case.op].index("topk_indices")
    case.inputs[place] = np.ascontiguousarray(case.inputs[place][..., ::-1])
    assert bits(_native.run(case.op, case.inputs, case.attrs)) == expected


def test_blocks_are_those_of_the_whole_sequence():
    """The last tokens choose from the cache what they choose in one pass."""
    rng = np.random.default_rng(4)
    tokens, queries = 900, 37
    count = windows(tokens, 32, 16)
    q = rng.standard_normal((tokens, N1, D), np.float32)
    k, v = (rng.standard_normal((count, N2, d), np.float32) for d in (D, DV))
    attrs = {"scale_value": D**-0.5, "head_num": N1, "importance": "overlap", **RULE}
    whole = _native.run(
        "NsaCompressAttention",
        [q, k, v, None, None, np.array([tokens]), np.array([count]), None, None],
        {**attrs, "causal": True},
    )
    named = {
        "query": q[-queries:].copy(),
        "key": k[None],
        "value": v[None],
        "actual_cmp_seq_kvlen": np.array([count]),
        "actual_sel_seq_kvlen": np.array([tokens]),
    }
    more = {"key_value_head_num": N2, "page_block_size": count}
    out, chosen = run("NsaCompressAttentionInfer", named, {**attrs, **more})
    assert np.abs(out - whole[0][-queries:]).max() < 1e-5
    assert np.array_equal(chosen, whole[1][-queries:])


def compress_call(dtype="float32"):
    rng = np.random.default_rng(5)
    lengths = (64, 40, 32, 80)
    tokens = rng.standard_normal((4, 80, 2, 24), np.float32)
    pages, table = paged(tokens, 16, rng)
    named = {
        "input": encode(pages, dtype),
        "weight": encode(rng.standard_normal((32, 2), np.float32), dtype),
        "slot_mapping": np.array([5, 5, 0, 3]),  # the second row fills no window
        "block_table": table,
        "actual_seq_len": np.array(lengths),
        "cache": encode(rng.standard_normal((7, 2, 24), np.float32), dtype),
    }
    attrs = {"compress_block_size": 32, "compress_stride": 16, "page_block_size": 16}
    return named, attrs


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_the_slots_are_written(dtype):
    named, attrs = compress_call(dtype)
    before = decode(named["cache"]).copy()
    rows = decode(run("NsaCompressWithCache", named, attrs)[0])
    after = decode(named["cache"])
    expected = reference.nsa_compress_with_cache(
        **{**{n: decode(x) for n, x in named.items()}, "cache": before}, **attrs
    )
    assert np.array_equal(after[[5, 0, 3]], rows[[0, 2, 3]])
    assert np.abs(after - expected).max() < 3e-2
    kept = [1, 2, 4, 6]
    assert np.array_equal(after[kept], before[kept]) and not rows[1].any()


@pytest.mark.parametrize(
    "change, words",
    [
        ({"slot_mapping": np.array([5, 5, 5, 3])}, ("slot_mapping", "repetition", "5 at index 2")),
        ({"slot_mapping": np.array([7, 5, 0, 3])}, ("slot_mapping", "[0, 7)", "7 at index 0")),
        ({"slot_mapping": np.array([-1, 5, 0, 3])}, ("slot_mapping", "-1 at index 0")),
        ({"actual_seq_len": np.array([64, 40, 32, 96])}, ("actual_seq_len", "80", "96 at index 3")),
        ({"actual_seq_len": np.array([64, -1, 32, 80])}, ("actual_seq_len", ">= 0", "-1")),
        ({"block_table": (0, 3, 20)}, ("block_table", "[0, 20)", "20 at place 3 of row 0")),
        ({"block_table": (3, 0, -1)}, ("block_table", "-1 at place 0 of row 3")),
    ],
)
def test_wrong_values_write_nothing(change, words):
    named, attrs = compress_call()
    before = named["cache"].copy()
    for name, value in change.items():
        if name == "block_table":
            row, place, page = value
            named[name] = named[name].copy()
            named[name][row, place] = page
        else:
            named[name] = value
    with pytest.raises(ValueError) as caught:
        run("NsaCompressWithCache", named, attrs)
    assert all(word in str(caught.value) for word in words), caught.value
    assert np.array_equal(named["cache"], before)


def test_pages_that_no_row_reads_may_be_anything():
    named, attrs = compress_call()
    named["block_table"][2, 2:] = 10**9  # row 2 has two pages
    run("NsaCompressWithCache", named, attrs)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"actual_seq_kvlen": (701, 1, 333)}, ("actual_seq_kvlen", "700", "701 at index 0")),
        ({"actual_seq_kvlen": (700, 0, 333)}, ("actual_seq_kvlen", "at least the 1", "0 at index")),
        ({"window_size": 101}, ("key_win", "101", "row 0", "100")),
        ({"compress_stride": 8, "compress_block_size": 16}, ("key_cmp", "86", "row 0")),
    ],
)
def test_lengths_that_a_cache_cannot_hold(change, words):
    named, _, attrs = problem(6, "float32")
    for name, value in change.items():
        if name in attrs:
            attrs[name] = value
        else:
            named[name] = np.array(value)
    with pytest.raises(ValueError) as caught:
        run("NsaDecode", named, attrs)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_page_out_of_range():
    named, arrays, attrs = problem(7, "float32")
    for kind in ("key", "value"):
        named[f"{kind}_slc"], table = paged(arrays[f"{kind}_slc"], 64, np.random.default_rng(1))
    table[0, 10] = 33
    with pytest.raises(ValueError, match=r"block_table must be of pages in \[0, 33\), got 33"):
        run("NsaDecode", {**named, "block_table": table}, attrs)


def test_row_without_a_query():
    """Its length and its pages are its own matter."""
    named, _, attrs = problem(8, "float32", queries=1)
    named["actual_seq_qlen"] = np.array([2, 0, 1])
    named["actual_seq_kvlen"] = np.array([700, 0, 333])
    attrs["window_size"] = 99
    (out,) = run("NsaDecode", named, attrs)
    assert np.isfinite(out).all() and out.any(axis=(1, 2)).all()
