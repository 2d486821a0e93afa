// Tiling data of NsaSelectedAttentionInfer, written by op_host and read by the kernel, its use of
// the memories of a core and of the workspace.
#pragma once

#include "ascendc/attention/row_group.h"
#include "ascendc/decoding/row_tokens.h"

namespace nsa::ascend {

constexpr int32_t kMostQueryBlocks = 128;  // blocks of a query

// A cell is one query of one key head, all heads of its group together. The keys that it selects
// lie side by side, in the order of the sequence, and are cut into parts of a size that depends on
// the call alone. Cores share the parts of a wave of cells, then add up what is left of them in the
// order of the keys.
struct NsaSelectedAttentionInferTilingData {
  PagesTiling pages;
  int64_t capacity;  // tokens of a row, at most
  int64_t batch;     // B
  int64_t per_row;   // queries of a row, where no list says it
  int64_t queries;   // of all rows
  int64_t block_size, block_count;
  int64_t parts;       // of a cell, at most
  int64_t wave_cells;  // cells that the workspace has room for
  int32_t heads;       // N2
  int32_t group;       // N1 / N2
  int32_t dim, value_dim;
  int32_t part_keys;  // keys of a part, at most
  float scale;
};
static_assert(sizeof(NsaSelectedAttentionInferTilingData) <= kMaxTilingBytes);

// Keys of a part: L1 holds those of two parts and their values, L0C the scores of a group.
__aicore__ constexpr int32_t PartKeys(int32_t group, int32_t dim, int32_t value_dim) {
  return group <= 64 && dim <= 192 && value_dim <= 192 ? 256 : 128;
}

// L1, in bytes: two slots of keys and of values, one of queries and of probabilities.
struct SelectedInferL1 {
  uint32_t keys, values, queries, probabilities;

  __aicore__ constexpr SelectedInferL1(int32_t group, int32_t dim, int32_t value_dim,
                                       int32_t part_keys)
      : keys(static_cast<uint32_t>(part_keys * dim) * 2),
        values(static_cast<uint32_t>(part_keys * value_dim) * 2),
        queries(static_cast<uint32_t>(RoundUp(group, 16) * dim) * 2),
        probabilities(static_cast<uint32_t>(RoundUp(group, 16) * part_keys) * 2) {}
  __aicore__ constexpr uint32_t Total() const {
    return 2 * (keys + values) + queries + probabilities;
  }
};
static_assert(SelectedInferL1(64, 192, 192, PartKeys(64, 192, 192)).Total() <= kL1Bytes);
static_assert(SelectedInferL1(128, 256, 256, PartKeys(128, 256, 256)).Total() <= kL1Bytes);
static_assert(64 * PartKeys(64, 192, 192) <= kL0cSlotFloats);
static_assert(128 * PartKeys(128, 256, 256) <= kL0cSlotFloats);

// Columns of the output that L0C holds of a group at a time.
__aicore__ constexpr int32_t OutputPanel(int32_t group, int32_t value_dim) {
  return static_cast<int32_t>(Min(value_dim, RoundDown(kL0cSlotFloats / RoundUp(group, 16), 16)));
}

// Bytes of the vector core's buffers.
struct NsaSelectedAttentionInferBuffers {
  uint32_t inputs;         // scores, float [rows, part_keys], or parts of the output, twice
  uint32_t probabilities;  // [rows, part_keys], or the output, once
  uint32_t sum;            // of the parts of the output, float [merged rows, Dv]
  uint32_t statistics;     // data blocks of rows: maximum and sum, twice
  uint32_t folded;         // scratch of the reductions, float [rows, 72]
  uint32_t spread;         // data blocks of rows
  uint32_t rows;           // floats of rows: maximum and sum
  uint32_t state;          // data blocks of merged rows: maximum, sum, two factors

  __aicore__ constexpr NsaSelectedAttentionInferBuffers(int32_t group, int32_t part_keys,
                                                        int32_t value_dim)
      : inputs(static_cast<uint32_t>(
                   Max(HalfRows(group) * part_keys, MergedRows(value_dim) * value_dim)) *
               4),
        probabilities(inputs / 2),
        sum(static_cast<uint32_t>(MergedRows(value_dim) * value_dim) * 4),
        statistics(static_cast<uint32_t>(2 * Max(HalfRows(group), MergedRows(value_dim))) *
                   kBlockBytes),
        folded(static_cast<uint32_t>(HalfRows(group) * (kRepeatFloats + kBlockFloats)) * 4),
        spread(static_cast<uint32_t>(HalfRows(group)) * kBlockBytes),
        rows(static_cast<uint32_t>(2 * HalfRows(group)) * 4),
        state(static_cast<uint32_t>(4 * MergedRows(value_dim)) * kBlockBytes) {}

  // Rows of the output that are added up at a time.
  __aicore__ static constexpr int32_t MergedRows(int32_t value_dim) {
    return static_cast<int32_t>(Max(kRowUnit, Min(64, RoundDown(4096 / value_dim, kRowUnit))));
  }
  __aicore__ constexpr uint32_t Total() const {
    return 2 * (inputs + statistics) + probabilities + sum + folded + spread + rows + state;
  }
};
static_assert(NsaSelectedAttentionInferBuffers(64, 256, 192).Total() <= kUbBytes);
static_assert(NsaSelectedAttentionInferBuffers(128, 128, 256).Total() <= kUbBytes);

// The workspace: what every block's cores hand to each other, in three slots each; then the outputs
// and the statistics of the parts of a wave. Bytes.
struct NsaSelectedAttentionInferWorkspace {
  int64_t scores;         // of a part, float [group, part_keys]
  int64_t probabilities;  // of a part, [group, part_keys]
  int64_t block;          // of a block
  int64_t output;         // of a part, float [group, Dv]
  int64_t statistics;     // of a part, data blocks [2, group]

  __aicore__ constexpr NsaSelectedAttentionInferWorkspace(
      const NsaSelectedAttentionInferTilingData& t)
      : scores(int64_t{t.group} * t.part_keys * 4),
        probabilities(int64_t{t.group} * t.part_keys * 2),
        block((kSlots * (scores + probabilities) + 511) / 512 * 512),
        output(int64_t{t.group} * t.value_dim * 4),
        statistics(int64_t{2} * t.group * kBlockBytes) {}
  __aicore__ constexpr int64_t OutputsBegin(int64_t blocks) const { return blocks * block; }
  __aicore__ constexpr int64_t StatisticsBegin(int64_t blocks, int64_t parts) const {
    return OutputsBegin(blocks) + parts * output;
  }
  __aicore__ constexpr int64_t Total(int64_t blocks, int64_t parts) const {
    return StatisticsBegin(blocks, parts) + parts * statistics;
  }
};

}  // namespace nsa::ascend
