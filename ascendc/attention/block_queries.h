// The other way round: which queries select a block of keys. A core's tiles of the gradients of
// keys and values, and the steps over the queries of each.
#pragma once

#include "ascendc/attention/selection_sizes.h"
#include "ascendc/attention/work_items.h"

namespace nsa::ascend {

// A block of keys of one key head with the queries that select it, in ascending order; one that is
// twice in a query's list is here twice.
struct BlockTile {
  WorkItem item;  // its keys are rows of the item
  int64_t first;  // of the block's list in the lists of all blocks
  int32_t count;  // of its queries
};

// The counts of all blocks, each in a data block, in the order of the items.
class BlockCounts {
 public:
  __aicore__ inline void Init(GM_ADDR counts) {
    counts_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(counts));
  }
  __aicore__ inline int32_t operator[](int64_t block) const {
    return counts_.GetValue(static_cast<uint64_t>(block * kBlockFloats));
  }

 private:
  AscendC::GlobalTensor<int32_t> counts_;
};

// The tiles of one core: all cores walk all blocks, and each takes a share of about equal cost.
class BlockTiles {
 public:
  __aicore__ inline void Init(const WorkTiling* work, const MaskTiling* mask, GM_ADDR query_ends,
                              GM_ADDR key_ends, GM_ADDR offsets, GM_ADDR counts) {
    counts_.Init(counts);
    items_.Init(work, mask, query_ends, key_ends, nullptr, offsets);
    total_ = 0;
    for (int64_t i = 0; i < work->items; ++i) total_ += counts_[i] + kTileCost;
    block_ = AscendC::GetBlockIdx() / AscendC::GetTaskRation();
    blocks_ = AscendC::GetBlockNum();
    index_ = spent_ = first_ = 0;
  }
  // False if there is none left.
  __aicore__ inline bool Next(BlockTile* tile) {
    WorkItem item{};
    while (items_.Next(&item)) {
      const int32_t count = counts_[index_++];
      const int64_t cost = count + kTileCost;
      const int64_t owner = Min(blocks_ - 1, (2 * spent_ + cost) * blocks_ / (2 * total_));
      if (owner == block_) *tile = {item, first_, count};
      spent_ += cost;
      first_ += count;
      if (owner == block_) return true;
    }
    return false;
  }

 private:
  static constexpr int64_t kTileCost = 8;  // beside its queries, in queries

  BlockCounts counts_;
  WorkItems items_;
  int64_t total_ = 0, block_ = 0, blocks_ = 1, index_ = 0, spent_ = 0, first_ = 0;
};

// Some queries of a tile's list.
struct BlockStep {
  BlockTile tile;
  int64_t index;        // of the core's steps
  int64_t tile_index;   // of the core's tiles
  int64_t first_query;  // in the lists of all blocks
  int32_t queries;      // 0: nobody selects the block
  bool first, last;     // of the tile
};

class BlockSteps {
 public:
  template <typename... Arguments>
  __aicore__ inline void Init(int32_t most_queries, Arguments... arguments) {
    tiles_.Init(arguments...);
    most_ = most_queries;
    index_ = 0;
    at_ = 0;
    tile_index_ = -1;
    tile_.count = 0;
  }
  // False if there is none left.
  __aicore__ inline bool Next(BlockStep* step) {
    step->first = at_ >= tile_.count;
    if (step->first) {
      if (!tiles_.Next(&tile_)) return false;
      ++tile_index_;
      at_ = 0;
    }
    step->tile = tile_;
    step->index = index_++;
    step->tile_index = tile_index_;
    step->first_query = tile_.first + at_;
    step->queries = static_cast<int32_t>(Min(most_, tile_.count - at_));
    at_ += step->queries;
    step->last = at_ >= tile_.count;
    return true;
  }

 private:
  BlockTiles tiles_;
  BlockTile tile_{};
  int64_t index_ = 0, tile_index_ = -1;
  int32_t most_ = 1, at_ = 0;
};

}  // namespace nsa::ascend
