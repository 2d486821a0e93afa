// Tiling data of NsaSelectedAttentionGrad, written by op_host and read by the kernel, its use of
// the memories and of the workspace.
#pragma once

#include "ascendc/attention/pass_buffers.h"
#include "ascendc/attention/selection_sizes.h"

namespace nsa::ascend {

struct NsaSelectedAttentionGradTilingData {
  WorkTiling queries;  // tiles of queries of one key head, for dq
  WorkTiling blocks;   // every block of every key head, the same for all cores, for dk and dv
  MaskTiling mask;
  SelectionTiling selection;
  int64_t query_tokens;
  int64_t query_heads;
  int64_t dim;        // D
  int64_t value_dim;  // Dv
  int64_t sum_grad;   // whether the gradient of softmax_sum is given
  float scale;
};
static_assert(sizeof(NsaSelectedAttentionGradTilingData) <= kMaxTilingBytes);

// A step over the queries of a block: rows of queries and heads of the group, in parts of one
// product.
constexpr int32_t kBlockStepRows = 512;
__aicore__ constexpr int32_t BlockPartQueries(int64_t group) {
  return static_cast<int32_t>(kTileRows / group);
}
__aicore__ constexpr int32_t BlockStepQueries(int64_t group) {
  return kBlockStepRows / kTileRows * BlockPartQueries(group);
}

// L1 of the walk over blocks: a block of keys and one of values, two parts of rows of queries, two
// parts of P or dS.
constexpr uint32_t kGatheredSlotBytes = kTileRows * kMostHeadDim * 2;
static_assert(2 * (kBlockSlotBytes + kGatheredSlotBytes + kFactorSlotBytes) <= kL1Bytes);

// Rows of a block's gradient that L0C holds.
__aicore__ constexpr int32_t SumRows(int64_t dim) {
  return static_cast<int32_t>(Min(kMostBlockKeys, kL0cSlotFloats / dim / 16 * 16));
}

// Scores of some rows on a vector core: 8 rows of up to 512 columns, or up to 32 of fewer.
constexpr int32_t kSelectedGradRows = 8;
constexpr int32_t kSelectedGradMostRows = 32;
constexpr int32_t kSelectedGradColumns = 512;
constexpr int32_t kSelectedGradFloats = kSelectedGradRows * kSelectedGradColumns;

struct NsaSelectedAttentionGradBuffers {
  // S and dP of a part, and data blocks of its rows' maximum, sum and Dvec, twice; before, lists
  uint32_t inputs;
  uint32_t outputs;   // dS and P of a part, twice
  uint32_t part;      // of a gradient, float [some rows, D], twice
  uint32_t result;    // of a gradient, [some rows, D]
  uint32_t folded;    // scratch of the reductions
  uint32_t row_sums;  // Dvec of some rows, and their data blocks

  __aicore__ constexpr explicit NsaSelectedAttentionGradBuffers(int64_t dim)
      : inputs(static_cast<uint32_t>(
            Max(kScanBytes, kSelectedGradFloats * 8 + 3 * kSelectedGradMostRows * kBlockBytes))),
        outputs(kSelectedGradFloats * 2 * 2),
        part(static_cast<uint32_t>(PartRows(dim) * dim * 4)),
        result(part / 2),
        folded(kSelectedGradMostRows * (kRepeatFloats + kBlockFloats) * 4),
        row_sums(kSelectedGradMostRows * (4 + kBlockBytes)) {}

  // Rows of a gradient that are finished at a time. `dim`: the larger of D and Dv.
  __aicore__ static constexpr int32_t PartRows(int64_t dim) {
    return static_cast<int32_t>(
        Max(kRowMultiple, Min(64, 2048 / dim / kRowMultiple * kRowMultiple)));
  }
  __aicore__ constexpr uint32_t Total() const {
    return 2 * (inputs + outputs + part) + result + folded + row_sums;
  }
};
static_assert(NsaSelectedAttentionGradBuffers(16).Total() <= kUbBytes);
static_assert(NsaSelectedAttentionGradBuffers(kMostHeadDim).Total() <= kUbBytes);
static_assert(NsaSelectedAttentionGradBuffers(16).inputs >= kSortBytes);

// The workspace: the lists of all queries, Dvec of all rows, the counts and the queries of all
// blocks, then the share of each block of cores, which holds what its cube core and its vector
// cores hand to each other, in three slots each. Bytes.
struct NsaSelectedAttentionGradWorkspace {
  int64_t row_sums_begin, counts_begin, queries_begin, parts_begin;
  int64_t scores;         // S or dP of a step, float
  int64_t probabilities;  // P or dS of a step
  int64_t sums;           // of a tile's dq, or of a block's dk and dv
  int64_t product_grads_begin, probabilities_begin, score_grads_begin, sums_begin;
  int64_t each;  // of a block of cores

  __aicore__ constexpr explicit NsaSelectedAttentionGradWorkspace(
      const NsaSelectedAttentionGradTilingData& t)
      : row_sums_begin(SelectionBytes(t.selection.rows)),
        counts_begin(row_sums_begin + Round(t.query_tokens * t.query_heads * kBlockBytes)),
        queries_begin(counts_begin + Round(t.blocks.items * kBlockBytes)),
        parts_begin(queries_begin + Round(t.selection.rows * t.selection.block_count * 4)),
        scores(4 * Max(t.queries.tile_rows * t.selection.group * t.selection.columns,
                       kBlockStepRows * kMostBlockKeys)),
        probabilities(scores / 2),
        sums(4 * Max(t.queries.tile_rows * t.selection.group * t.dim,
                     t.selection.block_size * (t.dim + t.value_dim))),
        product_grads_begin(kSlots * scores),
        probabilities_begin(2 * kSlots * scores),
        score_grads_begin(kSlots * (2 * scores + probabilities)),
        sums_begin(kSlots * (2 * scores + 2 * probabilities)),
        each(Round(sums_begin + kSlots * sums)) {}

 private:
  // Parts start at multiples of 512 bytes.
  __aicore__ static constexpr int64_t Round(int64_t bytes) { return (bytes + 511) / 512 * 512; }
};

}  // namespace nsa::ascend
