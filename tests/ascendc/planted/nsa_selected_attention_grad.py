"""Faults planted in copies of NsaSelectedAttentionGrad's kernel."""

from .. import test_nsa_selected_attention_grad as tests
from ..selected_cases import make_selected_grad_case
from .judge import random_checks

KERNEL = "ascendc/nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad"
ENTRY, CUBE, VECTOR = KERNEL + ".cpp", KERNEL + "_cube.h", KERNEL + "_vector.h"
TILING = KERNEL + "_tiling.h"
INVERSION, QUERIES = "ascendc/attention/block_inversion.h", "ascendc/attention/block_queries.h"
SIZES = "ascendc/attention/selection_sizes.h"
TILES = "ascendc/attention/attention_sizes.h"

# name: (file, what is replaced, by what[, data type])
FAULTS = {
    # All cores.
    "lists of all queries": (
        ENTRY,
        "    kernel.SortLists();\n    AscendC::SyncAll<false>();\n",
        "    AscendC::SyncAll<false>();\n    kernel.SortLists();\n",
    ),
    "counts of all blocks": (
        ENTRY,
        "    kernel.CountQueries();\n    AscendC::SyncAll<false>();\n",
        "    AscendC::SyncAll<false>();\n    kernel.CountQueries();\n",
    ),
    "lists of all blocks": (
        ENTRY,
        "    kernel.ListQueries();\n    AscendC::SyncAll<false>();\n",
        "    AscendC::SyncAll<false>();\n    kernel.ListQueries();\n",
    ),
    "barriers of the cube core": (ENTRY, "phase < 3;", "phase < 2;"),
    # Flags and slots between the cores.
    "sums of a block handed over": (
        CUBE,
        "    if (step.last) HandOver<Handover::kPartialOutput>",
        "    HandOver<Handover::kPartialOutput>",
    ),
    "sums of a block awaited": (
        VECTOR,
        "    if (!empty) Await<Handover::kPartialOutput>(step.tile_index);\n",
        "",
    ),
    "both vector cores hand over": (
        VECTOR,
        "    HandOver<Handover::kProbabilities>(step.index);",
        "    if (core_ == 0) HandOver<Handover::kProbabilities>(step.index);",
    ),
    "a core without rows hands over": (
        VECTOR,
        "    HandOver<Handover::kProbabilities>(step.index);",
        "    if (share.rows > 0) HandOver<Handover::kProbabilities>(step.index);",
    ),
    "slot of a step": (CUBE, "return step % kSlots * slot_scores_; }", "return 0 * step; }"),
    "slot of the queries' sums": (CUBE, "sums_[done % kSlots * slot_sums_]", "sums_[0]"),
    "slot of the blocks' sums": (CUBE, "sums_[step.tile_index % kSlots * slot_sums_]", "sums_[0]"),
    "room of Dvec": (
        TILING,
        "Round(t.query_tokens * t.query_heads * kBlockBytes)",
        "Round(t.query_tokens * t.query_heads * 4)",
    ),
    "room of the counts": (
        TILING,
        "Round(t.blocks.items * kBlockBytes)",
        "Round(t.blocks.items * 4)",
    ),
    "room of the blocks' lists": (
        TILING,
        "Round(t.selection.rows * t.selection.block_count * 4)",
        "Round(t.selection.rows * t.selection.block_count * 2)",
    ),
    "place of dS": (
        TILING,
        "score_grads_begin(kSlots * (2 * scores + probabilities))",
        "score_grads_begin(kSlots * 2 * scores)",
    ),
    "room of the sums": (
        TILING,
        "t.selection.block_size * (t.dim + t.value_dim))",
        "t.selection.block_size * t.dim)",
    ),
    # Which queries select a block.
    "first query of a block": (
        INVERSION,
        "int64_t row = visible.Low(item.row); row < item.queries;",
        "int64_t row = visible.Low(item.row) + 1; row < item.queries;",
    ),
    "queries found before": (INVERSION, "Store(to + found,", "Store(to,"),
    "first query of a scan": (INVERSION, "static_cast<int32_t>(row), here);", "0, here);"),
    "lists of all cores' blocks": (
        INVERSION,
        "      first += count;\n",
        "      if (mine) first += count;\n",
    ),
    "list behind the last one": (INVERSION, "    if (padded > rows) {", "    if (false) {"),
    "lists of a head": (INVERSION, "(s_->heads - 1) * kListBlocks), 0)", "0), 0)"),
    "list of an entry": (
        "ascendc/attention/selection.h",
        "kListShift = 5;\n  static_assert(1 << kListShift == kMostSelected);",
        "kListShift = 4;",
    ),
    "counts before": (
        QUERIES,
        "      first_ += count;\n",
        "      if (owner == block_) first_ += count;\n",
    ),
    "queries of the last step": (QUERIES, "Min(most_, tile_.count - at_)", "most_"),
    "queries of the steps before": (QUERIES, "tile_.first + at_;", "tile_.first;"),
    "scratch of the scan": (
        SIZES,
        "kScanRows * kMostSelected * (3 * 4)",
        "kScanRows * kMostSelected * (2 * 4)",
    ),
    # The cube's walk over blocks.
    "place of the factors in L1": (
        CUBE,
        "factors_.Start(l1[2 * (kBlockSlotBytes + kGatheredSlotBytes)",
        "factors_.Start(l1[2 * kBlockSlotBytes",
    ),
    "a single row comes twice": (CUBE, "    if (rows % 16 == 1) copy(", "    if (rows < 0) copy("),
    "head of the queries": (
        CUBE,
        "copy(i * group_, item.head * group_, group_);",
        "copy(i * group_, item.head, group_);",
    ),
    "segment of the queries": (CUBE, "          item.query_start + queries_", "          queries_"),
    "queries of a part": (CUBE, "step.first_query + at + i)", "step.first_query + i)"),
    "scores of a part": (
        CUBE,
        "to[int64_t{at} * group_ * kMostBlockKeys], kMostBlockKeys,",
        "to[int64_t{at} * kMostBlockKeys], kMostBlockKeys,",
    ),
    "keys of the factors": (CUBE, "group_ * kMostBlockKeys + key],", "group_ * kMostBlockKeys],"),
    "keys of the sums": (CUBE, "to[int64_t{key} * from.columns];", "to;"),
    "rows of L0C": (TILING, "kL0cSlotFloats / dim / 16 * 16", "2 * kL0cSlotFloats / dim / 16 * 16"),
    "first step replaces": (
        CUBE,
        "      if (step.first) {\n        product_.Store(part",
        "      if (true) {\n        product_.Store(part",
    ),
    "later steps add": (
        CUBE,
        "      if (step.first) {\n        product_.Store(part",
        "      if (step.last) {\n        product_.Store(part",
    ),
    # Rows of the vector cores.
    "rows of the second core": (TILES, "begin(core == 0 ? 0 : First(all))", "begin(0)"),
    "gradient of the sum": (
        VECTOR,
        "    if (t_->sum_grad != 0) AddSumGrads(sums, row, g.rows);\n",
        "",
    ),
    "rows of the sum's gradient": (
        VECTOR,
        "sum_grad_[row * kBlockFloats], count);",
        "sum_grad_, count);",
    ),
    "rows of the sum": (
        VECTOR,
        "grads[kFloats], sum_[row * kBlockFloats], count);",
        "grads[kFloats], sum_, count);",
    ),
    "Dvec of the last rows": (
        VECTOR,
        "rows * (core + 1) / cores;",
        "rows * (core + 1) / cores - 1;",
    ),
    "rows of Dvec at a time": (
        VECTOR,
        "RoundDown(kSelectedGradFloats * 8 / (12 * width), kRowMultiple)",
        "RoundDown(kSelectedGradFloats * 8 / (4 * width), kRowMultiple)",
    ),
    "place of the statistics": (
        VECTOR,
        "2 * kSelectedGradFloats + row * kBlockFloats)",
        "2 * kSelectedGradFloats)",
    ),
    "sums of the rows": (
        VECTOR,
        "AscendC::DataCopy(to[kNext], sum_[from",
        "AscendC::DataCopy(to[kNext], max_[from",
    ),
    "heads of a query's rows": (
        VECTOR,
        "item.row + query, (part.begin + row) % group_)",
        "item.row + query, row % group_)",
    ),
    "columns of dS": (
        VECTOR,
        "int64_t{part.begin} * pitch + part.column]",
        "int64_t{part.begin} * pitch]",
    ),
    "scale of dQ": (
        VECTOR,
        "Rounded(part, t_->scale, rows * dim_)",
        "Rounded(part, 1.0f, rows * dim_)",
    ),
    "scale of dV": (VECTOR, "value_dim_, 1.0f);", "value_dim_, t_->scale);"),
    "keys before the block": (
        VECTOR,
        "High(QueryOf(step, query)) - item.row));",
        "High(QueryOf(step, query))));",
    ),
    "S of hidden keys": (
        VECTOR,
        "    ScaleAndFill(inputs, t_->scale, -Infinity(), group_",
        "    ScaleAndFill(inputs, t_->scale, 0.0f, group_",
    ),
    "rows of a part": (
        VECTOR,
        "const int32_t next = at + kSelectedGradMostRows;",
        "const int32_t next = at + kSelectedGradRows;",
    ),
    "place of dV's sum": (
        VECTOR,
        "sums + t_->selection.block_size * dim_,",
        "sums + item.rows * dim_,",
    ),
    "inputs freed": (
        VECTOR,
        "    Gradients(inputs, g);\n    auto outputs",
        "    Gradients(inputs, g);\n    if (g.rows < 2) return;\n    auto outputs",
    ),
    "NaN kept": (ENTRY, "  const nsa::ascend::KeepNan keep_nan;\n", ""),
    # Buffers.
    "buffer of a part's inputs": (
        TILING,
        "kSelectedGradFloats * 8 + 3 * kSelectedGradMostRows * kBlockBytes",
        "kSelectedGradFloats * 8 + 2 * kSelectedGradMostRows * kBlockBytes",
    ),
    "buffer of dS and P": (
        TILING,
        "outputs(kSelectedGradFloats * 2 * 2)",
        "outputs(kSelectedGradFloats * 2)",
    ),
    "buffer of a gradient": (
        TILING,
        "part(static_cast<uint32_t>(PartRows(dim) * dim * 4))",
        "part(static_cast<uint32_t>(PartRows(dim) * dim * 2))",
    ),
}

# Faults that change nothing, and why.
HARMLESS = {
    "buffer of a part's inputs": "the scan of the lists asks for more room",
    "a single row comes twice": "what the second row gives is not stored",
}

# Few of the long ones.
SEEDS = [seed for seed in range(0, 36) if seed % 5 != 4 or seed in (4, 9)]


def checks(dtype):
    """Checks that find the faults."""
    return {
        **random_checks(make_selected_grad_case, SEEDS, dtype),
        "one block": tests.test_every_query_selects_one_block,
        "two parts": tests.test_rows_in_two_parts,
        "NaN": tests.test_a_nan_of_a_query_reaches_what_it_selects,
    }
