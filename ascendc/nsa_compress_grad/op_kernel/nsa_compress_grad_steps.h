// The steps of one core of NsaCompressGrad: which tokens to load, and which rows of outputGrad.
#pragma once

#include "ascendc/compress/segment_cursor.h"
#include "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad_tiling.h"

namespace nsa::ascend {

// A few consecutive covered slices of tokens of one segment. Windows are counted within the
// segment.
struct NsaCompressGradStep {
  int64_t token;       // first token of the step
  int64_t slice;       // that token / 16, counted from the start of the segment
  int64_t windows;     // of the segment
  int64_t row;         // of outputGrad, of the segment's window 0
  int64_t new_window;  // first window of the step that no earlier step of this run has loaded
  int64_t chunk;
  int32_t new_windows;
  int32_t slices;
  int32_t tile;
  bool first;  // of its item
  bool last;
};

class NsaCompressGradSteps {
 public:
  __aicore__ inline void Init(GM_ADDR act_seq_len, const NsaCompressGradTilingData& tiling,
                              int32_t core, int64_t cores) {
    shape_ = ShapeOf(tiling);
    slices_ = tiling.slices;
    chunks_ = tiling.chunks;
    step_slices_ = tiling.step_slices;
    const int64_t items = static_cast<int64_t>(tiling.chunks) * tiling.tiles;
    item_ = ShareBegin(items, core, cores);
    item_end_ = ShareBegin(items, core + 1, cores);
    cursor_.Init(act_seq_len, tiling.segments, shape_);
    if (item_ < item_end_) {
      cursor_.Start(tiling.first_segment[core], tiling.windows_before[core],
                    tiling.slices_before[core]);
      tile_ = static_cast<int32_t>(item_ / chunks_);
    }
  }

  // False if there is none left.
  __aicore__ inline bool Next(NsaCompressGradStep* step) {
    step->first = slice_ == chunk_end_;
    if (step->first) {
      if (item_ == item_end_) return false;
      NextItem();
    }
    if (slice_ == run_end_) NextRun();
    const int64_t slice = slice_ - cursor_.first_slice;
    step->slices = static_cast<int32_t>(Min(step_slices_, run_end_ - slice_));
    step->token = cursor_.begin + slice * kSliceTokens;
    step->slice = slice;
    step->windows = cursor_.windows;
    step->row = cursor_.first_window;
    step->new_window = Max(loaded_, shape_.FirstOver(slice));
    loaded_ = shape_.LastOver(slice + step->slices - 1, cursor_.windows) + 1;
    step->new_windows = static_cast<int32_t>(loaded_ - step->new_window);
    step->chunk = item_ - 1 - static_cast<int64_t>(tile_) * chunks_;
    step->tile = tile_;
    slice_ += step->slices;
    step->last = slice_ == chunk_end_;
    return true;
  }

 private:
  __aicore__ inline void NextItem() {
    const int32_t tile = static_cast<int32_t>(item_ / chunks_);
    const int64_t chunk = item_ - static_cast<int64_t>(tile) * chunks_;
    if (tile != tile_) {
      tile_ = tile;
      cursor_.Start(0, 0, 0);
    }
    ++item_;
    slice_ = ShareBegin(slices_, chunk, chunks_);
    chunk_end_ = ShareBegin(slices_, chunk + 1, chunks_);
    run_end_ = slice_;
  }
  // The slices of the chunk that the next segment has.
  __aicore__ inline void NextRun() {
    cursor_.SeekSlice(slice_);
    run_end_ = Min(chunk_end_, cursor_.first_slice + cursor_.slices);
    loaded_ = 0;
  }

  SegmentCursor cursor_;
  WindowShape shape_{};
  int64_t slices_ = 0, chunks_ = 0, item_ = 0, item_end_ = 0;
  int64_t slice_ = 0, run_end_ = 0, chunk_end_ = 0;  // of all covered slices
  int64_t loaded_ = 0;                               // windows of the segment
  int32_t tile_ = 0, step_slices_ = 0;
};

}  // namespace nsa::ascend
