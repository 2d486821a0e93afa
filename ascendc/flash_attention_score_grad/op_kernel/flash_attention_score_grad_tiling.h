// Tiling data of FlashAttentionScoreGrad, written by op_host and read by the kernel, its use of the
// UB and of the workspace.
#pragma once

#include "ascendc/attention/pass_buffers.h"

namespace nsa::ascend {

struct FlashAttentionScoreGradTilingData {
  WorkTiling queries;  // tiles of queries, for dq
  WorkTiling keys;     // tiles of keys, for dk and dv, with heads and groups of key_parts
  MaskTiling mask;
  BiasTiling bias;
  TensorStrides query, key, value, output;
  TensorStrides statistics;      // of softmax_max and softmax_sum, in floats
  int64_t dim;                   // D
  int64_t value_dim;             // Dv
  int64_t key_parts;             // of the heads of a key head's group, each part's gradients apart
  int64_t key_rows;              // keys times their heads, where there are several parts
  TensorStrides row_statistics;  // of maximum, sum and Dvec in the workspace, a float each
  int64_t statistics_floats;     // of each of the three
  int64_t input_buffers;         // 2 where they fit: a pass is loaded while one is computed
  int64_t key_tokens;            // rows of dk and dv
  int64_t segment_tokens;        // those of them that belong to a segment
  int64_t pse_grad;              // elements of the gradient of the bias, 0 where none is asked for
  int64_t pse_copies;  // of it in float, where queries share elements: two for each entry that
                       // shares them, one of each vector core of a block
  int64_t pse_pitch;   // floats of a row of a tile's sum, where entries of the batch share one
  int64_t pse_tile;    // floats of that sum, half of them each vector core's
  int64_t sink;        // whether there is one
  int64_t sum_grad;    // whether the gradient of softmax_sum is given
};
static_assert(sizeof(FlashAttentionScoreGradTilingData) <= kMaxTilingBytes);

// How a head dimension, the larger of D and Dv, and an element size cut up the work of the cube.
struct GradTiles {
  int32_t rows;        // queries or keys of a tile
  int32_t block_rows;  // rows of the other side that one transfer brings into L1

  __aicore__ constexpr GradTiles(int32_t dim, int32_t element_bytes)
      : rows(RoundDown(static_cast<int32_t>(Min(
                           Min(kTileRows, kProbabilitySlotBytes / (kTransferKeys * element_bytes)),
                           kQuerySlotBytes / (RoundUp(dim, 16) * element_bytes))),
                       16)),
        block_rows(CubeTiles(dim, dim, element_bytes).key_rows) {}
  // Columns of a tile's sum in one slot of L0C. The others are in the second one.
  __aicore__ constexpr int32_t SumColumns(int32_t columns) const {
    return rows * RoundUp(columns, 16) <= kL0cSlotFloats ? columns : RoundUp(columns / 2, 16);
  }
};
static_assert(kQuerySlotBytes / 2 / 2 + kTileRows * 16 / 2 <= kL0cSlotFloats,
              "half of a sum, the columns of each half filled up");
static_assert(GradTiles(128, 2).rows == 128 && GradTiles(128, 2).SumColumns(128) == 128);
static_assert(GradTiles(192, 2).rows == 128 && GradTiles(192, 2).SumColumns(192) == 96);
static_assert(GradTiles(512, 2).rows == 48 && GradTiles(512, 4).rows == 16);

// A pass: 8 rows of up to 512 keys, or up to 32 rows of fewer.
constexpr int32_t kGradPassRows = 8;
constexpr int32_t kGradMostRows = 32;
constexpr int32_t kGradPassFloats = kGradPassRows * kStepKeys;

// Parts of a tile of keys of which the buffer of a pass's scores and dP holds a row each.
__aicore__ constexpr int32_t MostKeyParts(int32_t dim) {
  return 2 * kGradPassFloats / RoundUp(dim, 16);
}

// Where the inputs of a pass lie in one buffer, in bytes: what a forward has, then dP and a each
// row's maximum, sum and Dvec; before the steps a data block of the first two.
struct GradPassInputs {
  uint32_t product_grad, statistics, total;

  __aicore__ constexpr GradPassInputs(const BiasTiling& bias, int32_t element_bytes)
      : product_grad(PassInputs(bias, kGradPassRows, kGradMostRows, element_bytes).total),
        statistics(product_grad + kGradPassFloats * 4),
        total(statistics + 2 * kGradMostRows * kBlockBytes) {}
};

struct FlashAttentionScoreGradBuffers {
  uint32_t inputs;      // of a pass, input_buffers times
  uint32_t outputs;     // P and dS of a pass, twice unless they are float
  uint32_t part;        // of a gradient's sum, float [some rows, D], twice
  uint32_t result;      // of a gradient, [some rows, D]
  uint32_t folded;      // scratch of the reductions
  uint32_t statistics;  // data blocks of those of a pass, and on their way to the workspace
  uint32_t pse_sums;    // of the columns of a tile of keys
  uint32_t mask;        // scratch
  uint32_t bias;        // scratch
  uint32_t output_buffers;

  __aicore__ constexpr FlashAttentionScoreGradBuffers(int32_t dim, int32_t element_bytes,
                                                      const BiasTiling& bias_tiling)
      : inputs(GradPassInputs(bias_tiling, element_bytes).total),
        outputs(static_cast<uint32_t>(2 * kGradPassFloats * element_bytes)),
        part(static_cast<uint32_t>(PartRows(dim) * RoundUp(dim, 16) * 4)),
        result(static_cast<uint32_t>(PartRows(dim) * RoundUp(dim, 16) * element_bytes)),
        folded(kGradMostRows * (kRepeatFloats + kBlockFloats) * 4),
        statistics(4 * kGradMostRows * kBlockBytes),
        pse_sums(kTileRows * 4),
        mask(RowMaskBytes(kGradMostRows)),
        bias(static_cast<uint32_t>(
            Max(kBlockBytes, PassScratch(bias_tiling, kGradPassRows, kGradMostRows).total))),
        output_buffers(element_bytes == 4 ? 1 : 2) {}

  // Rows of a gradient that are finished at a time. `dim`: the larger of D and Dv.
  __aicore__ static constexpr int32_t PartRows(int32_t dim) {
    return static_cast<int32_t>(
        Max(kRowMultiple, Min(64, RoundDown(2048 / RoundUp(dim, 16), kRowMultiple))));
  }
  __aicore__ constexpr uint32_t Total(uint32_t input_buffers) const {
    return input_buffers * inputs + output_buffers * outputs + 2 * part + result + folded +
           statistics + pse_sums + mask + bias;
  }
};
// Before the steps a buffer of the inputs serves for other things.
static_assert(GradPassInputs(BiasTiling{}, 2).total >= 4 * 256 * kBlockBytes);
static_assert(FlashAttentionScoreGradBuffers(128, 2, BiasTiling{}).Total(2) <= kUbBytes);
static_assert(FlashAttentionScoreGradBuffers(192, 2, BiasTiling{}).Total(2) <= kUbBytes);
static_assert(FlashAttentionScoreGradBuffers(512, 4, EveryBias()).Total(1) <= kUbBytes);

// The workspace: the statistics of every row, the sums of dpse over queries, dk and dv of parts of
// the heads, then each block's share, which holds what the cube core and its vector cores hand to
// each other, in three slots each, and the sum of dpse over a batch. Bytes.
struct FlashAttentionScoreGradWorkspace {
  int64_t scores;         // S or dP of a step, float
  int64_t probabilities;  // P or dS of a step
  int64_t sums;           // of the gradient of a tile's keys and of their values, or of its queries
  int64_t product_grads_begin, probabilities_begin, score_grads_begin, sums_begin, pse_begin, end;

  __aicore__ constexpr FlashAttentionScoreGradWorkspace(int32_t tile_rows, int32_t dim,
                                                        int32_t value_dim, int32_t element_bytes,
                                                        int64_t pse_tile)
      : scores(int64_t{tile_rows} * kStepKeys * 4),
        probabilities(int64_t{tile_rows} * kStepKeys * element_bytes),
        sums(int64_t{tile_rows} * (RoundUp(dim, 16) + RoundUp(value_dim, 16)) * 4),
        product_grads_begin(kSlots * scores),
        probabilities_begin(2 * kSlots * scores),
        score_grads_begin(kSlots * (2 * scores + probabilities)),
        sums_begin(kSlots * (2 * scores + 2 * probabilities)),
        pse_begin(sums_begin + kSlots * sums),
        end(pse_begin + pse_tile * 4) {}
  __aicore__ constexpr int64_t Total() const { return (end + 511) / 512 * 512; }
  __aicore__ static constexpr int64_t RowBytes(int64_t floats) {
    return (floats * 4 + 511) / 512 * 512;
  }
  __aicore__ static constexpr int64_t StatisticsBytes(const FlashAttentionScoreGradTilingData& t) {
    return RowBytes(3 * t.statistics_floats);
  }
  // In front of the blocks' shares.
  __aicore__ static constexpr int64_t SharedBytes(const FlashAttentionScoreGradTilingData& t) {
    return PartsBegin(t) + RowBytes(t.key_parts * t.key_rows *
                                    (RoundUp(static_cast<int32_t>(t.dim), 16) +
                                     RoundUp(static_cast<int32_t>(t.value_dim), 16)));
  }
  // dk of all parts, then dv.
  __aicore__ static constexpr int64_t PartsBegin(const FlashAttentionScoreGradTilingData& t) {
    return StatisticsBytes(t) + RowBytes(t.pse_copies * t.pse_grad);
  }
};

}  // namespace nsa::ascend
