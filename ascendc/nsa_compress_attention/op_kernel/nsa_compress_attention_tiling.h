// Tiling data of NsaCompressAttention, written by op_host and read by the kernel, its use of L1, of
// the UB and of the workspace.
#pragma once

#include "ascendc/attention/pass_buffers.h"
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
  int64_t step_keys;    // of the rows that are computed at a time, at most
  int64_t pass_floats;  // of those rows, at most
  int64_t mask_row;     // bytes of a row of the mask tensor, 0 without one
  float scale;
};
static_assert(sizeof(NsaCompressAttentionTilingData) <= kMaxTilingBytes);

// L1: two tiles of queries, two transfers of keys or values, two of probabilities.
constexpr int32_t kMostCompressDim = 256;
constexpr uint32_t kCompressQueryBytes = kTileRows * kMostCompressDim * 2;
constexpr uint32_t kCompressKeyBytes = 96 * 1024;
static_assert(2 * (kCompressQueryBytes + kCompressKeyBytes + kProbabilitySlotBytes) <= kL1Bytes);

// Keys or values of a transfer into L1; columns of values that L0C takes at a time.
__aicore__ constexpr int32_t CompressTransferKeys(int32_t dim) {
  return static_cast<int32_t>(
      Min(kTransferKeys, RoundDown(static_cast<int32_t>(kCompressKeyBytes) / (2 * dim), 16)));
}
constexpr int32_t kValuePanel = kL0cSlotFloats / kTileRows;
static_assert(CompressTransferKeys(192) == 256 && CompressTransferKeys(256) == 192);

constexpr int32_t kPassRows = 64;  // rows that are computed at a time, at most
constexpr int32_t kMostPassFloats = 16 * 1024;
constexpr int32_t kLeastPassFloats = kRowMultiple * kStepKeys;

// Rows of a pass, of `width` columns each: those of some queries of a batch, as many in each pass
// as can be, or some of a query.
__aicore__ constexpr int32_t RowsOfPass(int64_t floats, int32_t width, int32_t group,
                                        int32_t queries) {
  const auto most = static_cast<int32_t>(Min(kPassRows, floats / width));
  if (most < group) return RoundDown(most, kRowMultiple);
  return CeilDiv(queries, CeilDiv(queries, most / group)) * group;
}

// Passes have two slots in the UB; one with more floats than a slot takes both.
__aicore__ constexpr int32_t SlotFloats(int64_t pass_floats) {
  return static_cast<int32_t>(pass_floats / 8 * 5);
}

// Bytes of the vector core's buffers.
struct NsaCompressAttentionBuffers {
  uint32_t ranking;
  uint32_t scores;         // two slots
  uint32_t masks;          // of the rows in them, twice
  uint32_t probabilities;  // of a pass
  uint32_t forced;         // of the mask of forced blocks
  uint32_t indices;        // of blocks, int32 [queries, count]
  uint32_t statistics;     // maximum and sum of the rows of some queries, and factors of a pass
  uint32_t row_blocks;     // data blocks of the maximum and of 1 / sum of every row, and of 1
  uint32_t statistics_out;
  uint32_t folded;  // scratch of the reductions, float [kPassRows, 72]
  uint32_t spread;  // data blocks of rows
  uint32_t hidden;  // of the mask tensor: its bits and, in half, its values

  __aicore__ constexpr NsaCompressAttentionBuffers(const RankingTiling& t, int32_t group,
                                                   int64_t pass_floats, bool masked)
      : ranking(RankingBuffers(t).total),
        scores(2 * Bytes(SlotFloats(pass_floats), 4)),
        masks(masked ? 2 * MaskBytes(t) : 0),
        probabilities(Bytes(static_cast<int32_t>(pass_floats), 2)),
        forced(Bytes(RoundUp(static_cast<int32_t>(t.window), 2 * kRepeatFloats), 1)),
        indices(Bytes(static_cast<int32_t>(t.queries) * ListPairs(t.count), 4)),
        statistics(Bytes(2 * Rows(t, group) + kPassRows, 4)),
        row_blocks(Bytes(2 * Rows(t, group) + kPassRows, kBlockBytes)),
        statistics_out(Bytes(2 * kPassRows, kBlockBytes)),
        folded(Bytes(kPassRows * (kRepeatFloats + kBlockFloats), 4)),
        spread(Bytes(kPassRows, kBlockBytes)),
        hidden(masked ? MaskBytes(t) / 8 + 2 * MaskBytes(t) : kBlockBytes) {}

  // Rows of the queries that are ranked together, a multiple of 8 for each pass of them.
  __aicore__ static constexpr int32_t Rows(const RankingTiling& t, int32_t group) {
    return static_cast<int32_t>(
        Max(kPassRows, static_cast<int32_t>(t.queries) * RoundUp(group, kRowMultiple)));
  }
  // A row of kStepKeys for each query.
  __aicore__ static constexpr uint32_t MaskBytes(const RankingTiling& t) {
    return Bytes(static_cast<int32_t>(t.queries) * kStepKeys, 1);
  }
  __aicore__ constexpr uint32_t Total() const {
    return ranking + scores + masks + probabilities + forced + indices + statistics + row_blocks +
           statistics_out + folded + spread + hidden;
  }

 private:
  __aicore__ static constexpr uint32_t Bytes(int32_t count, int32_t each) {
    return static_cast<uint32_t>(count * each);
  }
};

// G = 16, l' = 4 s, l = 2 s, 16 of up to 128 blocks in a window, four queries; at the least a query
// at a time with both masks and 128 of 1024 blocks. D and Dv fill L1 and L0C, not the UB.
constexpr RankingTiling kPaperRanking{4, 2, 1, 1, 64, 16, 1, 2, 0, 4, 128};
constexpr RankingTiling kWidestRanking{4, 2, 1, 1, 64, 128, 1, 2, 1, 1, 1024};
static_assert(NsaCompressAttentionBuffers(kPaperRanking, 16, kMostPassFloats, false).Total() <=
              kUbBytes);
static_assert(NsaCompressAttentionBuffers(kWidestRanking, 128, kLeastPassFloats, true).Total() <=
              kUbBytes);
// D = 128, and 192 with Dv = 128: a tile of queries, a transfer of keys, of values, of
// probabilities.
static_assert(kTileRows * 192 * 2 <= kCompressQueryBytes &&
              CompressTransferKeys(128) == kTransferKeys);
static_assert(CompressTransferKeys(192) * 192 * 2 <= kCompressKeyBytes);
static_assert(kTransferKeys * 128 * 2 <= kCompressKeyBytes && kValuePanel >= 128);
static_assert(kTileRows * kTransferKeys * 2 <= kProbabilitySlotBytes);

// The scores of a tile, three slots of a block of cores. Probabilities take the place of the scores
// that they are made of: those of a row begin where its scores do.
struct NsaCompressAttentionWorkspace {
  int64_t slot;  // floats

  __aicore__ constexpr explicit NsaCompressAttentionWorkspace(const WorkTiling& work,
                                                              int64_t score_pitch)
      : slot(work.tile_rows * work.group * score_pitch) {}
  __aicore__ constexpr int64_t Total() const { return kSlots * slot * 4; }
};

}  // namespace nsa::ascend
