"""Faults planted in copies of NsaCompressAttention's kernel."""

from functools import partial

from .. import test_nsa_compress_attention as tests
from ..compress_attention_cases import make_case
from .judge import random_checks

KERNEL = "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_"
CUBE, VECTOR, TILING = KERNEL + "cube.h", KERNEL + "vector.h", KERNEL + "tiling.h"
IMPORTANCE, TOPK = "ascendc/attention/importance.h", "ascendc/attention/topk.h"
PRODUCT, MASK = "ascendc/attention/tile_product.h", "ascendc/attention/row_mask.h"
SOFTMAX, STORE = "ascendc/attention/online_softmax.h", "ascendc/attention/row_store.h"
HANDOVER = "ascendc/attention/handover.h"
BARRIER = "    AscendC::PipeBarrier<PIPE_V>();\n"

# name: (file, what is replaced, by what)
FAULTS = {
    # Flags and slots between the cores.
    "scores handed over": (CUBE, "    HandOver<Handover::kScores>(index);\n", ""),
    "probabilities awaited": (CUBE, "if (waits) Await", "if (false) Await"),
    "scores awaited": (VECTOR, "      Await<Handover::kScores>(index);\n", ""),
    "both vector cores hand over": (
        VECTOR,
        "      HandOver<Handover::kProbabilities>(index);",
        "      if (core_ == 0) HandOver<Handover::kProbabilities>(index);",
    ),
    "handed over by MTE3": (HANDOVER, "from_vectors ? PIPE_MTE3 : PIPE_FIX", "PIPE_FIX"),
    "slot of the cube": (CUBE, "scores_[index % 2 * slot_]", "scores_[0]"),
    "slot of the vectors": (VECTOR, "slot_begin_ = index % 2 * slot_", "slot_begin_ = 0"),
    "slot of the probabilities": (CUBE, "2 * (index % 2 * slot_)", "index % 2 * slot_"),
    "workspace of a block": (TILING, "return 2 * slot * 4;", "return slot * 4;"),
    # The cube.
    "queries in L1": (CUBE, "    queries_.BeginUse();\n", ""),
    "keys in L1": (CUBE, "      keys_.BeginUse();\n      for", "      for"),
    "keys freed": (CUBE, "      }\n      keys_.EndUse();\n", "      }\n"),
    "probabilities in L1": (CUBE, "        blocks_.BeginUse();\n", ""),
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
    "single row comes twice": (
        PRODUCT,
        "  // As in CopyRows.\n  if (rows % 16 == 1) {",
        "  if (rows < 0) {",
    ),
    "matrices of queries": (PRODUCT, "static_cast<uint16_t>(group * kC0)", "uint16_t{16 * kC0}"),
    "result complete": (
        PRODUCT,
        "    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(result_);\n"
        "    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(result_);\n"
        "  }\n  template <typename O>\n  __aicore__ inline void StoreRows",
        "  }\n  template <typename O>\n  __aicore__ inline void StoreRows",
    ),
    # The softmax.
    "behind the last key, scores": (VECTOR, "    FillTail(x, -Infinity(), g);\n", ""),
    "behind the last key, NaN": (VECTOR, "    FillTail(x, 0.0f, g);\n", ""),
    "masks of the first sweep": (VECTOR, "    Hide(x, piece, g, -Infinity());\n", ""),
    "masks of the second sweep": (VECTOR, "    Hide(x, piece, g, 0.0f);\n", ""),
    "hidden probabilities": (VECTOR, "Hide(x, piece, g, 0.0f)", "Hide(x, piece, g, 1.0f)"),
    "query of a mask": (VECTOR, "(row + i) / group_ - first)", "0)"),
    "mask row": (VECTOR, "mask_[first * t_->mask_row", "mask_[row * t_->mask_row"),
    "row of a query": (MASK, "(row + i) / heads", "row / heads"),
    "last row of a group": (MASK, "High(row / heads) <", "High((row + g.rows - 1) / heads) <"),
    "empty rows": (VECTOR, "    MarkEmptyRows(sums, ", "    if (rows < 0) MarkEmptyRows(sums, "),
    "statistics start": (VECTOR, "    if (piece.key == 0) StartRows(at);\n", ""),
    "statistics of every key": (
        VECTOR,
        "if (piece.key + step_keys_ >= keys_) FinishRows",
        "if (piece.key == 0) FinishRows",
    ),
    "statistics of a query": (
        VECTOR,
        "HeadOffset(query + (row + done) / group_, head)",
        "HeadOffset(query, head)",
    ),
    "earlier sums count less": (
        SOFTMAX,
        "  AscendC::Mul(sum, sum, factors, rows);\n  AscendC::PipeBarrier<PIPE_V>();\n",
        "",
    ),
    "barrier after exp": (
        SOFTMAX,
        "  AscendC::Exp(x, x, g.floats());\n  AscendC::PipeBarrier<PIPE_V>();\n",
        "  AscendC::Exp(x, x, g.floats());\n",
    ),
    "rows of the second sweep": (
        VECTOR,
        "piece.row * kBlockFloats);\n    const bool last_row",
        "0);\n    const bool last_row",
    ),
    "probabilities stored": (VECTOR, "2 * ScoreOffset(piece)", "ScoreOffset(piece)"),
    "half of the queries": (VECTOR, "begin_ = core_ == 0 ? 0 : half", "begin_ = 0"),
    # Importance.
    "weights": (IMPORTANCE, "Min(tap + 1, taps - tap)", "Min(tap + 1, taps)"),
    "last key of a block": (IMPORTANCE, "(t_->overlap != 0 ? 1 : 0) -", "1 -"),
    "blocks that are complete": (IMPORTANCE, "(end - (t_->overlap != 0 ? 0 : 1))", "end"),
    "end of the window before": (IMPORTANCE, "      Keep(row, keys);\n", ""),
    "window cleared": (
        IMPORTANCE,
        "      AscendC::Duplicate(row[static_cast<uint32_t>(before_)], 0.0f, keys);\n",
        "",
    ),
    "probabilities cleared": (
        IMPORTANCE,
        "    AscendC::Duplicate(probabilities_, 0.0f, "
        "static_cast<int32_t>(t_->queries) * row_pitch_);\n",
        "",
    ),
    "places of queries": (IMPORTANCE, "query * row_pitch_ * 4,", "query * window * 4,"),
    "heads added up": (IMPORTANCE, "(1, 1, 1, 0, g.pitch(), 0)", "(1, 1, 1, 8, g.pitch(), 0)"),
    "key of the window": (VECTOR, "piece.key % t_->ranking.Keys()", "0 * piece.key"),
    # The blocks.
    "a NaN ranks last": (
        TOPK,
        "scores_, bits_, scores_, kLowest",
        "scores_, bits_, scores_, -kLowest",
    ),
    "candidates": (VECTOR, "return OwnBlock(query) + 1;", "return OwnBlock(query) + 2;"),
    "blocks of a segment": (VECTOR, "(t.overlap != 0 ? t.overlap_keys - 1 : 0)", "0"),
    "excluded": (
        TOPK,
        "-Infinity(), Max(begin, 0), t_->window);",
        "-Infinity(), Max(begin + 1, 0), t_->window);",
    ),
    "index of what is excluded": (
        TOPK,
        "int32_t{-1}, Max(begin, 0)",
        "int32_t{-1}, Max(begin + 1, 0)",
    ),
    "local blocks": (VECTOR, "own - t.local + 1, own + 1", "own - t.local, own + 1"),
    "own block": (VECTOR, "own - t.local + 1, own + 1", "own - t.local + 1, own"),
    "initial blocks": (VECTOR, "t.init - blocks.first)", "t.init + 1 - blocks.first)"),
    "mask of forced blocks": (VECTOR, "t_->ranking.mask_row + first", "t_->ranking.mask_row"),
    "empty list": (TOPK, "int32_t{-1}, indices, repeats", "int32_t{0}, indices, repeats"),
    "list of the windows before": (TOPK, "    part[0] = better;\n", "    part[0] = to;\n"),
    "length of the list": (TOPK, "lengths[0] = static_cast<uint16_t>(t_->count)", "lengths[0] = 1"),
    "last list": (TOPK, "return list + 1 == count ? last_length : length;", "return length;"),
    "lists of a group": (
        TOPK,
        "const int32_t first = i * kMergeLists;",
        "const int32_t first = i;",
    ),
    "index of a window": (TOPK, "static_cast<int32_t>(first_block), count", "0, count"),
    "barrier before the sort": (
        TOPK,
        "  __aicore__ inline void Sort() {\n" + BARRIER,
        "  __aicore__ inline void Sort() {\n",
    ),
    "ties": (
        TOPK,
        "MrgSortSrcList<float>(part[0], part[1]",
        "MrgSortSrcList<float>(part[1], part[0]",
    ),
    "tokens of the indices": (VECTOR, "indices_[Token(query) * pitch", "indices_[Token(0) * pitch"),
}

# Those that change nothing, and why.
HARMLESS = {}

SEEDS = (*range(0, 60), 64, 69, 74, 79, 84, 89)


def checks(dtype):
    """What finds them."""
    found = random_checks(make_case, SEEDS, dtype)
    if dtype == "bfloat16":
        found["two panels"] = partial(tests.test_long_head_dimensions, d=208, dv=144, n1=3, n2=1)
        return found
    return {
        **found,
        "nothing seen": tests.test_queries_that_see_nothing,
        "later tokens": tests.test_later_tokens_change_nothing,
        "NaN": partial(tests.test_a_nan_reaches_what_sees_it, dtype=dtype),
        "NaN and hidden blocks": tests.test_a_nan_leaves_hidden_blocks_alone,
        "between blocks": partial(tests.test_keys_between_blocks, importance="cann"),
        "between blocks, overlap": partial(tests.test_keys_between_blocks, importance="overlap"),
        "many keys": tests.test_more_keys_than_cann_takes,
        "bytes": tests.test_bytes_and_products,
    }
