// Tiles of the operators on selected blocks.
#pragma once

#include "ascendc/attention/attention_tiling.h"

namespace nsa::ascend {

constexpr int32_t kMostSelected = 32;  // blocks of a list: Sort32 sorts one in a repeat
constexpr int32_t kMostStripes = 16;   // queries of a tile
constexpr int32_t kMostBlockKeys = 128;
constexpr int32_t kSweepColumns = 1024;  // of a row of scores that the UB holds at a time
constexpr int32_t kMostHeadDim = 256;

// L1: a tile of queries, three blocks of keys or values, two blocks of factors of some stripes.
constexpr int32_t kBlockSlots = 3;
constexpr int32_t kFactorSlots = 2;
constexpr uint32_t kStripesBytes = 96 * 1024;
constexpr uint32_t kBlockSlotBytes = 64 * 1024;
constexpr uint32_t kFactorSlotBytes = 32 * 1024;
constexpr uint32_t kSelectedTileBytes =
    kStripesBytes + kBlockSlots * kBlockSlotBytes + kFactorSlots * kFactorSlotBytes;
static_assert(kSelectedTileBytes <= kL1Bytes);
static_assert(kMostBlockKeys * kMostHeadDim * 2 <= kBlockSlotBytes);
static_assert(kTileRows * kMostBlockKeys * 2 <= kFactorSlotBytes);

// Scores of a tile that wait in global memory, at most.
constexpr int64_t kTileScores = 256 * 1024;

// Queries of a tile. `stripe_rows`: of each, up to 128. L0C holds a sum of `sum_dim` floats for
// each row, L1 `dim` elements of 16 bits.
__aicore__ constexpr int32_t SelectedTileQueries(int64_t stripe_rows, int64_t dim, int64_t sum_dim,
                                                 int64_t columns) {
  return static_cast<int32_t>(
      Max(1, Min(Min(kMostStripes, kTileScores / (columns * stripe_rows)),
                 Min(kL0cBytes / (sum_dim * 4), kStripesBytes / (dim * 2)) / stripe_rows)));
}
static_assert(SelectedTileQueries(16, 192, 128, 1024) == 16);
static_assert(SelectedTileQueries(16, 256, 256, 1024) == 8);
static_assert(SelectedTileQueries(128, 256, 256, 4096) == 1);
static_assert(128 * kMostHeadDim * 4 <= kL0cBytes && 128 * kMostHeadDim * 2 <= kStripesBytes);

// Scratch of sorting the lists of a tile: indices, their values as floats, pairs of value and query
// twice, queries, bits.
constexpr uint32_t kSortBytes =
    kMostStripes * kMostSelected * (4 + 4 + 2 * 8 + 4) + kMostStripes * kMostSelected / 8;

constexpr int32_t kScanRows = 128;  // lists that are searched for a block at a time
// Scratch of that: the number of every entry's list, entries, what was found, bits.
constexpr uint32_t kScanBytes = kScanRows * kMostSelected * (3 * 4) + kScanRows * kMostSelected / 8;

// Bytes of the lists of `rows` queries, and of the unions of their tiles, which take as much.
__aicore__ constexpr int64_t SelectionListBytes(int64_t rows) {
  return (rows * kMostSelected * 4 + 511) / 512 * 512;
}
__aicore__ constexpr int64_t SelectionBytes(int64_t rows) { return 2 * SelectionListBytes(rows); }

}  // namespace nsa::ascend
