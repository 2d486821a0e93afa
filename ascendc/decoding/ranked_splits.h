// UB of the splits of a decode row where its blocks are ranked as well.
#pragma once

#include "ascendc/attention/ranking_tiling.h"
#include "ascendc/decoding/split_tiling.h"

namespace nsa::ascend {

// Bytes of the vector core's buffers, of which the window of the ranking is what can be made
// smaller.
__aicore__ constexpr uint32_t RankedSplitBytes(const RankingTiling& ranking, int32_t group,
                                               int32_t rows, int32_t split_keys,
                                               int32_t value_dim) {
  return SplitBuffers(rows, split_keys, value_dim).Total() + SplitBuffers::RankedBytes(group) +
         RankingBuffers(ranking).total + static_cast<uint32_t>(ListPairs(ranking.count)) * 4;
}
// The paper's sizes with 1024 blocks in a window, and with 128 of them chosen; at the least 64
// blocks of 64 keys.
static_assert(RankedSplitBytes({4, 2, 1, 1, 64, 16, 1, 2, 0, 1, 1024}, 16, 64, 256, 128) <=
              kUbBytes);
static_assert(RankedSplitBytes({4, 2, 1, 1, 64, 128, 1, 2, 0, 1, 1024}, 64, 64, 256, 192) <=
              kUbBytes);
static_assert(RankedSplitBytes({64, 64, 1, 1, 64, 128, 1, 2, 0, 1, 64}, 128, 128, 128, 256) <=
              kUbBytes);

}  // namespace nsa::ascend
