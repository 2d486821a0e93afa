// The steps of one core of a gradient: for every tile of queries the keys that it sees, then for
// every tile of keys the queries that see it.
#pragma once

#include "ascendc/attention/work_items.h"

namespace nsa::ascend {

// Scores of some queries of one head with some keys, at most kStepKeys on one side and a tile on
// the other.
struct GradStep {
  WorkItem item;  // with the head of the queries
  int64_t index;  // of the core's steps
  int64_t tile;   // of the core's tiles
  bool by_keys;   // the tile is of keys
  int64_t row;    // first query, in the segment
  int32_t rows;
  int64_t key;  // first key, in the segment
  int32_t keys;
  bool first, last;            // of the tile
  bool head_first, head_last;  // of those that a tile of keys has with the queries of one head

  // Nothing of the tile sees anything, or is seen.
  __aicore__ inline bool empty() const { return rows == 0 || keys == 0; }
};

class GradSteps {
 public:
  __aicore__ inline void Init(const WorkTiling* queries, const WorkTiling* keys,
                              const MaskTiling* mask, GM_ADDR query_ends, GM_ADDR key_ends,
                              GM_ADDR prefix, GM_ADDR offsets) {
    group_ = keys->group;
    query_steps_.Init(queries, mask, query_ends, key_ends, prefix, offsets);
    key_items_.Init(keys, mask, query_ends, key_ends, prefix, offsets);
    index_ = head_ = row_ = end_ = 0;
    tile_ = -1;
    head_end_ = 0;
  }

  // False if there is none left.
  __aicore__ inline bool Next(GradStep* step) {
    KeyStep part{};
    if (query_steps_.Next(&part)) {
      tile_ = part.tile;
      *step = {part.item, index_++,  part.tile,  false,     part.item.row, part.item.rows,
               part.key,  part.keys, part.first, part.last, false,         false};
      return true;
    }
    return NextOfKeys(step);
  }

 private:
  __aicore__ inline bool NextOfKeys(GradStep* step) {
    step->first = head_ >= head_end_;
    if (step->first) {
      if (!key_items_.Next(&item_)) return false;
      ++tile_;
      const QuerySpan span =
          SpanOf(VisibleQueries{item_.visible, item_.queries}, item_.row, item_.rows);
      begin_ = span.begin;
      end_ = span.end;
      head_ = item_.head * group_;
      // Without queries there is one empty step.
      head_end_ = end_ > begin_ ? head_ + group_ : head_ + 1;
      row_ = begin_;
    }
    const auto rows = static_cast<int32_t>(Min(kStepKeys, end_ - row_));
    const bool head_ends = row_ + rows >= end_;
    *step = {item_,          index_++,
             tile_,          true,
             row_,           rows,
             item_.row,      Keys(rows, step->first),
             step->first,    head_ends && head_ + 1 == head_end_,
             row_ == begin_, head_ends};
    step->item.head = head_;
    row_ += rows;
    if (head_ends) {
      ++head_;
      row_ = begin_;
    }
    return true;
  }

  // Number of the tile's keys that the queries see, from the first on. The first step has all,
  // because it initialises the sums.
  __aicore__ inline int32_t Keys(int32_t rows, bool first) const {
    if (first) return item_.rows;
    const int64_t seen = item_.visible.High(row_ + rows - 1) - item_.row;
    return static_cast<int32_t>(Min(item_.rows, (Max(seen, 1) + 15) / 16 * 16));
  }

  KeySteps query_steps_;
  WorkItems key_items_;
  WorkItem item_{};
  int64_t group_ = 1, index_ = 0, tile_ = -1;
  int64_t head_ = 0, head_end_ = 0, row_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace nsa::ascend
