// Which blocks of keys the queries of a tile select: sorted lists in global memory, of every query
// and of every tile, and walks over them.
#pragma once

#include "ascendc/attention/selection_sizes.h"
#include "ascendc/attention/work_items.h"

namespace nsa::ascend {

constexpr int32_t kNoBlock = 1000000000;  // behind every block, and a float
constexpr int64_t kLowHalf = 0xffffffff;  // of two entries, neither of which is negative

// A query's list holds kMostSelected blocks in ascending order; an index below 0 has become
// kNoBlock.

// to[i] = i / kMostSelected: of every entry of some lists the number of its list.
__aicore__ inline void NumberLists(const AscendC::LocalTensor<int32_t>& to, uint32_t entries) {
  constexpr int32_t kListShift = 5;
  static_assert(1 << kListShift == kMostSelected);
  AscendC::CreateVecIndex(to, 0, entries);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::ShiftRight(to, to, kListShift, static_cast<int32_t>(entries));
  AscendC::PipeBarrier<PIPE_V>();
}

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
    return static_cast<int32_t>(place % 2 == 0 ? pair_ & kLowHalf : pair_ >> 32);
  }

  AscendC::GlobalTensor<int64_t> pairs_;  // of the list, places 2 i and 2 i + 1
  int64_t pair_ = 0;                      // that of the entry read last
  int64_t keys_ = 0;
  int32_t count_ = 0, size_ = 0, at_ = 0;
  int32_t next_ = 0;  // the entry at_
  int32_t block_ = 0, slot_ = 0, times_ = 0;
};

// The union of the lists of a tile, in ascending order: an entry has the block above and the query
// of the tile below. Entries of one block are in any order.
constexpr int32_t kQueryBits = 4;
constexpr int32_t kNoUnionBlock = (1 << (31 - kQueryBits)) - 1;
static_assert(1 << kQueryBits == kMostStripes);

// Where the union of a tile begins among those of all tiles.
__aicore__ inline int64_t UnionOf(const SelectionTiling& selection, const WorkItem& item) {
  const int64_t first = (item.query_start + item.row) * selection.heads + item.head * item.rows;
  return first * kMostSelected;
}

// The blocks that the queries of a tile select, each once and in ascending order, with the queries
// that select it.
class SelectionUnion {
 public:
  int32_t block = 0;
  int32_t chosen = 0;  // queries that select it
  int32_t stripe[kMostStripes] = {};
  int32_t slot[kMostStripes] = {};
  int32_t keys[kMostStripes] = {};  // that the query sees of it

  // `lists`: of all queries, as SelectionSort leaves them.
  __aicore__ inline void Start(GM_ADDR lists, const WorkItem& item,
                               const SelectionTiling& selection) {
    entries_.SetGlobalBuffer(
        reinterpret_cast<__gm__ int64_t*>(lists + SelectionListBytes(selection.rows)) +
        UnionOf(selection, item) / 2);
    size_ = static_cast<int32_t>(selection.block_size);
    end_ = item.rows * kMostSelected;
    at_ = 0;
    entry_ = Read();
    for (int32_t i = 0; i < item.rows; ++i) {
      ends_[i] = item.visible.High(item.row + i);
      slots_[i] = 0;
    }
    // Non-decreasing in the query.
    last_ = ends_[item.rows - 1];
  }
  // False if there is none left.
  __aicore__ inline bool Next() {
    for (chosen = 0; chosen == 0;) {
      block = entry_ >> kQueryBits;
      const int64_t key = int64_t{block} * size_;
      if (key >= last_) return false;
      uint32_t queries = 0;
      for (; entry_ >> kQueryBits == block; entry_ = Read())
        queries |= 1u << (entry_ & (kMostStripes - 1));
      for (int32_t i = 0; queries >> i != 0; ++i) {
        if ((queries >> i & 1) == 0 || key >= ends_[i]) continue;
        stripe[chosen] = i;
        slot[chosen] = slots_[i]++;
        keys[chosen] = static_cast<int32_t>(Min(size_, ends_[i] - key));
        ++chosen;
      }
    }
    return true;
  }

 private:
  // Reads the next entry, like At of a list.
  __aicore__ inline int32_t Read() {
    if (at_ == end_) return kNoUnionBlock << kQueryBits;
    if (at_ % 2 == 0) pair_ = entries_.GetValue(static_cast<uint64_t>(at_ / 2));
    return static_cast<int32_t>(at_++ % 2 == 0 ? pair_ & kLowHalf : pair_ >> 32);
  }

  AscendC::GlobalTensor<int64_t> entries_;  // two at a time
  int64_t pair_ = 0, last_ = 0;
  int64_t ends_[kMostStripes] = {};  // keys that a query sees
  int32_t slots_[kMostStripes] = {};
  int32_t size_ = 0, at_ = 0, end_ = 0, entry_ = 0;
};

}  // namespace nsa::ascend
