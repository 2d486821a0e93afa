"""NsaCompressWithCache in Ascend C, on the twin, against the float64 reference."""

import numpy as np
import pytest

from tests.common.cases import Case, compare
from twin.tests.builds import ROOT

from .builds import cache_sources, changed
from .cache_cases import make_compress_with_cache
from .cache_runner import CacheRunner, written_rows
from .checks import check_agreement, check_call
from .launch import TwinError, raw
from .runner import same_bits

CONFIGURATIONS = 48
CORES = (1, 3, 48)
UB_BYTES = 192 * 1024 - 8 * 1024 - 256


@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, 16))
def test_random_configurations(cache_runner, first):
    for seed in range(first, first + 16):
        case = make_compress_with_cache(seed)
        others = [count for count in CORES if count != CORES[seed % 3]]
        outputs = check_call(cache_runner, case, CORES[seed % 3], (0, 1), others)
        check_agreement(*_copied(case, outputs))


def _copied(case, outputs):
    """The CPU target writes into the cache of the case, which stays as it is."""
    place = list(case.named()).index("cache")
    cache = case.inputs[place]
    case.inputs[place] = (cache[0], cache[1].copy()) if isinstance(cache, tuple) else cache.copy()
    return case, outputs


def test_the_cases_cover_what_matters():
    """Both forms of a cache, windows of any length, rows without a window, several head tiles."""
    cases = [make_compress_with_cache(seed) for seed in range(CONFIGURATIONS)]
    named = [case.named() for case in cases]
    sizes = [(c.attrs["compress_block_size"], c.attrs["compress_stride"]) for c in cases]
    assert sum(l % 16 != 0 for l, _ in sizes) > 10  # noqa: E741
    assert sum(l > 16 for l, _ in sizes) > 10  # noqa: E741
    assert sum(l % s != 0 for l, s in sizes) >= 3  # noqa: E741
    paged = [x["block_table"] is not None for x in named]
    assert min(sum(paged), len(paged) - sum(paged)) > 10
    assert sum(0 in x["actual_seq_len"] for x in named) > 5
    written = [len(written_rows(case)) for case in cases]
    assert written.count(0) > 3 and sum(n > 1 for n in written) > 10


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_pages_change_no_bit(cache_runner, dtype):
    """Pages of 5 tokens, which cut the windows, in any order, and the rows one after another."""
    seed = next(
        n
        for n in range(200)
        if (case := make_compress_with_cache(n)).dtype == dtype
        and case.named()["block_table"] is None
        and case.attrs["compress_block_size"] > 16
        and len(written_rows(case)) > 1
    )
    case = make_compress_with_cache(seed)
    (rows,), _ = cache_runner.run(case, 3)
    named = case.named()
    tokens, lengths = raw(named["input"]), named["actual_seq_len"]
    places = -(-max(lengths) // 5)
    table = np.random.default_rng(0).permutation(len(lengths) * places).astype(np.int32)
    table = table.reshape(len(lengths), places)
    pages = np.zeros((table.size, 5, *tokens.shape[1:]), tokens.dtype)
    begin = 0
    for b, length in enumerate(lengths):
        for t in range(length):
            pages[table[b, t // 5], t % 5] = tokens[begin + t]
        begin += length
    names = list(named)
    case.inputs[names.index("input")] = (dtype, pages) if dtype == "bfloat16" else pages
    case.inputs[names.index("block_table")] = table
    case.attrs["page_block_size"] = 5
    (paged,), _ = cache_runner.run(case, 48, 1)
    assert same_bits([rows], [paged])


def two_rows():
    """Two rows of pages of 16 tokens, each of which fills a window."""
    rng = np.random.default_rng(1)

    def draw(*shape):
        return rng.standard_normal(shape, np.float32).astype(np.float16)

    inputs = {
        "input": draw(6, 16, 2, 32),
        "weight": draw(32, 2),
        "slot_mapping": np.array([1, 3]),
        "block_table": np.array([[5, 0, 2], [1, 3, 4]], np.int32),
        "actual_seq_len": np.array([48, 32]),
        "cache": draw(5, 2, 32),
    }
    attrs = {"compress_block_size": 32, "compress_stride": 16, "page_block_size": 16}
    return Case.of("NsaCompressWithCache", inputs, attrs, "float16")


# Only the kernel sees the contents of a device's Tensors, and leaves out such a row.
WRONG = {
    "slot behind the cache": ("slot_mapping", 0, 10**12),
    "slot before the cache": ("slot_mapping", 0, -1),
    "length behind the table": ("actual_seq_len", 0, 64),
    "length without an end": ("actual_seq_len", 0, 2**62),
    "negative length": ("actual_seq_len", 0, -16),
    "page": ("block_table", (0, 2), 6),
    "negative page": ("block_table", (0, 2), -1),
}


@pytest.mark.parametrize("name", WRONG)
def test_rows_that_the_caches_do_not_have(cache_runner, name):
    """Nothing is read or written out of bounds, and the other row is right."""
    case = two_rows()
    (right,), _ = cache_runner.run(case, 3)
    tensor, place, value = WRONG[name]
    case.named()[tensor][place] = value
    (rows,), _ = cache_runner.run(case, 3, written=[1])
    assert not rows[0].any() and np.array_equal(rows[1], right[1])


def test_a_nan_reaches_what_is_computed_from_it(cache_runner):
    case = two_rows()
    (clean,), _ = cache_runner.run(case, 2)
    case.named()["input"][0, 3, 1, 7] = np.nan  # token 19 of the first row
    (rows,), _ = cache_runner.run(case, 2)
    assert np.argwhere(np.isnan(rows)).tolist() == [[0, 1, 7]]
    assert np.array_equal(rows[~np.isnan(rows)], clean[~np.isnan(rows)])


def test_traffic(cache_runner):
    """The window and its weights once, the row into the cache and into the output."""
    _, counts = cache_runner.run(two_rows(), 1)
    row = 2 * 32 * 2
    # Beside them: lengths, slots and tables by the cache line, weights by the data block.
    assert counts.gm_written == 2 * 2 * row
    assert 2 * (32 * row + 32 * 4) <= counts.gm_read <= 2 * (32 * row + 32 * 32) + 1024


def test_the_budget_holds(cache_runner):
    """And a tile is narrow where there are cores to spare, but a transfer not too short."""
    for batch, heads, dim, cores, expected in (
        *((1, 4, 128, 48, 2), (64, 4, 128, 48, 4), (1, 1, 512, 48, 1), (1, 33, 16, 1, 17)),
        *((1, 2048, 512, 48, 1), (48, 8, 128, 48, 4)),
    ):
        tile_heads, ub_bytes = cache_runner.tiling(batch, heads, dim, cores)
        assert tile_heads == expected and ub_bytes <= UB_BYTES


# name: (file, what is replaced, by what, error, part of its message)
KERNEL = "ascendc/nsa_compress_with_cache/op_kernel/nsa_compress_with_cache_kernel.h"
STEPS = "ascendc/nsa_compress_with_cache/op_kernel/nsa_compress_with_cache_steps.h"
TOKENS = "ascendc/decoding/row_tokens.h"
FAULTS = {
    "window": (STEPS, "length_ - t_->block_size + weight_", "length_ - t_->block_size", None, None),
    "cores in turn": (STEPS, "    unit_ += cores_;", "    unit_ += 1;", None, None),
    "a page": (TOKENS, "+ token - place * t_.page", "", None, None),
    "pages of a run": (TOKENS, "t_.page - token % t_.page", "t_.page", None, None),
    "any page": (TOKENS, "if (page < 0 || page >= t_.pages) return false;", "", TwinError, None),
    "later tokens": (KERNEL, "if (step.weight == 0)", "if (true)", AssertionError, None),
    "rest of a step": (KERNEL, "if (step.tokens < kSliceTokens)", "if (false)", None, None),
    "weights freed": (KERNEL, "    weights_in_.FreeTensor(weights);\n", "", TwinError, "deadlock"),
    "empty rows": (
        *(STEPS, "if (empty_++ % cores_ == core_) clear(row_, tile);", "++empty_;"),
        *(AssertionError, "never written"),
    ),
    "rows that are not there": (STEPS, "      clear(row_, tile_);\n", "", AssertionError, "never"),
    "barrier": (
        *(KERNEL, "    AscendC::PipeBarrier<PIPE_V>();\n    if (step.last)", "    if (step.last)"),
        *(TwinError, "hazard"),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_caught(tmp_path, name):
    file, old, new, error, message = FAULTS[name]
    text = (ROOT / file).read_text()
    assert text.count(old) == 1, f"{old!r} is in {file} {text.count(old)} times"
    sources = cache_sources()
    library = changed(sources, "nsa_compress_with_cache", tmp_path, file, text.replace(old, new))
    faulty = CacheRunner(library)
    wrong = two_rows()
    wrong.named()["block_table"][0, 2] = 6
    with pytest.raises(error or (TwinError, AssertionError), match=message):
        for seed in range(24):
            case = make_compress_with_cache(seed)
            compare(case, faulty.run(case, 3, seed)[0])
        faulty.run(wrong, 3, written=[1])
