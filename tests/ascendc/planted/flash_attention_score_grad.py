"""Faults planted in copies of FlashAttentionScoreGrad's kernel, and of what gradients share."""

from functools import partial

from .. import test_flash_attention_score_grad as tests
from ..attention_cases import flash_parity, make_grad_case
from .judge import parity_checks, random_checks

KERNEL = "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad"
ENTRY, CUBE, VECTOR = KERNEL + ".cpp", KERNEL + "_cube.h", KERNEL + "_vector.h"
TILING = KERNEL + "_tiling.h"
STEPS, ROWS = "ascendc/attention/grad_steps.h", "ascendc/attention/row_grads.h"
SINK, PRODUCT = "ascendc/attention/sink_grad.h", "ascendc/attention/tile_product.h"
KEYS, MACHINE = "ascendc/attention/visible_keys.h", "ascendc/attention/attention_sizes.h"
ITEMS = "ascendc/attention/work_items.h"
SHARED, PARTS = KERNEL + "_bias.h", KERNEL + "_parts.h"

# name: (file, what is replaced, by what[, data type])
FAULTS = {
    # Flags and slots between the cores.
    "everybody's Dvec": (
        ENTRY,
        "    kernel.Prepare();\n    AscendC::SyncAll<false>();\n",
        "    AscendC::SyncAll<false>();\n    kernel.Prepare();\n",
    ),
    "sums handed over": (
        CUBE,
        "    if (step.last) HandOver<Handover::kPartial",
        "    HandOver<Handover::kPartial",
    ),
    "sums awaited": (
        VECTOR,
        "    if (!step.empty()) Await<Handover::kPartialOutput>(step.tile);\n",
        "",
    ),
    "sums of an empty tile": (VECTOR, "    if (!step.empty()) Await<", "    Await<"),
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
    "slot of a step": (CUBE, "return step.index % kSlots * tile_rows_ * kStepKeys;", "return 0;"),
    "slot of the sums": (CUBE, "sums_[step.tile % kSlots * sums_floats_]", "sums_[0]"),
    "slot of the sums, vectors": (
        VECTOR,
        "const int64_t sums = step.tile % kSlots * sums_floats_;",
        "const int64_t sums = 0;",
    ),
    "slots": (MACHINE, "kSlots = kStepsAhead + 1", "kSlots = kStepsAhead"),
    "place of dS": (
        TILING,
        "score_grads_begin(kSlots * (2 * scores + probabilities))",
        "score_grads_begin(kSlots * 2 * scores)",
    ),
    "place of dP": (TILING, "product_grads_begin(kSlots * scores)", "product_grads_begin(scores)"),
    "room of the sums": (
        TILING,
        "sums(int64_t{tile_rows} * (RoundUp(dim, 16) + RoundUp(value_dim, 16)) * 4)",
        "sums(int64_t{tile_rows} * RoundUp(dim, 16) * 4)",
    ),
    "workspace of a block": (
        TILING,
        "pse_begin(sums_begin + kSlots * sums)",
        "pse_begin(sums_begin + sums)",
    ),
    "workspace of the statistics": (TILING, "RowBytes(3 * t.stat", "RowBytes(2 * t.stat"),
    # The cube.
    "place of the factors in L1": (
        CUBE,
        "blocks_.Start(l1[2 * (kQuerySlotBytes + kKeySlotBytes)",
        "blocks_.Start(l1[2 * (kQuerySlotBytes)",
    ),
    "values of the tile": (
        CUBE,
        "step.by_keys ? Values(step) : OutputGrads(step), 0",
        "step.by_keys ? Keys(step) : OutputGrads(step), 0",
    ),
    "rows of the keys' scores": (
        CUBE,
        "to[at * pitch], pitch, here, step.keys)",
        "to[at], pitch, here, step.keys)",
    ),
    "columns of the queries' scores": (
        CUBE,
        "product_.Store(to[at], pitch, step.rows, here);",
        "product_.Store(to[block], pitch, step.rows, here);",
    ),
    "pitch of the keys' scores": (
        VECTOR,
        "return step.by_keys ? tile_rows_ : kStepKeys;",
        "return kStepKeys;",
    ),
    "head of the values": (
        CUBE,
        "step.item.head / t_->queries.group, value_dim_);",
        "step.item.head, value_dim_);",
    ),
    "pitch of dO": (
        CUBE,
        "SourceOf(output_grad_, t_->output,",
        "SourceOf(output_grad_, t_->query,",
    ),
    "segment of the queries": (
        CUBE,
        "SourceOf(query_, t_->query, step, step.item.query_start + step.row",
        "SourceOf(query_, t_->query, step, step.row",
    ),
    "place of dV's sum": (
        CUBE,
        "sums[int64_t{tile_rows_} * RoundUp(dim_, 16)]",
        "sums[int64_t{tile_rows_} * dim_]",
    ),
    "rows of the factors": (
        CUBE,
        "{factors[block * pitch], pitch, m}",
        "{factors[block], pitch, m}",
    ),
    "columns of the factors": (CUBE, "{factors[block], pitch, rows}", "{factors, pitch, rows}"),
    "first step replaces": (
        CUBE,
        "    if (step.first) {\n      product_.Store(to, pitch",
        "    if (step.last) {\n      product_.Store(to, pitch",
    ),
    "later steps add": (
        CUBE,
        "      product_.AddTo(to, pitch, m, n);",
        "      product_.Store(to, pitch, m, n);",
    ),
    "place of the second half": (CUBE, "to[first], n, m, n - first)", "to, n, m, n - first)"),
    "sums in order": (
        PRODUCT,
        "    AscendC::PipeBarrier<PIPE_FIX>();\n    AscendC::SetAtomicAdd",
        "    AscendC::SetAtomicAdd",
    ),
    "depth of a transposed factor": (
        PRODUCT,
        "params.kDirectionAlign = sizeof(T) == 4 && form_a == Form::kTransposed;",
        "params.kDirectionAlign = false;",
        "float32",
    ),
    "rows of a transposed factor": (
        PRODUCT,
        "LoadWindow(to, a, at, RoundUp(k, 16), 0, RoundUp(m, 16), true);",
        "LoadWindow(to, a, 0, RoundUp(k, 16), 0, RoundUp(m, 16), true);",
    ),
    # The steps.
    "queries of a tile of keys": (
        KEYS,
        "Max(begin, visible.High(row + rows - 1))",
        "Max(begin, visible.High(row))",
    ),
    "first query of a tile of keys": (
        KEYS,
        "begin = visible.Low(row);",
        "begin = visible.Low(row + rows - 1);",
    ),
    "keys of the first step": (STEPS, "    if (first) return item_.rows;\n", ""),
    "keys of a later step": (STEPS, "High(row_ + rows - 1) - item_.row", "High(row_) - item_.row"),
    "heads of a group": (STEPS, "head_ + group_ : head_ + 1", "head_ + 1 : head_ + 1"),
    "first head of a group": (STEPS, "head_ = item_.head * group_;", "head_ = item_.head;"),
    "last step of a tile": (STEPS, "head_ends && head_ + 1 == head_end_,", "head_ends,"),
    "first query that sees a key": (KEYS, "Max(k - keys.ahead, 0)", "Max(k - keys.ahead + 1, 0)"),
    "last query that sees a key": (KEYS, "Max(k + keys.back + 1, 0)", "Max(k + keys.back, 0)"),
    "prefix of the queries": (KEYS, "k < keys.prefix ? 0 :", "k + 1 < keys.prefix ? 0 :"),
    "first query of a compressed key": (
        KEYS,
        "Max(first, end - keys.position)",
        "Max(first, end - keys.position + 1)",
    ),
    "last token of a compressed key": (
        KEYS,
        "last / compress_stride + 1)",
        "last / compress_stride)",
    ),
    # Parts of the heads of a tile of keys.
    "cube core at the end of the parts": (
        ENTRY,
        "    if (tiling_data.key_parts > 1) AscendC::SyncAll<false>();\n",
        "",
    ),
    "a tile's parts handed over": (CUBE, "      if (apart) return;\n", ""),
    "parts of a tile that nobody sees": (
        VECTOR,
        "!(step.empty() && key_parts_.Is",
        "!(key_parts_.Is",
    ),
    "a tile that nobody sees": (VECTOR, "      if (span.begin >= span.end) continue;\n", ""),
    "place of a part": (
        PARTS,
        "(head % parts * heads + head / parts) * keys",
        "head / parts * keys",
    ),
    "segment of a part": (PARTS, "* keys + start + row;", "* keys + row;"),
    "place of dV's parts": (PARTS, "begin + t_->key_parts * t_->key_rows * dim_ * 4", "begin"),
    "room of the parts": (
        TILING,
        "RowBytes(t.key_parts * t.key_rows *",
        "RowBytes(t.key_rows *",
    ),
    "last part": (PARTS, "part < parts; ++part", "part + 1 < parts; ++part"),
    "share of a part": (
        PARTS,
        "item.rows * (share + 1) / (2 * parts)",
        "item.rows * share / (2 * parts)",
    ),
    "rows of the parts in the UB": (PARTS, "room / (parts * padded)", "room / padded"),
    "rows of the result": (PARTS, "Min(most, room / (parts", "Min(64, room / (parts"),
    "factor of the parts": (
        PARTS,
        "AscendC::Muls(sums, sums, factor",
        "AscendC::Muls(sums, sums, 1.0f",
    ),
    "parts that fit": (TILING, "return 2 * kGradPassFloats / RoundUp(dim, 16);", "return 64;"),
    # Rows of the vector cores.
    "rows of the second core": (MACHINE, "begin(core == 0 ? 0 : First(all))", "begin(0)"),
    "data blocks of Dvec": (VECTOR, "/ 4], 3 * padded);", "/ 4], 2 * padded);"),
    "first of four numbers": (
        ROWS,
        "kFirstOfTwo = 1, kFirstOfFour = 3",
        "kFirstOfTwo = 1, kFirstOfFour = 1",
    ),
    "sum after the maximum": (
        VECTOR,
        "FirstOfBlocks(all[static_cast<uint32_t>(rows)], sum",
        "FirstOfBlocks(all, sum",
    ),
    "statistics of a share": (
        VECTOR,
        "at < all * (core + 1) / cores;",
        "at + 1 < all * (core + 1) / cores;",
    ),
    "head of the statistics": (VECTOR, "at / passes % work.heads;", "at / passes;"),
    "entry of the statistics": (
        VECTOR,
        "item.segment = at / passes / work.heads;",
        "item.segment = 0;",
    ),
    "pass of the statistics": (VECTOR, "row = at % passes * most;", "row = 0;"),
    "dO of Dvec": (
        VECTOR,
        "CopyRowsIn(raw[floats], output_grad_[at]",
        "CopyRowsIn(raw[floats], output_[at]",
    ),
    "rows of Dvec at a time": (
        VECTOR,
        "Min(kGradMostRows, kGradPassFloats / 2 / RoundUp(value_dim_, kRepeatFloats))",
        "Min(kGradMostRows, kGradPassFloats / RoundUp(value_dim_, kRepeatFloats))",
    ),
    "place of Dvec": (
        VECTOR,
        "max[static_cast<uint32_t>(2 * padded * kBlockFloats)]",
        "max[static_cast<uint32_t>(padded * kBlockFloats)]",
    ),
    "gradient of the sum": (VECTOR, "    if (t_->sum_grad != 0) {", "    if (false) {"),
    "place of the sum's gradient": (
        VECTOR,
        "sum_grad_[statistics], blocks);",
        "sum_grad_[statistics], AscendC::DataCopyParams(static_cast<uint16_t>(g.rows), 1, 0, 0));",
    ),
    "rows of the sum's gradient": (ROWS, "  if (rest > 0) {", "  if (false) {"),
    "sum times its gradient": (
        ROWS,
        "  AscendC::Mul(scratch, scratch, sums, rows);\n  AscendC::PipeBarrier<PIPE_V>();\n",
        "",
    ),
    "sum of a row that sees nothing": (
        ROWS,
        "  AscendC::Mins(scratch, scratch, kMost, rows);\n  AscendC::PipeBarrier<PIPE_V>();\n"
        "  AscendC::Maxs(scratch, scratch, -kMost, rows);\n  AscendC::PipeBarrier<PIPE_V>();\n",
        "",
    ),
    "share that dropout keeps": (
        VECTOR,
        "AscendC::Muls(x, x, t_->bias.inv_keep",
        "AscendC::Muls(x, x, 1.0f",
    ),
    "gradient of the bias, scaled": (
        VECTOR,
        "      if (t_->bias.pse_before_scale != 0) ScaleRows(dp",
        "      if (false) ScaleRows(dp",
    ),
    "place of the bias": (
        VECTOR,
        "bias_.PseOffset(step.item, row) + step.key]",
        "bias_.PseOffset(step.item, row)]",
    ),
    "scale of dV": (VECTOR, "value_dim_, 1.0f);", "value_dim_, t_->bias.scale);"),
    "scale of dK": (VECTOR, "t_->key.row, dim_, t_->bias.scale);", "t_->key.row, dim_, 1.0f);"),
    "gradients that are 0": (VECTOR, "      if (step.empty()) {", "      if (false) {"),
    "one buffer of inputs": (VECTOR, "t_->input_buffers > 1;", "true;"),
    "keys behind the last segment": (VECTOR, "    if (spare > 0) {", "    if (spare > 100) {"),
    "NaN kept": (ENTRY, "  const nsa::ascend::KeepNan keep_nan;\n", ""),
    # A bias that is shared.
    "sums of a head begin": (
        VECTOR,
        "over_queries && step.head_first) bias",
        "over_queries && step.first) bias",
    ),
    "sums of a head end": (VECTOR, "over_queries && step.head_last)", "over_queries && step.last)"),
    "copies cleared": (VECTOR, "t_->pse_copies * t_->pse_grad);", "t_->pse_grad);"),
    "copy of a vector core": (SHARED, "(2 * entry + core_) *", "2 * entry *"),
    "copy of an entry": (SHARED, "t_->pse_copies > 2 ? step.item.segment : 0;", "0;"),
    "all copies": (SHARED, "copy < t_->pse_copies; ++copy", "copy < 2; ++copy"),
    "rows of a sum": (SHARED, "(1, 1, 1, 0, g.pitch(), 0)", "(1, 1, 1, 0, 8, 0)"),
    "sum of a tile begins": (SHARED, "if (step.item.segment > 0) {", "if (t_ != nullptr) {"),
    "zeros of a sum": (
        SHARED,
        "    zeros.FreeTensor(ready);\n    AscendC::PipeBarrier<PIPE_MTE3>();\n",
        "    zeros.FreeTensor(ready);\n",
    ),
    "entries in order": (
        SHARED,
        "      AscendC::PipeBarrier<PIPE_MTE3>();\n      return;\n",
        "      return;\n",
    ),
    "half of a vector core": (SHARED, " + core_ * t_->pse_tile / 2", ""),
    "last entry": (
        SHARED,
        "step.item.segment + 1 < t_->queries.segments",
        "step.item.segment < t_->queries.segments",
    ),
    "rest of a row": (SHARED, "Min(floats, t_->queries.keys - key)", "floats"),
    "tile of a part": (SHARED, "row += most)", "row += most + 1)"),
    "entries of a tile": (ITEMS, "if (entry_ == 0) ++round_;", "++round_;"),
    # Sinks.
    "sink stored before the next": (SINK, "    Order<AscendC::HardEvent::MTE3_MTE2>();\n", ""),
    "sinks of a batch": (SINK, "b * strides.batch + row", "row"),
    "heads of sinks": (SINK, "head += cores)", "head += cores + 1)"),
    # Buffers.
    "room of dP": (
        TILING,
        "statistics(product_grad + kGradPassFloats * 4)",
        "statistics(product_grad + kGradPassFloats * 4 - kBlockBytes)",
    ),
    "room of the statistics": (
        TILING,
        "total(statistics + 2 * kGradMostRows * kBlockBytes)",
        "total(statistics)",
    ),
    "buffer of P and dS": (
        TILING,
        "outputs(static_cast<uint32_t>(2 * kGradPassFloats",
        "outputs(static_cast<uint32_t>(kGradPassFloats",
    ),
    "buffer of a part": (
        TILING,
        "part(static_cast<uint32_t>(PartRows(dim) * RoundUp(dim, 16) * 4))",
        "part(static_cast<uint32_t>(PartRows(dim) * RoundUp(dim, 16) * 2))",
    ),
}

# Faults that change nothing, and why.
HARMLESS = {
    "sums in order": "a Fixpipe that stores rows begins with the same barrier",
    "sink stored before the next": "what goes from MTE3 to V and from V to MTE2 implies the order",
    "zeros of a sum": "a buffer waits for the store before the last, and dS comes between",
    "entries in order": "likewise",
}

SEEDS = range(0, 100)


def checks(dtype):
    """Checks that find the faults."""
    found = {
        **random_checks(make_grad_case, SEEDS, dtype),
        **parity_checks(flash_parity("flash_grad"), dtype),
        "NaN": partial(tests.test_a_nan_of_a_query_reaches_what_it_sees, dtype=dtype),
    }
    if dtype == "float16":
        for n2, group, s1, s2, d, dv in ((1, 16, 140, 250, 192, 128), (1, 32, 5, 60, 512, 512)):
            found[f"{group} parts"] = partial(
                tests.test_parts_of_the_heads_of_a_tile_of_keys,
                **dict(dtype=dtype, layout="BSND", batch=1, n2=n2, group=group),
                **dict(s1=s1, s2=s2, d=d, dv=dv),
            )
        found["steps of tiles of keys"] = tests.test_steps_that_see_a_part_of_a_tile_of_keys
        found["more tiles of queries"] = tests.test_more_tiles_of_queries_than_of_keys
        found["prefixes"] = tests.test_prefixes_that_end_with_the_first_key_of_a_tile
        for rows, batch, heads, s1, s2 in (
            ("a matrix", 3, 1, 150, 2100),
            ("a row", 3, 1, 150, 2100),
            ("a row", 192, 2, 20, 24),
        ):
            found[f"bias of a batch of {batch}, {rows}"] = partial(
                tests.test_gradient_of_a_bias_of_a_whole_batch,
                **dict(rows=rows, dtype=dtype, batch=batch, heads=heads, s1=s1, s2=s2, d=16),
                **dict(rest={"mode": 3}, pse_type=1),
            )
        found["spare keys"] = tests.test_a_few_keys_behind_the_last_segment
        found["long head dimensions"] = partial(
            tests.test_long_head_dimensions, dtype=dtype, d=256, dv=200
        )
    return found
