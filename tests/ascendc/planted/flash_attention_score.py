"""Faults planted in copies of FlashAttentionScore's kernel, and of what attention kernels share."""

from functools import partial

from .. import test_flash_attention_score as tests
from .. import test_flash_attention_score_design as design
from ..attention_cases import flash_parity, make_flash_case
from .judge import parity_checks, random_checks

KERNEL = "ascendc/flash_attention_score/op_kernel/flash_attention_score"
ENTRY, CUBE, VECTOR = KERNEL + ".cpp", KERNEL + "_cube.h", KERNEL + "_vector.h"
TILING = KERNEL + "_tiling.h"
SIZES, HANDOVER = "ascendc/attention/attention_sizes.h", "ascendc/attention/handover.h"
PRODUCT, BUFFERS = "ascendc/attention/tile_product.h", "ascendc/attention/pass_buffers.h"
ROWS, MASK = "ascendc/attention/pass_rows.h", "ascendc/attention/row_mask.h"
STORE = "ascendc/attention/row_store.h"
KEYS, WORK = "ascendc/attention/visible_keys.h", "ascendc/attention/work_items.h"
BIAS = "ascendc/attention/score_bias.h"

# name: (file, what is replaced, by what[, data type])
FAULTS = {
    # Flags and slots between the cores.
    "probabilities awaited": (CUBE, "if (block == 0) Await", "if (false) Await"),
    "probabilities awaited once": (CUBE, "if (block == 0) Await", "Await"),
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
    "ids of the output": (HANDOVER, "kPartialOutput = 2 * kSlots", "kPartialOutput = 0"),
    "an id for each slot": (HANDOVER, "step % kSlots));\n}\ntemplate", "0));\n}\ntemplate"),
    "handed over by FIX": (HANDOVER, "from_vectors ? PIPE_MTE3 : PIPE_FIX", "PIPE_MTE3"),
    "slots": (SIZES, "kSlots = kStepsAhead + 1", "kSlots = kStepsAhead"),
    "slot of the scores": (
        CUBE,
        "scores_[step.index % kSlots * t_->work.tile_rows * kStepKeys]",
        "scores_[0]",
    ),
    "slot of the probabilities": (
        VECTOR,
        "Store(scores, slot + (share.begin",
        "Store(scores, (share.begin",
    ),
    "slot of the output": (
        CUBE,
        "output_[slot * t_->work.tile_rows * value_columns_]",
        "output_[0]",
    ),
    "place of the probabilities": (
        TILING,
        "probabilities_begin(kSlots * scores)",
        "probabilities_begin(scores)",
    ),
    "workspace of a block": (
        TILING,
        "(kSlots * (scores + probabilities + output) + 511)",
        "(kSlots * (scores + probabilities) + 511)",
    ),
    # The cube.
    "queries freed": (CUBE, "if (step.last) queries_.EndUse();", "queries_.EndUse();"),
    "place of the keys in L1": (
        CUBE,
        "keys_.Start(l1[2 * kQuerySlotBytes",
        "keys_.Start(l1[kQuerySlotBytes",
    ),
    "columns of the scores": (CUBE, "scores[block + keys.row]", "scores[block]"),
    "keys of a block": (CUBE, "key_[at + block * t_->key.row]", "key_[at]"),
    "values of a block": (
        CUBE,
        "step) + block * t_->value.row]",
        "step)]",
    ),
    "probabilities of a block": (
        CUBE,
        "probabilities[block], kStepKeys",
        "probabilities, kStepKeys",
    ),
    "head of the keys": (CUBE, "item.head / t_->work.group * s.head", "item.head * s.head"),
    "segment of the keys": (CUBE, "(item.key_start + step.key) * s.row", "step.key * s.row"),
    "keys of the last block": (
        CUBE,
        "value_columns_, rows);",
        "value_columns_, tiles_.value_rows);",
    ),
    "accumulate or replace": (
        PRODUCT,
        "params.cmatrixInitVal = empty_[result_];",
        "params.cmatrixInitVal = true;",
    ),
    "order of small products": (
        PRODUCT,
        "    if (params.m / 16 * (params.n / 16) < kOrderedFractals) "
        "AscendC::PipeBarrier<PIPE_M>();\n",
        "",
    ),
    "a single row": (
        PRODUCT,
        "params.m = static_cast<uint16_t>(Max(m, 2));",
        "params.m = static_cast<uint16_t>(m);",
    ),
    "a single row comes twice": (PRODUCT, "  if (rows % 16 == 1) copy_row(rows - 1, rows);\n", ""),
    "depth of L0": (
        PRODUCT,
        "static_cast<int32_t>(kL0SlotBytes / sizeof(T)) / widest",
        "static_cast<int32_t>(kL0Bytes / sizeof(T)) / widest",
    ),
    # Rows of the vector cores.
    "rows of the second core": (SIZES, "begin(core == 0 ? 0 : First(all))", "begin(0)"),
    "statistics start": (VECTOR, "    if (step.first) StartRows(step, share);\n", ""),
    "a sink counts once": (VECTOR, "t_->sink != 0 ? 1.0f : 0.0f", "0.0f"),
    "sink of a head": (VECTOR, "static_cast<uint64_t>(step.item.head)", "0"),
    "slot of the maxima": (VECTOR, "step.tile % kSlots * 2 * half_rows_", "0 * half_rows_"),
    "slot of the factors": (VECTOR, "(2 * kSlots + step.index % kSlots)", "(2 * kSlots)"),
    "first output replaces": (
        VECTOR,
        "    if (step.first) {\n      AscendC::Adds(output",
        "    if (step.last) {\n      AscendC::Adds(output",
    ),
    "empty rows": (VECTOR, "    MarkEmptyRows(sums, ", "    if (rows < 0) MarkEmptyRows(sums, "),
    "share that dropout keeps": (
        VECTOR,
        "if (t_->bias.inv_keep != 1.0f) {",
        "if (t_->bias.inv_keep > 4.0f) {",
    ),
    "pitch of the output": (
        VECTOR,
        "t_->output.row, result, rows,",
        "t_->value_dim, result, rows,",
    ),
    "pitch of the statistics": (
        VECTOR,
        "CopyStatisticsOut(sum_out_[statistics], t_->statistics.row",
        "CopyStatisticsOut(sum_out_[statistics], kBlockFloats",
    ),
    "pitch of the probabilities": (
        VECTOR,
        "static_cast<uint16_t>(kStepKeys / kPerBlock - blocks)",
        "static_cast<uint16_t>(kStepKeys / kPerBlock)",
    ),
    "NaN kept": (ENTRY, "  const nsa::ascend::KeepNan keep_nan;\n", ""),
    # Vector instructions.
    "last fold": (
        ROWS,
        "for (int32_t at = 2 * kRepeatFloats; at < g.width;",
        "for (int32_t at = 2 * kRepeatFloats; at + kRepeatFloats < g.width;",
    ),
    "lanes behind the last key": (ROWS, "<< (g.keys - begin), 0", "<< (g.keys - begin + 1), 0"),
    "gap of rows": (ROWS, "(pitch - columns) * kBytes : 0", "pitch * kBytes : 0"),
    "rows divided": (
        STORE,
        "BinaryRepeatParams(1, 1, 0, pitch, pitch, 1)",
        "BinaryRepeatParams(1, 1, 0, pitch, pitch, 0)",
    ),
    # Masks.
    "mask of the last key": (MASK, "< key + g.keys;", "< key + g.keys - 1;"),
    "mask of the first key": (MASK, "g.rows - 1) > key;", "g.rows - 1) > key + 1;"),
    "first masked column": (
        MASK,
        "lower ? 0 : Max(visible.High(row) - key, 0)",
        "lower ? 0 : Max(visible.High(row) - key + 64, 0)",
    ),
    "last masked column": (MASK, "upper ? g.width : RoundUp(", "upper ? g.width : RoundDown("),
    "both bounds": (MASK, "    if (upper && lower) {", "    if (false) {"),
    "bounds that are a ramp": (MASK, "first == rows - 1) {", "first >= 0) {"),
    "start of a ramp": (
        MASK,
        "columns_, static_cast<float>(first), count",
        "columns_, 0.0f, count",
    ),
    "end of a run": (MASK, "end < rows && bound(end) == here;)", "end < rows;)"),
    "rows of a run": (MASK, "(end - row) * kBlockFloats);", "kBlockFloats);"),
    "place of the starts": (
        MASK,
        "blocks_[static_cast<uint32_t>(rows_ * kBlockFloats)];",
        "blocks_[0];",
    ),
    "bits of 64 columns": (MASK, "RoundUp(g.rows, 4)) * 8", "g.rows) * 8"),
    "end of the band": (KEYS, "Max(i + ahead + 1, prefix)", "Max(i + ahead, prefix)"),
    "start of the band": (KEYS, "Min(Max(i - back, 0), keys)", "Min(Max(i - back + 1, 0), keys)"),
    "diagonal from the right": (
        KEYS,
        "visible.ahead = band.ahead + shift",
        "visible.ahead = band.ahead",
    ),
    "keys of a tile": (
        KEYS,
        "high = visible.High(row + rows - 1)",
        "high = visible.High(row + rows - 2)",
    ),
    "rows of the last tile": (
        WORK,
        "static_cast<int32_t>(Min(work_->tile_rows, rows_ - item_.row))",
        "static_cast<int32_t>(work_->tile_rows)",
    ),
    "prefix of a segment": (WORK, "prefix_.GetValue(segment)", "prefix_.GetValue(0)"),
    "band of a segment": (WORK, "segment == mask_->band_segment ?", "segment < 0 ?"),
    # Biases.
    "bias before the scale": (
        BIAS,
        "      if (t_->pse_before_scale != 0) AddBias(inputs, bias, g);\n      ScaleRows",
        "      ScaleRows",
    ),
    "pitch of a packed bias": (
        BIAS,
        "? item.visible.keys : t_->pse_row;",
        "? t_->pse_row : t_->pse_row;",
    ),
    "packed biases before": (
        BIAS,
        "return item.scores_before * heads_ + (item.head * queries",
        "return (item.head * queries",
    ),
    "rows of a short bias": (BIAS, "+ skipped + within - row;", "+ within - row;"),
    "row of the slopes": (BIAS, "shift - row - i)", "shift - row)"),
    "start of an entry's queries": (BIAS, "shift -= q_starts_.GetValue(entry);", ";"),
    "entry of a start": (
        BIAS,
        "shift += kv_starts_.GetValue(entry);",
        "shift += kv_starts_.GetValue(0);",
    ),
    "head of a mask": (
        BIAS,
        "item.segment * t_->mask_batch + item.head * t_->mask_head",
        "item.segment * t_->mask_batch",
    ),
    "zeros behind a mask": (
        BIAS,
        "    if (g.keys < g.width || g.floats() % (2 * kRepeatFloats) != 0)\n      Clear(to",
        "    if (false)\n      Clear(to",
    ),
    "bits inside a byte": (BIAS, "if (shift == 0) continue;", "if (shift < 8) continue;"),
    "bits of the next byte": (
        BIAS,
        "if (bit % 8 == 0 || bytes <= 2) continue;",
        "if (bit % 8 < 2 || bytes <= 2) continue;",
    ),
    "bits of a row": (
        BIAS,
        "(item.head * item.queries + row) * keys + key;",
        "item.head * item.queries * keys + key;",
    ),
    # Buffers.
    "buffer of the statistics": (
        TILING,
        "statistics(Bytes(3 * kSlots",
        "statistics(Bytes(2 * kSlots",
    ),
    "buffer of the folds": (
        TILING,
        "folded(Bytes(pass_rows * (kRepeatFloats + kBlockFloats), 4))",
        "folded(Bytes(pass_rows * kRepeatFloats, 4))",
    ),
    "buffer of a part": (
        TILING,
        "part(Bytes(PartRows(value_dim) * RoundUp(value_dim, 16), 4))",
        "part(Bytes(PartRows(value_dim) * RoundUp(value_dim, 16), 2))",
    ),
    "buffer of the mask": (
        BUFFERS,
        "         2 * static_cast<uint32_t>(rows)",
        "         static_cast<uint32_t>(rows)",
    ),
    "buffer of the dropout": (
        BUFFERS,
        "2 * most_rows * kBitRowBytes)",
        "most_rows * kBitRowBytes)",
    ),
}

# Faults that change nothing, and why.
HARMLESS = {
    "ids of the output": "an id's sets and waits come in the same order on both sides",
}

SEEDS = (*range(0, 120), 124)


def checks(dtype):
    """Checks that find the faults."""
    found = {
        **random_checks(make_flash_case, SEEDS, dtype),
        **parity_checks(flash_parity(), dtype),
        "NaN": partial(tests.test_a_nan_reaches_what_sees_it, dtype=dtype),
    }
    if dtype == "float16":
        found["bands"] = tests.test_bands_that_begin_anywhere
        found["nothing seen"] = tests.test_rows_that_see_nothing
        found["bytes"] = partial(design.test_bytes_of_a_full_attention, s1=128, s2=512)
    return found
