"""Faults planted in copies of NsaCompressAttention's kernel."""

from functools import partial

from .. import test_nsa_compress_attention as tests
from ..compress_attention_cases import make_case
from .judge import random_checks

KERNEL = "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_"
CUBE, VECTOR, TILING = KERNEL + "cube.h", KERNEL + "vector.h", KERNEL + "tiling.h"
RANKING = KERNEL + "ranking.h"
IMPORTANCE, TOPK = "ascendc/attention/importance.h", "ascendc/attention/topk.h"
PRODUCT, ROWS = "ascendc/attention/tile_product.h", "ascendc/attention/pass_rows.h"
SOFTMAX = "ascendc/attention/online_softmax.h"
HANDOVER, SLOTS = "ascendc/attention/handover.h", "ascendc/attention/score_slots.h"

# name: (file, what is replaced, by what)
FAULTS = {
    # Flags and slots between the cores.
    "probabilities awaited": (CUBE, "if (waits) Await", "if (false) Await"),
    "both vector cores hand over": (
        VECTOR,
        "    if (!in_tile_) HandOver",
        "    if (!in_tile_ && core_ == 0) HandOver",
    ),
    "handed over early": (VECTOR, "    if (!in_tile_) HandOver", "    HandOver"),
    "handed over by MTE3": (HANDOVER, "from_vectors ? PIPE_MTE3 : PIPE_FIX", "PIPE_FIX"),
    "slot of the cube": (CUBE, "scores_[index % kSlots * slot_]", "scores_[0]"),
    "slot of the vectors": (VECTOR, "return tile.index % kSlots * slot_ +", "return"),
    "slot of the probabilities": (CUBE, "2 * (index % kSlots * slot_)", "index % kSlots * slot_"),
    "workspace of a block": (TILING, "return kSlots * slot * 4;", "return 2 * slot * 4;"),
    # The cube.
    "columns of the scores": (CUBE, "to[block + keys.row]", "to[keys.row]"),
    "pitch of the probabilities": (CUBE, "row_pitch = 2 * t_", "row_pitch = t_"),
    "panel of the values": (CUBE, "from[block * pitch + panel]", "from[block * pitch]", "bfloat16"),
    "panel of the output": (CUBE, "StoreOutput(to[panel]", "StoreOutput(to[0]", "bfloat16"),
    "output accumulates": (
        CUBE,
        "      product_.BeginResult();\n      for (int64_t block",
        "      if (panel == 0) product_.BeginResult();\n      for (int64_t block",
    ),
    "rows of a query": (CUBE, "columns, i * group_, group_)", "columns, i * group_, 1)"),
    "query of the output": (CUBE, "to[i * query]", "to[i * value_dim_]"),
    "head of the keys": (CUBE, "pitch + item.head * dim_]", "pitch]"),
    "matrices of queries": (PRODUCT, "static_cast<uint16_t>(group * kC0)", "uint16_t{16 * kC0}"),
    "result complete": (
        PRODUCT,
        "    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(result_);\n"
        "    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(result_);\n"
        "  }\n  template <typename O>\n  __aicore__ inline void StoreRows",
        "  }\n  template <typename O>\n  __aicore__ inline void StoreRows",
    ),
    # The softmax.
    "behind the last key, scores": (VECTOR, "positive ? -Infinity() : 0.0f", "0.0f"),
    "scales that are not positive": (
        VECTOR,
        "    if (!positive) HideKeys(x, pass, g, -Infinity());\n",
        "",
    ),
    "hidden probabilities": (VECTOR, "HideKeys(x, pass, g, 0.0f)", "HideKeys(x, pass, g, 1.0f)"),
    "first hidden key": (ROWS, "if (begin > at) lanes", "if (begin > at + 1) lanes"),
    "mask of the scores": (
        VECTOR,
        "    if (t_->mask_row != 0) HideByMask(x, g, -Infinity());\n",
        "",
    ),
    "mask of the probabilities": (
        VECTOR,
        "    if (t_->mask_row != 0) HideByMask(x, g, 0.0f);\n",
        "",
    ),
    "query of a mask": (VECTOR, "static_cast<uint32_t>(i / group_)", "uint32_t{0}"),
    "mask row": (VECTOR, "mask_[first * t_->mask_row", "mask_[0 * first"),
    "mask slot": (VECTOR, "Mask(slot_in_use_)", "Mask(0)"),
    "queries that see the same": (
        VECTOR,
        "visible.High(first + queries - 1) == end",
        "visible.High(first + queries - 1) >= end",
    ),
    "next queries that see the same": (
        VECTOR,
        "visible.High(first + next) == end",
        "visible.High(first + next) >= end",
    ),
    "keys of a row": (VECTOR, "Max(end - pass.key, 0)", "Max(end, 0)"),
    "empty rows": (
        VECTOR,
        "    MarkEmptyRows(Sums(blocks)",
        "    if (rows < 0) MarkEmptyRows(Sums(blocks)",
    ),
    "statistics start": (VECTOR, "    if (pass.key == 0) StartRows(at, g.rows);\n", ""),
    "rows that start": (
        VECTOR,
        "Duplicate(sum_[at], 0.0f, RoundUp(rows, kRowMultiple))",
        "Duplicate(sum_[at], 0.0f, kRowMultiple)",
    ),
    "statistics of every key": (
        VECTOR,
        "if (pass.key + step_keys_ >= TileOf(pass).keys) FinishRows",
        "if (pass.key == 0) FinishRows",
    ),
    "statistics of a query": (
        VECTOR,
        "HeadOffset(pass, pass.row / group_, pass.row % group_)",
        "HeadOffset(pass, 0, pass.row % group_)",
    ),
    "statistics of the next query": (
        VECTOR,
        "static_cast<uint32_t>(t_->heads - heads) * kBlockBytes",
        "0",
    ),
    "maximum kept": (
        VECTOR,
        "    AscendC::Adds(max_blocks_[at * kBlockFloats], blocks,",
        "    AscendC::Adds(max_blocks_, blocks,",
    ),
    "place of the statistics": (
        VECTOR,
        "pass->kept += RoundUp(rows, kRowMultiple)",
        "pass->kept += 0",
    ),
    "earlier sums count less": (
        SOFTMAX,
        "  AscendC::Mul(sum, sum, factors, rows);\n  AscendC::PipeBarrier<PIPE_V>();\n",
        "",
    ),
    "rows of the second sweep": (
        VECTOR,
        "static_cast<uint32_t>(pass.kept * kBlockFloats)",
        "uint32_t{0}",
    ),
    "probabilities stored": (VECTOR, "2 * ScoreOffset(pass)", "ScoreOffset(pass)"),
    "half of the queries": (VECTOR, "tile.begin = core_ == 0 ? 0 : half", "tile.begin = 0"),
    "rest of a query": (
        VECTOR,
        "rows < group_ ? group_ - pass.row % group_ : BatchRows",
        "rows < group_ ? group_ : BatchRows",
    ),
    # Two slots of scores.
    "both slots free": (SLOTS, "    if (large) AscendC::Wait", "    if (false) AscendC::Wait"),
    "slot after a large group": (SLOTS, "use_ = large ? 0 : use_ ^ 1", "use_ = use_ ^ 1"),
    "large groups": (
        SLOTS,
        "return floats > slot_floats_;",
        "return floats > slot_floats_ + 8192;",
    ),
    "scores of the next tile": (VECTOR, "in_tile_ && !IsLarge(now) &&", "in_tile_ &&"),
    # Importance.
    "weights": (IMPORTANCE, "Min(tap + 1, taps - tap)", "Min(tap + 1, taps)"),
    "last key of a block": (IMPORTANCE, "(t_->overlap != 0 ? 1 : 0) -", "1 -"),
    "blocks that are complete": (IMPORTANCE, "(end - (t_->overlap != 0 ? 0 : 1))", "end"),
    "query of the probabilities": (
        IMPORTANCE,
        "[static_cast<uint32_t>(first * row_pitch_ +",
        "[static_cast<uint32_t>(0 * first +",
    ),
    "places of queries": (IMPORTANCE, "query * row_pitch_ * 4,", "query * window * 4,"),
    "heads added up": (IMPORTANCE, "(1, 1, 1, 0, g.pitch(), 0)", "(1, 1, 1, 8, g.pitch(), 0)"),
    "key of the window": (RANKING, "static_cast<int32_t>(key % t_->Keys())", "0"),
    # The blocks.
    "a NaN ranks last": (
        TOPK,
        "scores_, bits_, scores_, kLowest",
        "scores_, bits_, scores_, -kLowest",
    ),
    "candidates": (RANKING, "return OwnBlock(i) + 1;", "return OwnBlock(i) + 2;"),
    "blocks of a segment": (RANKING, "(t_->overlap != 0 ? t_->overlap_keys - 1 : 0)", "0"),
    "excluded": (
        TOPK,
        "-Infinity(), Max(begin, 0), window_",
        "-Infinity(), Max(begin + 1, 0), window_",
    ),
    "index of what is excluded": (
        TOPK,
        "int32_t{-1}, Max(begin, 0)",
        "int32_t{-1}, Max(begin + 1, 0)",
    ),
    "local blocks": (RANKING, "own - t_->local + 1, own + 1", "own - t_->local, own + 1"),
    "own block": (RANKING, "own - t_->local + 1, own + 1", "own - t_->local + 1, own"),
    "initial blocks": (RANKING, "t_->init - blocks.first)", "t_->init + 1 - blocks.first)"),
    "mask of forced blocks": (RANKING, "t_->mask_row + first", "t_->mask_row"),
    "empty list": (TOPK, "int32_t{-1}, indices, repeats", "int32_t{0}, indices, repeats"),
    "list of the windows before": (TOPK, "part[0] = best_[", "part[0] = last_["),
    "length of the list": (TOPK, "lengths[0] = static_cast<uint16_t>(t_->count)", "lengths[0] = 1"),
    "last list": (TOPK, "return list + 1 == count ? last_length : length;", "return length;"),
    "lists of a group": (
        TOPK,
        "const int32_t first = i * kMergeLists;",
        "const int32_t first = i;",
    ),
    "queries of one block": (
        RANKING,
        "OwnBlock(next) == OwnBlock(i)",
        "OwnBlock(next) >= OwnBlock(i)",
    ),
    "candidates of the last query": (RANKING, "Candidates(now_.count - 1)", "Candidates(0)"),
    "shorter window": (RANKING, "now_.keys <= t_->Keys()", "true"),
    "next window": (RANKING, "if (blocks.end < candidates_)", "if (false)"),
    "lists that are not filled": (TOPK, "if (!fills_lists_) Clear();", ""),
    "lists of a query": (TOPK, "auto pitch = window_ / 4;", "auto pitch = kSortRun / 4;"),
    "index of a window": (TOPK, "static_cast<int32_t>(first_block), count", "0, count"),
    "tokens of the indices": (RANKING, "indices_[now_.token * pitch", "indices_[0 * pitch"),
}

# Faults that change nothing, and why.
HARMLESS = {
    "shorter window": "a row of more keys than a window's has more blocks than it, too",
}

SEEDS = (*range(0, 60), 64, 69, 74, 79, 84, 89)


def checks(dtype):
    """Checks that find the faults."""
    found = random_checks(make_case, SEEDS, dtype)
    if dtype == "bfloat16":
        found["two panels"] = partial(tests.test_long_head_dimensions, d=208, dv=144, n1=3, n2=1)
        return found
    return {
        **found,
        "older lists": tests.test_lists_behind_which_older_ones_lie,
        "lists of queries": tests.test_queries_whose_lists_differ,
        "scale of 0": partial(tests.test_scales_that_are_not_positive, scale=0.0),
        "negative scale": partial(tests.test_scales_that_are_not_positive, scale=-0.25),
        "nothing seen": tests.test_queries_that_see_nothing,
        "later tokens": tests.test_later_tokens_change_nothing,
        "NaN": partial(tests.test_a_nan_reaches_what_sees_it, dtype=dtype),
        "NaN and hidden blocks": tests.test_a_nan_leaves_hidden_blocks_alone,
        "between blocks": partial(tests.test_keys_between_blocks, importance="cann"),
        "between blocks, overlap": partial(tests.test_keys_between_blocks, importance="overlap"),
        "many keys": tests.test_more_keys_than_cann_takes,
        "bytes": partial(tests.test_bytes_and_products, keys=512, sweeps=1),
    }
