// Tiling data of NsaSelectedAttention, written by op_host and read by the kernel, its use of the UB
// and of the workspace.
#pragma once

#include "ascendc/attention/pass_buffers.h"
#include "ascendc/attention/selection_sizes.h"

namespace nsa::ascend {

struct NsaSelectedAttentionTilingData {
  WorkTiling work;  // tiles of queries of one key head
  MaskTiling mask;
  SelectionTiling selection;
  int64_t query_heads;
  int64_t dim;        // D
  int64_t value_dim;  // Dv
  int64_t pass_rows;  // rows of scores that are computed at a time
  float scale;
};
static_assert(sizeof(NsaSelectedAttentionTilingData) <= kMaxTilingBytes);

// Bytes of the vector core's buffers. A tile's rows are shared between two of them.
struct NsaSelectedAttentionBuffers {
  uint32_t inputs;          // scores, float [pass_rows, columns], twice; before, lists to sort
  uint32_t probabilities;   // [pass_rows, columns], twice
  uint32_t part;            // of the output, float [some rows, Dv], twice
  uint32_t result;          // [some rows, Dv]
  uint32_t statistics;      // maximum and sum of three tiles, float [6, rows]
  uint32_t statistics_out;  // data blocks of some rows' maximum and sum
  uint32_t folded;          // scratch of the reductions, float [pass_rows, 72]
  uint32_t spread;          // data blocks of rows

  __aicore__ constexpr NsaSelectedAttentionBuffers(int32_t tile_rows, int32_t pass_rows,
                                                   int32_t columns, int32_t value_dim)
      : inputs(static_cast<uint32_t>(Max(kSortBytes, pass_rows * Min(columns, kSweepColumns) * 4))),
        probabilities(Bytes(pass_rows * static_cast<int32_t>(Min(columns, kSweepColumns)), 2)),
        part(Bytes(PartRows(value_dim) * value_dim, 4)),
        result(part / 2),
        statistics(Bytes(2 * kSlots * HalfRows(tile_rows), 4)),
        statistics_out(2 * Bytes(PartRows(value_dim), kBlockBytes)),
        folded(Bytes(pass_rows * (kRepeatFloats + kBlockFloats), 4)),
        spread(Bytes(static_cast<int32_t>(Max(pass_rows, PartRows(value_dim))), kBlockBytes)) {}

  // Rows of the output that are finished at a time.
  __aicore__ static constexpr int32_t PartRows(int32_t value_dim) {
    return static_cast<int32_t>(
        Max(kRowMultiple, Min(64, RoundDown(2048 / value_dim, kRowMultiple))));
  }
  __aicore__ constexpr uint32_t Total() const {
    return 2 * (inputs + probabilities + part) + result + statistics + statistics_out + folded +
           spread;
  }

 private:
  __aicore__ static constexpr uint32_t Bytes(int32_t count, int32_t each) {
    return static_cast<uint32_t>(count * each);
  }
};
static_assert(NsaSelectedAttentionBuffers(256, 8, 1024, 128).Total() <= kUbBytes);
static_assert(NsaSelectedAttentionBuffers(256, 16, 512, 16).Total() <= kUbBytes);
static_assert(NsaSelectedAttentionBuffers(256, 8, 4096, 256).Total() <= kUbBytes);

// The workspace: the lists of all queries, then each block's share, which holds what the cube core
// and its vector cores hand to each other, in three slots each. Bytes.
struct NsaSelectedAttentionWorkspace {
  int64_t scores;         // of a tile, float [rows, columns]
  int64_t probabilities;  // of a tile, [rows, columns]
  int64_t output;         // of a tile, float [rows, Dv]
  int64_t probabilities_begin, output_begin;

  __aicore__ constexpr NsaSelectedAttentionWorkspace(int64_t tile_rows, int64_t columns,
                                                     int64_t value_dim)
      : scores(tile_rows * columns * 4),
        probabilities(tile_rows * columns * 2),
        output(tile_rows * value_dim * 4),
        probabilities_begin(kSlots * scores),
        output_begin(kSlots * (scores + probabilities)) {}
  // Shares of blocks start at multiples of 512 bytes.
  __aicore__ constexpr int64_t Total() const {
    return (kSlots * (scores + probabilities + output) + 511) / 512 * 512;
  }
};

}  // namespace nsa::ascend
