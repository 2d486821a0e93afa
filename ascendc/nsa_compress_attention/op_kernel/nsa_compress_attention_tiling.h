// Tiling data of NsaCompressAttention, written by op_host and read by the kernel, its use of L1, of
// the UB and of the workspace.
#pragma once

#include "ascendc/attention/group_buffers.h"
#include "ascendc/attention/ranking_tiling.h"

namespace nsa::ascend {

struct NsaCompressAttentionTilingData {
  WorkTiling work;  // tiles of queries of one key head, each with all heads of its group
  MaskTiling mask;
  RankingTiling ranking;
  int64_t heads;        // N1
  int64_t dim;          // D
  int64_t value_dim;    // Dv
  int64_t score_pitch;  // floats from row to row of the scores
  int64_t step_keys;    // of the rows that are computed at a time
  int64_t group_rows;   // those rows, a multiple of 8
  int64_t mask_row;     // bytes of a row of the mask tensor, 0 without one
  float scale;
};
static_assert(sizeof(NsaCompressAttentionTilingData) <= kMaxTilingBytes);

// L1: two tiles of queries, two blocks of keys or values, two of probabilities.
constexpr int32_t kMostCompressDim = 256;
constexpr uint32_t kCompressQueryBytes = kTileRows * kMostCompressDim * 2;
constexpr uint32_t kCompressKeyBytes = 96 * 1024;
static_assert(2 * (kCompressQueryBytes + kCompressKeyBytes + kProbabilitySlotBytes) <= kL1Bytes);

// Keys or values of a block in L1; columns of values that L0C takes at a time.
__aicore__ constexpr int32_t CompressBlockKeys(int32_t dim) {
  return static_cast<int32_t>(
      Min(kBlockKeys, RoundDown(static_cast<int32_t>(kCompressKeyBytes) / (2 * dim), 16)));
}
constexpr int32_t kValuePanel = kL0cSlotFloats / kTileRows;
static_assert(CompressBlockKeys(192) == 256 && CompressBlockKeys(256) == 192);

// Bytes of the vector core's buffers.
struct NsaCompressAttentionBuffers {
  uint32_t ranking;
  uint32_t inputs;         // of a group: scores, float [group_rows, step_keys], and the mask, twice
  uint32_t probabilities;  // of a group, [group_rows, step_keys], twice
  uint32_t forced;         // of the mask of forced blocks
  uint32_t indices;        // of blocks, int32 [queries, count]
  uint32_t statistics;     // maximum and sum of the rows of some queries, and factors of a group
  uint32_t row_blocks;     // data blocks of the maximum and of 1 / sum of every row
  uint32_t statistics_out;
  uint32_t folded;   // scratch of the reductions, float [group_rows, 72]
  uint32_t spread;   // data blocks of rows
  uint32_t visible;  // scratch of the mask by visible keys
  uint32_t hidden;   // of the mask tensor: its bits and, in half, its values

  __aicore__ constexpr NsaCompressAttentionBuffers(const RankingTiling& t, int32_t group,
                                                   int32_t group_rows, bool masked)
      : ranking(RankingBuffers(t).total),
        inputs(Bytes(group_rows * kStepKeys, 4) + (masked ? MaskBytes(group, group_rows) : 0)),
        probabilities(Bytes(group_rows * kStepKeys, 2)),
        forced(Bytes(RoundUp(static_cast<int32_t>(t.window), 2 * kRepeatFloats), 1)),
        indices(Bytes(static_cast<int32_t>(t.queries) * ListPairs(t.count), 4)),
        statistics(Bytes(2 * Rows(t, group, group_rows) + group_rows, 4)),
        row_blocks(Bytes(2 * Rows(t, group, group_rows), kBlockBytes)),
        statistics_out(Bytes(2 * group_rows, kBlockBytes)),
        folded(Bytes(group_rows * (kRepeatFloats + kBlockFloats), 4)),
        spread(Bytes(group_rows, kBlockBytes)),
        visible(RowMaskBytes(group_rows)),
        hidden(masked ? MaskBytes(group, group_rows) / 8 + 2 * MaskBytes(group, group_rows)
                      : kBlockBytes) {}

  // Rows of the queries that are ranked together, filled up to whole groups.
  __aicore__ static constexpr int32_t Rows(const RankingTiling& t, int32_t group,
                                           int32_t group_rows) {
    return RoundUp(static_cast<int32_t>(t.queries) * group, group_rows);
  }
  // Of a group, a row of kStepKeys for each query.
  __aicore__ static constexpr uint32_t MaskBytes(int32_t group, int32_t group_rows) {
    return Bytes(static_cast<int32_t>(Max(1, group_rows / group)) * kStepKeys, 1);
  }
  __aicore__ constexpr uint32_t Total() const {
    return ranking + 2 * (inputs + probabilities) + forced + indices + statistics + row_blocks +
           statistics_out + folded + spread + visible + hidden;
  }

 private:
  __aicore__ static constexpr uint32_t Bytes(int32_t count, int32_t each) {
    return static_cast<uint32_t>(count * each);
  }
};

// G = 16, l' = 4 s, l = 2 s, 16 of up to 1024 blocks in a window; at most 128 with both masks, a
// query for each row. D and Dv fill L1 and L0C, not the UB.
constexpr RankingTiling kPaperRanking{4, 2, 1, 1, 64, 16, 1, 2, 0, 1, 1024};
constexpr RankingTiling kWidestRanking{4, 2, 1, 1, 64, 128, 1, 2, 1, 8, 128};
static_assert(NsaCompressAttentionBuffers(kPaperRanking, 16, 16, false).Total() <= kUbBytes);
static_assert(NsaCompressAttentionBuffers(kWidestRanking, 1, 8, true).Total() <= kUbBytes);
// D = 128, and 192 with Dv = 128: a tile of queries, a block of keys, of values, of probabilities.
static_assert(kTileRows * 192 * 2 <= kCompressQueryBytes && CompressBlockKeys(128) == kBlockKeys);
static_assert(CompressBlockKeys(192) * 192 * 2 <= kCompressKeyBytes);
static_assert(kBlockKeys * 128 * 2 <= kCompressKeyBytes && kValuePanel >= 128);
static_assert(kTileRows * kBlockKeys * 2 <= kProbabilitySlotBytes);

// The scores of a tile, two slots of a block of cores. Probabilities take the place of the scores
// that they are made of: those of a row begin where its scores do.
struct NsaCompressAttentionWorkspace {
  int64_t slot;  // floats

  __aicore__ constexpr explicit NsaCompressAttentionWorkspace(const WorkTiling& work,
                                                              int64_t score_pitch)
      : slot(work.tile_rows * work.group * score_pitch) {}
  __aicore__ constexpr int64_t Total() const { return 2 * slot * 4; }
};

}  // namespace nsa::ascend
