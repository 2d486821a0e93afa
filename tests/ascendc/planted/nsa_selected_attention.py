"""Faults planted in copies of NsaSelectedAttention's kernel, and of what selections share."""

from functools import partial

from .. import test_nsa_selected_attention as tests
from ..selected_cases import make_selected_case
from .judge import random_checks

KERNEL = "ascendc/nsa_selected_attention/op_kernel/nsa_selected_attention"
ENTRY, CUBE, VECTOR = KERNEL + ".cpp", KERNEL + "_cube.h", KERNEL + "_vector.h"
TILING = KERNEL + "_tiling.h"
TILE, ROWS = "ascendc/attention/selected_tile.h", "ascendc/attention/selected_rows.h"
LISTS, SORT = "ascendc/attention/selection.h", "ascendc/attention/selection_sort.h"
SIZES, PRODUCT = "ascendc/attention/selection_sizes.h", "ascendc/attention/tile_product.h"
TILES = "ascendc/attention/attention_sizes.h"

# name: (file, what is replaced, by what[, data type])
FAULTS = {
    # Flags and slots between the cores.
    "everybody's lists": (
        ENTRY,
        "    kernel.Prepare();\n    AscendC::SyncAll<false>();\n",
        "    AscendC::SyncAll<false>();\n    kernel.Prepare();\n",
    ),
    "both vector cores hand over": (
        VECTOR,
        "    HandOver<Handover::kProbabilities>(tile);",
        "    if (core_ == 0) HandOver<Handover::kProbabilities>(tile);",
    ),
    "a core without rows hands over": (
        VECTOR,
        "    HandOver<Handover::kProbabilities>(tile);",
        "    if (share.rows > 0) HandOver<Handover::kProbabilities>(tile);",
    ),
    "slot of the scores": (CUBE, "scores_[i % kSlots * slot_scores_]", "scores_[0]"),
    "slot of the output": (CUBE, "output_[tile % kSlots * slot_output_]", "output_[0]"),
    "slot of the output, vectors": (
        VECTOR,
        "const int64_t slot = tile % kSlots * tile_rows_ * value_dim_;",
        "const int64_t slot = tile % 2 * tile_rows_ * value_dim_;",
    ),
    "lists in the workspace": (
        SIZES,
        "return (rows * kMostSelected * 4 + 511) / 512 * 512;",
        "return (rows * kMostSelected * 2 + 511) / 512 * 512;",
    ),
    "place of the probabilities": (
        TILING,
        "probabilities_begin(kSlots * scores)",
        "probabilities_begin(2 * scores)",
    ),
    "workspace of a block": (
        TILING,
        "(kSlots * (scores + probabilities + output) + 511)",
        "(kSlots * (scores + probabilities) + output + 511)",
    ),
    # The tile of the cube.
    "rows of a short stripe": (TILE, "Min(group, stripe_rows - row)", "Min(group, stripe_rows)"),
    "pitch of the queries": (
        TILE,
        "static_cast<uint16_t>(count > 1 ? pitch : 0),\n",
        "static_cast<uint16_t>(count > 1 ? group * columns : 0),\n",
    ),
    "keys of a block": (
        TILE,
        "const L1Matrix<T> block = CopyBlock(item, keys, rows);",
        "const L1Matrix<T> block = CopyBlock(item, keys, union_.keys[0]);",
    ),
    "place of the factors in L1": (
        TILE,
        "memory[(kStripesBytes + kBlockSlots * kBlockSlotBytes)",
        "memory[(kStripesBytes + kBlockSlotBytes)",
    ),
    "events of the factors": (
        TILE,
        "L1Ring<T, kFactorSlots, 4> factors_;",
        "L1Ring<T, kFactorSlots, 3> factors_;",
    ),
    "stripe mask": (TILE, "1u << union_.stripe[at + i]", "1u << (at + i)"),
    "stripes that see nothing": (TILE, "      if ((used >> i & 1) == 0) continue;\n", ""),
    "first product replaces": (
        TILE,
        "first[i] = union_.slot[at + i] == 0;",
        "first[i] = union_.slot[at + i] <= 1;",
    ),
    "place of a slot": (TILE, "+ slot * s_->block_size;", "+ slot * 16;"),
    "place of a stripe": (
        TILE,
        "int64_t{stripe} * group_ * s_->columns +",
        "int64_t{stripe} * stripe_rows_ * s_->columns +",
    ),
    "slots of other stripes": (
        TILE,
        "return scores[Place(union_.stripe[at + i], union_.slot[at + i])];",
        "return scores[Place(union_.stripe[at + i], union_.slot[at])];",
    ),
    "stripes of a product": (
        TILE,
        "return kTileRows / stripe_rows_;",
        "return kTileRows / group_;",
    ),
    "segment of a block": (
        TILE,
        "item.key_start + union_.block * s_->block_size;",
        "union_.block * s_->block_size;",
    ),
    "head of a block": (TILE, "from.At(token, item.head)", "from.At(token, 0)"),
    "a single row comes twice": (TILE, "      if (group_ == 1) copy(1);\n", ""),
    # Products of stripes.
    "rows of a stripe": (PRODUCT, "stripes[i] * rows, rows, at,", "i * rows, rows, at,"),
    "stripes of the result": (
        PRODUCT,
        "(i * rows * 16)], count * rows,",
        "(i * used_rows * 16)], count * rows,",
    ),
    "both halves of L0C": (
        PRODUCT,
        "for (int32_t slot = 0; slot < 2; ++slot) "
        "AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);",
        "AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(0);",
    ),
    "later depths add": (PRODUCT, "first[i] && at == 0;", "first[i];"),
    "sums complete": (
        PRODUCT,
        "    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(0);\n"
        "    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(0);\n",
        "",
    ),
    "place of a sum": (PRODUCT, "stripe * rows * RoundUp(n, 16))]", "stripe * rows * 16)]"),
    # Lists.
    "keys of the last block": (
        LISTS,
        "Min(size_, keys_ - int64_t{block_} * size_)",
        "Min(size_, keys_)",
    ),
    "a block behind the last one": (LISTS, "int64_t{size_} >= keys_)", "int64_t{size_} > keys_)"),
    "doubled blocks": (
        LISTS,
        "for (times_ = 0; next_ == block_ && at_ < count_; ++times_) next_ = At(++at_);",
        "times_ = 1, next_ = At(++at_);",
    ),
    "entries of a list": (
        LISTS,
        "if (place >= count_) return kNoBlock;",
        "if (place + 1 >= count_) return kNoBlock;",
    ),
    "entry of a pair": (
        LISTS,
        "place % 2 == 0 ? pair_ & kLowHalf : pair_ >> 32",
        "place % 2 == 0 ? pair_ >> 32 : pair_ & kLowHalf",
    ),
    "entry of a pair of the union": (
        LISTS,
        "at_++ % 2 == 0 ? pair_ & kLowHalf : pair_ >> 32",
        "at_++ % 2 == 0 ? pair_ >> 32 : pair_ & kLowHalf",
    ),
    "union of a head": (LISTS, "item.head * item.rows;", "item.head;"),
    "end of a union": (LISTS, "end_ = item.rows * kMostSelected;", "end_ = kMostSelected;"),
    "keys of a query": (LISTS, "High(item.row + i);", "High(item.row);"),
    "queries of a block": (LISTS, "(queries >> i & 1) == 0 || key", "key"),
    "queries that do not see a block": (LISTS, " || key >= ends_[i]) continue;", ") continue;"),
    "slots of a query": (LISTS, "slot[chosen] = slots_[i]++;", "slot[chosen] = slots_[i];"),
    "keys of a tile": (LISTS, "last_ = ends_[item.rows - 1];", "last_ = ends_[0];"),
    "lists of a core": (
        SORT,
        "tile % AscendC::GetTaskRation() ==",
        "tile % 3 ==",
    ),
    "indices of a head": (SORT, "static_cast<uint32_t>((s_->heads - 1) * count_ * 4)", "0"),
    "lists of a head": (SORT, "(s_->heads - 1) * kListBlocks)", "0)"),
    "lists that are merged": (SORT, "item.rows <= 4 ? 4 : kMostStripes", "4"),
    "lists of every merge": (SORT, "lists * kMostSelected / (length * kMergeLists)", "1"),
    "queries of the pairs": (SORT, "kOddOnes = 2;", "kOddOnes = 1;"),
    "blocks behind all others": (
        SORT,
        "    AscendC::Mins(raw_, raw_, kNoUnionBlock, count);\n"
        "    AscendC::PipeBarrier<PIPE_V>();\n",
        "",
    ),
    "first block": (SORT, "AscendC::CMPMODE::GE", "AscendC::CMPMODE::GT"),
    "pairs of lists": (
        SORT,
        "RoundUp(lists, 2) * kMostSelected;\n    Load",
        "lists * kMostSelected;\n    Load",
    ),
    "ascending": (
        SORT,
        "    AscendC::Muls(values_, values_, -1.0f, count);\n"
        "    AscendC::PipeBarrier<PIPE_V>();\n    AscendC::Sort32",
        "    AscendC::Sort32",
    ),
    "values of the pairs": (SORT, "kEvenOnes = 1;", "kEvenOnes = 2;"),
    # Rows of the vector cores.
    "columns of the last block": (
        ROWS,
        "blocks.slot() * static_cast<int32_t>(s_->block_size) + blocks.keys();",
        "(blocks.slot() + 1) * static_cast<int32_t>(s_->block_size);",
    ),
    "repeated blocks": (
        ROWS,
        "repeated_[query] |= blocks.times() > 1;",
        "repeated_[query] = blocks.times() > 1;",
    ),
    "first lane behind": (ROWS, "<< (column - begin), 0", "<< (column - begin + 1), 0"),
    "columns behind": (
        ROWS,
        "for (int32_t at = whole; at < g.width;",
        "for (int32_t at = whole; at + kRepeatFloats < g.width;",
    ),
    "repeated block in two parts": (
        ROWS,
        "static_cast<int32_t>(Max(0, slot));",
        "static_cast<int32_t>(Max(0, slot + 1));",
    ),
    "end of a repeated block": (
        ROWS,
        "Min(slot + blocks.keys(), p.columns)",
        "Min(slot + s_->block_size, p.columns)",
    ),
    "columns of a part": (
        ROWS,
        "(p.begin + row) * s_->columns + p.column]",
        "(p.begin + row) * s_->columns]",
    ),
    "rows of the second core": (TILES, "begin(core == 0 ? 0 : First(all))", "begin(0)"),
    "two sweeps": (VECTOR, "sweep->maxima = columns > kSweepColumns;", "sweep->maxima = false;"),
    "maxima of the first sweep": (VECTOR, "if (sweep.maxima || whole) {", "if (whole) {"),
    "next columns": (
        VECTOR,
        "    sweep->column += p.columns;\n",
        "    sweep->column += kSweepColumns / 2;\n",
    ),
    "slot of the maxima": (VECTOR, "tile % kSlots * 2 * half_rows_)", "0 * half_rows_)"),
    "slot of the sums": (VECTOR, "(tile % kSlots * 2 + 1) * half_rows_", "half_rows_"),
    "empty rows": (VECTOR, "    MarkEmptyRows(sums, ", "    if (rows < 0) MarkEmptyRows(sums, "),
    "head of a row": (VECTOR, "(share.begin + at + row) % group_;", "row % group_;"),
    "pitch of the probabilities": (
        VECTOR,
        "static_cast<uint16_t>(pitch / kPerBlock - blocks)",
        "static_cast<uint16_t>(pitch / kPerBlock)",
    ),
    "NaN kept": (ENTRY, "  const nsa::ascend::KeepNan keep_nan;\n", ""),
    # Buffers.
    "buffer of the scores": (
        TILING,
        "Max(kSortBytes, pass_rows * Min(columns, kSweepColumns) * 4)",
        "Max(kSortBytes, pass_rows * Min(columns, kSweepColumns) * 2)",
    ),
    "buffer of the statistics": (
        TILING,
        "statistics(Bytes(2 * kSlots *",
        "statistics(Bytes(2 * kStepsAhead *",
    ),
    "buffer of a part": (
        TILING,
        "part(Bytes(PartRows(value_dim) * value_dim, 4))",
        "part(Bytes(PartRows(value_dim) * value_dim, 2))",
    ),
    "scratch of the lists": (
        SIZES,
        "kMostStripes * kMostSelected * (4 + 4 + 2 * 8 + 4)",
        "kMostStripes * kMostSelected * (4 + 4 + 8 + 4)",
    ),
}

# Faults that change nothing, and why.
HARMLESS = {
    "a single row comes twice": "what the second row gives is not stored",
    "a block behind the last one": "to the vector cores it is one of no columns",
    "end of a repeated block": "exponentials behind the last key are 0, however often they count",
}

# Few of the long ones.
SEEDS = [seed for seed in range(0, 60) if seed % 5 != 4 or seed in (4, 9, 44)]


def checks(dtype):
    """Checks that find the faults."""
    found = {
        **random_checks(make_selected_case, SEEDS, dtype),
        "nothing seen": tests.test_rows_that_see_nothing,
        "half a block": tests.test_queries_that_see_half_a_block,
        "others' blocks": tests.test_blocks_that_only_other_queries_of_the_tile_see,
        "other queries": tests.test_other_queries_and_segments_change_no_bit,
    }
    for name in ("query", "key", "value"):
        found[f"NaN in {name}"] = partial(
            tests.test_a_nan_reaches_what_sees_it, dtype=dtype, name=name
        )
    return found
