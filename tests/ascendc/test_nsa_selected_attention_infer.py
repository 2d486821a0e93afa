"""NsaSelectedAttentionInfer in Ascend C, on the twin, against the float64 reference."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.common.cases import Case
from twin.tests.builds import ROOT

from .attention_checks import calls_of, check_call, same_bits
from .builds import SELECTED_INFER_SOURCES, changed, unit
from .cache_cases import GROUPS, make_selected_infer
from .launch import TwinError
from .selected_infer_runner import SelectedInferRunner

CONFIGURATIONS = 48


@pytest.mark.parametrize("first", range(0, CONFIGURATIONS, 16))
def test_random_configurations(selected_infer_runner, first):
    for seed in range(first, first + 16):
        check_call(selected_infer_runner, make_selected_infer(seed), calls_of(seed))


def test_the_cases_cover_what_matters():
    """Pages and rows in one piece, ragged rows, several parts of a cell, every kind of group."""
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


# What a device's Tensors hold is not known before the kernel runs.
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


KEYS = "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_keys.h"
PARTS = "ascendc/decoding/parts.h"
CUBE = "ascendc/decoding/parts_cube.h"
VECTOR = "ascendc/decoding/parts_vector.h"
QUERIES = "ascendc/decoding/row_queries.h"
# name: (file, what is replaced, by what)
FAULTS = {
    "causal": (QUERIES, "length - (end_ - query) + 1", "length"),
    "rows of no queries": (QUERIES, "while (query >= end_ &&", "if (query >= end_ &&"),
    "sorted": (KEYS, "blocks_[at - 1] > block; --at", "false; --at"),
    "blocks of the row": (KEYS, "block < 0 || block * block_size_", "block * block_size_"),
    "pages that there are": (KEYS, "if (!tokens_.Has(", "if (false && !tokens_.Has("),
    "first key of a part": (KEYS, "Max(0, first - before)", "0"),
    "place of a part": (PARTS, "part->slot = at_;", "part->slot = 0;"),
    "scores handed over": (CUBE, "    HandOver<Handover::kScores>(step);\n", ""),
    "probabilities awaited": (CUBE, "    Await<Handover::kProbabilities>(step);\n", ""),
    "slot of the scores": (CUBE, "scores_[slot * slot_elements_]", "scores_[0]"),
    "head of the keys": (CUBE, "head * strides.head", "0"),
    "panel of the output": (CUBE, "output_elements_ + v.column]", "output_elements_]"),
    "cores wait": (
        CUBE,
        "      if (t_->ranked != 0 || !waves_.IsLast(wave)) AscendC::SyncAll<false>();\n",
        "",
    ),
    "half of the heads": (
        VECTOR,
        "slot_elements_ + int64_t{share.begin} * t_->part_keys;",
        "slot_elements_;",
    ),
    "both hand over": (
        VECTOR,
        "    HandOver<Handover::kProbabilities>(step);",
        "    if (share.rows > 0) HandOver<Handover::kProbabilities>(step);",
    ),
    "what lies behind the keys": (VECTOR, "      FillTail(x, -Infinity(), g);\n", ""),
    "maximum of the parts": (
        VECTOR,
        "AscendC::Max(now, max, statistics, count);",
        "AscendC::Adds(now, max, 0.0f, count);",
    ),
    "factor of the sum": (VECTOR, "AscendC::Mul(total, total, old, count);", ""),
    "parts in turn": (VECTOR, "outputs_[(part * t_->group", "outputs_[(cell.slot() * t_->group"),
    "empty cells": (VECTOR, "    AscendC::Duplicate(sum, 0.0f, rows * t_->value_dim);\n", ""),
}
# Those that a test of the suite plants; `python -m tests.ascendc.test_nsa_selected_attention_infer`
# plants all of them.
CHOSEN = ("causal", "first key of a part", "both hand over", "factor of the sum")


def found(name, folder):
    """What is wrong with a kernel that has the fault, as an error; None if nothing is."""
    file, old, new = FAULTS[name]
    text = (ROOT / file).read_text()
    assert text.count(old) == 1, f"{old!r} is in {file} {text.count(old)} times"
    sources = (unit("nsa_selected_attention_infer", "float16"),)
    sources += tuple(ROOT / source for source in SELECTED_INFER_SOURCES)
    library = "nsa_selected_attention_infer"
    faulty = SelectedInferRunner(changed(sources, library, folder, file, text.replace(old, new)))
    wrong, paged = call()[1], call()[1]
    wrong.named()["block_table"][0, 1] = 99
    backwards = call()[1]
    place = list(paged.named()).index("topk_indices")
    backwards.inputs[place] = np.ascontiguousarray(backwards.inputs[place][..., ::-1])
    try:
        for seed in range(0, 48, 2):
            check_call(faulty, make_selected_infer(seed), calls_of(seed))
        first, _ = faulty.run(paged, 2, 0, wave_queries=1)
        assert same_bits(first, faulty.run(backwards, 3, 1)[0]), "the order of the blocks"
        faulty.run(wrong, 3)
    except (TwinError, AssertionError) as error:
        return error
    return None


@pytest.mark.parametrize("name", CHOSEN)
def test_fault_is_caught(tmp_path, name):
    assert found(name, tmp_path) is not None


def test_planted_texts_occur_once():
    for file, old, _ in FAULTS.values():
        assert (ROOT / file).read_text().count(old) == 1, old


if __name__ == "__main__":
    for planted in FAULTS:
        with tempfile.TemporaryDirectory() as directory:
            text = str(found(planted, Path(directory)) or "NOT FOUND").splitlines()
            print(f"{planted}: {text[0][:150]}", flush=True)
