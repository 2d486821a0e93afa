// Tiling data of FlashAttentionScore, written by op_host and read by the kernel, its use of the UB
// and of the workspace.
#pragma once

#include "ascendc/attention/pass_buffers.h"

namespace nsa::ascend {

struct FlashAttentionScoreTilingData {
  WorkTiling work;
  MaskTiling mask;
  BiasTiling bias;
  TensorStrides query, key, value, output;
  TensorStrides statistics;  // of softmax_max and softmax_sum, in floats
  int64_t dim;               // D
  int64_t value_dim;         // Dv
  int64_t pass_rows;         // rows of scores that are computed at a time
  int64_t sink;              // whether there is one
};
static_assert(sizeof(FlashAttentionScoreTilingData) <= kMaxTilingBytes);

// Bytes of the vector core's buffers. A tile's rows are shared between two of them.
struct FlashAttentionScoreBuffers {
  uint32_t inputs;         // of a pass: scores, float [pass_rows, 512], and more, twice
  uint32_t probabilities;  // of a pass, [pass_rows, 512], twice unless they are float
  uint32_t output;         // float [rows, Dv], Dv a multiple of 16
  uint32_t part;           // of a step, float [some rows, Dv], twice
  uint32_t result;         // of the tile, [some rows, Dv]
  uint32_t statistics;  // maximum and sum of three tiles, factors of three steps, float [9, rows]
  uint32_t statistics_out;  // data blocks of some rows' maximum and sum
  uint32_t folded;          // scratch of the reductions, float [pass_rows, 72]
  uint32_t spread;          // data blocks of rows
  uint32_t mask;            // scratch
  uint32_t bias;            // scratch
  uint32_t probability_buffers;

  __aicore__ constexpr FlashAttentionScoreBuffers(int32_t tile_rows, int32_t pass_rows,
                                                  int32_t value_dim, int32_t element_bytes,
                                                  const BiasTiling& bias_tiling)
      : inputs(PassInputs(bias_tiling, pass_rows, pass_rows, element_bytes).total),
        probabilities(Bytes(pass_rows * kStepKeys, element_bytes)),
        output(Bytes(HalfRows(tile_rows) * RoundUp(value_dim, 16), 4)),
        part(Bytes(PartRows(value_dim) * RoundUp(value_dim, 16), 4)),
        result(Bytes(PartRows(value_dim) * RoundUp(value_dim, 16), element_bytes)),
        statistics(Bytes(3 * kSlots * HalfRows(tile_rows), 4)),
        statistics_out(2 * Bytes(PartRows(value_dim), kBlockBytes)),
        folded(Bytes(pass_rows * (kRepeatFloats + kBlockFloats), 4)),
        spread(Bytes(static_cast<int32_t>(Max(pass_rows, PartRows(value_dim))), kBlockBytes)),
        mask(RowMaskBytes(pass_rows)),
        bias(PassScratch(bias_tiling, pass_rows, pass_rows).total),
        probability_buffers(element_bytes == 4 ? 1 : 2) {}

  // Rows of the output that are updated at a time.
  __aicore__ static constexpr int32_t PartRows(int32_t value_dim) {
    return static_cast<int32_t>(
        Max(kRowMultiple, Min(64, RoundDown(kPartFloats / RoundUp(value_dim, 16), kRowMultiple))));
  }
  __aicore__ constexpr uint32_t Total() const {
    return 2 * (inputs + part) + probability_buffers * probabilities + output + result +
           statistics + statistics_out + folded + spread + mask + bias;
  }

 private:
  static constexpr int32_t kPartFloats = 2048;
  __aicore__ static constexpr uint32_t Bytes(int32_t count, int32_t each) {
    return static_cast<uint32_t>(count * each);
  }
};

// With nothing but a computed mask 16 rows fit, and eight in every case within infer/limits.h, of
// the longest values in float with a tile of 16 queries.
static_assert(FlashAttentionScoreBuffers(CubeTiles(128, 128, 2).rows, 16, 128, 2, BiasTiling{})
                  .Total() <= kUbBytes);
static_assert(FlashAttentionScoreBuffers(CubeTiles(192, 128, 2).rows, 16, 128, 2, BiasTiling{})
                  .Total() <= kUbBytes);
static_assert(FlashAttentionScoreBuffers(CubeTiles(192, 192, 2).rows, 8, 192, 2, EveryBias())
                  .Total() <= kUbBytes);
static_assert(FlashAttentionScoreBuffers(CubeTiles(512, 512, 2).rows, 8, 512, 2, EveryBias())
                  .Total() <= kUbBytes);
static_assert(FlashAttentionScoreBuffers(16, 8, 512, 4, EveryBias()).Total() <= kUbBytes);

// Buffers between the cube core of a block and its vector cores, three slots each. Offsets are
// bytes from the start of the block's share of the workspace.
struct FlashAttentionScoreWorkspace {
  int64_t scores;         // of a step, float [rows, 512]
  int64_t probabilities;  // of a step, [rows, 512]
  int64_t output;         // of a step, float [rows, Dv], Dv a multiple of 16
  int64_t probabilities_begin, output_begin;

  __aicore__ constexpr FlashAttentionScoreWorkspace(int32_t tile_rows, int32_t value_dim,
                                                    int32_t element_bytes)
      : scores(int64_t{tile_rows} * kStepKeys * 4),
        probabilities(int64_t{tile_rows} * kStepKeys * element_bytes),
        output(int64_t{tile_rows} * RoundUp(value_dim, 16) * 4),
        probabilities_begin(kSlots * scores),
        output_begin(kSlots * (scores + probabilities)) {}
  // Shares of blocks start at multiples of 512 bytes.
  __aicore__ constexpr int64_t Total() const {
    return (kSlots * (scores + probabilities + output) + 511) / 512 * 512;
  }
};

}  // namespace nsa::ascend
