// The tiles of one core, and the steps over the keys of each, in the order in which cube and
// vectors walk them.
#pragma once

#include "ascendc/attention/attention_tiling.h"
#include "kernel_operator.h"

namespace nsa::ascend {

// A tile: some queries, or keys, of one head of one segment.
struct WorkItem {
  int64_t segment;
  int64_t head;  // of the queries; of a tile of keys their own
  int64_t row;   // first query of the tile, in the segment
  int32_t rows;
  int64_t query_start;  // first token of the segment, 0 where there is a batch
  int64_t key_start;
  int64_t queries;        // of the segment
  int64_t scores_before;  // queries times keys, of the segments before this one
  VisibleKeys visible;
};

class WorkItems {
 public:
  __aicore__ inline void Init(const WorkTiling* work, const MaskTiling* mask, GM_ADDR query_ends,
                              GM_ADDR key_ends, GM_ADDR prefix, GM_ADDR offsets = nullptr) {
    work_ = work;
    mask_ = mask;
    query_ends_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(query_ends));
    key_ends_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(key_ends));
    prefix_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(prefix));
    offsets_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(offsets));
    block_ = AscendC::GetBlockIdx() / AscendC::GetTaskRation();
    blocks_ = AscendC::GetBlockNum();
    segment_ = -1;
    if (work->dealt != 0) return;
    left_ = work->item_count[block_];
    if (left_ == 0) return;
    Enter(work->first_segment[block_]);
    item_.scores_before = work->first_score[block_];
    next_ = work->first_item[block_];
  }

  // False if there is none left.
  __aicore__ inline bool Next(WorkItem* item) {
    return work_->dealt != 0 ? NextDealt(item) : NextInRow(item);
  }

 private:
  __aicore__ inline void Enter(int64_t segment) {
    segment_ = segment;
    item_.segment = segment;
    if (work_->packed != 0) {
      item_.scores_before += item_.queries * keys_;
      item_.query_start = segment > 0 ? query_ends_.GetValue(segment - 1) : 0;
      item_.key_start = segment > 0 ? key_ends_.GetValue(segment - 1) : 0;
      item_.queries = query_ends_.GetValue(segment) - item_.query_start;
      keys_ = key_ends_.GetValue(segment) - item_.key_start;
    } else {
      item_.query_start = 0;
      item_.key_start = 0;
      item_.queries = work_->queries;
      keys_ = work_->keys;
      item_.scores_before = segment * item_.queries * keys_;
    }
    const int64_t prefix = mask_->has_prefix != 0 ? prefix_.GetValue(segment) : 0;
    item_.visible = VisibleInBand(segment == mask_->band_segment ? mask_->band : mask_->other,
                                  item_.queries, keys_, prefix);
    item_.visible.compress_block = mask_->compress_block;
    item_.visible.compress_stride = mask_->compress_stride;
    if (mask_->has_offset != 0) item_.visible.StartAt(offsets_.GetValue(segment));
    rows_ = work_->by_keys != 0 ? keys_ : item_.queries;
    tiles_ = (rows_ + work_->tile_rows - 1) / work_->tile_rows;
    next_ = 0;
  }

  __aicore__ inline void Set(int64_t tile, int64_t head, WorkItem* item) {
    item_.head = head;
    item_.row = tile * work_->tile_rows;
    item_.rows = static_cast<int32_t>(Min(work_->tile_rows, rows_ - item_.row));
    *item = item_;
  }

  __aicore__ inline bool NextDealt(WorkItem* item) {
    const int64_t rank = round_ * blocks_ + (round_ % 2 == 0 ? block_ : blocks_ - 1 - block_);
    // In the last round, which may not be full, the others have no item either way.
    if (rank >= work_->items) return false;
    const bool together = work_->together != 0;
    const int64_t alike = (together ? 1 : work_->segments) * work_->heads;
    const int64_t which = rank % alike, segment = together ? entry_ : which / work_->heads;
    entry_ = together ? (entry_ + 1) % work_->segments : 0;
    if (entry_ == 0) ++round_;
    if (segment != segment_) Enter(segment);
    // The last queries see most keys, and the first keys are seen by most queries.
    const int64_t tile = rank / alike;
    Set(work_->by_keys != 0 ? tile : tiles_ - 1 - tile, which % work_->heads, item);
    return true;
  }

  __aicore__ inline bool NextInRow(WorkItem* item) {
    if (left_ == 0) return false;
    while (next_ == tiles_ * work_->heads) Enter(segment_ + 1);
    Set(next_ / work_->heads, next_ % work_->heads, item);
    ++next_;
    --left_;
    return true;
  }

  const WorkTiling* work_ = nullptr;
  const MaskTiling* mask_ = nullptr;
  AscendC::GlobalTensor<int64_t> query_ends_, key_ends_, prefix_, offsets_;
  WorkItem item_{};
  int64_t block_ = 0, blocks_ = 1, segment_ = -1, keys_ = 0, rows_ = 0, tiles_ = 0;
  int64_t round_ = 0, entry_ = 0, next_ = 0, left_ = 0;
};

// Some consecutive keys for all queries of a tile.
struct KeyStep {
  WorkItem item;
  int64_t index;     // of the core's steps
  int64_t tile;      // of the core's tiles
  int64_t key;       // first key, in the segment
  int32_t keys;      // 0: the tile sees no key at all
  bool first, last;  // of the tile
};

class KeySteps {
 public:
  template <typename... Arguments>
  __aicore__ inline void Init(Arguments... arguments) {
    items_.Init(arguments...);
    index_ = key_ = end_ = 0;
    tile_ = -1;
  }
  // False if there is none left.
  __aicore__ inline bool Next(KeyStep* step) {
    step->first = key_ >= end_;
    if (step->first) {
      if (!items_.Next(&item_)) return false;
      const KeySpan span = SpanOf(item_.visible, item_.row, item_.rows);
      ++tile_;
      key_ = span.begin;
      end_ = span.end;
    }
    step->item = item_;
    step->index = index_++;
    step->tile = tile_;
    step->key = key_;
    step->keys = static_cast<int32_t>(Min(kStepKeys, end_ - key_));
    key_ += step->keys;
    step->last = key_ >= end_;
    return true;
  }

 private:
  WorkItems items_;
  WorkItem item_{};
  int64_t index_ = 0, tile_ = -1, key_ = 0, end_ = 0;
};

}  // namespace nsa::ascend
