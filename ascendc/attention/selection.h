// Which blocks of keys the queries of a tile select: sorted lists in global memory and walks over
// them.
#pragma once

#include "ascendc/attention/selection_sizes.h"
#include "kernel_operator.h"

namespace nsa::ascend {

constexpr int32_t kNoBlock = 1000000000;  // behind every block, and a float

// A query's list holds kMostSelected blocks in ascending order; an index below 0 has become
// kNoBlock.

// The blocks of one list that its query sees, each once.
class SelectedBlocks {
 public:
  // `keys`: how many the query sees, from the first of its segment on.
  __aicore__ inline void Start(const AscendC::GlobalTensor<int32_t>& lists, int64_t row,
                               int64_t keys, const SelectionTiling& selection) {
    pairs_.SetGlobalBuffer(
        reinterpret_cast<__gm__ int64_t*>(lists.GetPhyAddr(row * kMostSelected)));
    count_ = static_cast<int32_t>(selection.block_count);
    size_ = static_cast<int32_t>(selection.block_size);
    keys_ = keys;
    at_ = 0;
    slot_ = -1;
    next_ = At(0);
    Next();
  }

  // kNoBlock behind the last one.
  __aicore__ inline int32_t block() const { return block_; }
  // How many blocks came before it.
  __aicore__ inline int32_t slot() const { return slot_; }
  // How often it is in the list.
  __aicore__ inline int32_t times() const { return times_; }
  // How many of its keys the query sees. Only the last block has fewer than a block's.
  __aicore__ inline int32_t keys() const {
    return static_cast<int32_t>(Min(size_, keys_ - int64_t{block_} * size_));
  }
  __aicore__ inline bool ended() const { return block_ == kNoBlock; }

  __aicore__ inline void Next() {
    block_ = next_;
    ++slot_;
    for (times_ = 0; next_ == block_ && at_ < count_; ++times_) next_ = At(++at_);
    if (block_ == kNoBlock || block_ * int64_t{size_} >= keys_) block_ = kNoBlock;
  }

 private:
  // A scalar read of global memory takes the time of many instructions: two entries come at once.
  __aicore__ inline int32_t At(int32_t place) {
    if (place >= count_) return kNoBlock;
    if (place % 2 == 0) pair_ = pairs_.GetValue(static_cast<uint64_t>(place / 2));
    return static_cast<int32_t>(place % 2 == 0 ? pair_ : pair_ >> 32);
  }

  AscendC::GlobalTensor<int64_t> pairs_;  // of the list, places 2 i and 2 i + 1
  int64_t pair_ = 0;                      // that of the entry read last
  int64_t keys_ = 0;
  int32_t count_ = 0, size_ = 0, at_ = 0;
  int32_t next_ = 0;  // the entry at_
  int32_t block_ = 0, slot_ = 0, times_ = 0;
};

// The blocks that the queries of a tile select, each once and in ascending order, with the queries
// that select it.
class SelectionUnion {
 public:
  int32_t block = 0;
  int32_t chosen = 0;  // queries that select it
  int32_t stripe[kMostStripes] = {};
  int32_t slot[kMostStripes] = {};
  int32_t keys[kMostStripes] = {};  // that the query sees of it

  // The tile's queries have the lists `row`, row + pitch, ...
  __aicore__ inline void Start(const AscendC::GlobalTensor<int32_t>& lists, int64_t row,
                               int64_t pitch, int32_t queries, const VisibleKeys& visible,
                               int64_t first_query, const SelectionTiling& selection) {
    queries_ = queries;
    for (int32_t i = 0; i < queries; ++i)
      heads_[i].Start(lists, row + i * pitch, visible.High(first_query + i), selection);
  }
  // False if there is none left.
  __aicore__ inline bool Next() {
    block = kNoBlock;
    for (int32_t i = 0; i < queries_; ++i)
      block = static_cast<int32_t>(Min(block, heads_[i].block()));
    chosen = 0;
    if (block == kNoBlock) return false;
    for (int32_t i = 0; i < queries_; ++i) {
      SelectedBlocks& head = heads_[i];
      if (head.block() != block) continue;
      stripe[chosen] = i;
      slot[chosen] = head.slot();
      keys[chosen] = head.keys();
      ++chosen;
      head.Next();
    }
    return true;
  }

 private:
  SelectedBlocks heads_[kMostStripes];
  int32_t queries_ = 0;
};

}  // namespace nsa::ascend
