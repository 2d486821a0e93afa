// The steps of one core of NsaCompress: which tokens to load, and which windows they belong to.
#pragma once

#include "ascendc/compress/segment_cursor.h"
#include "ascendc/nsa_compress/op_kernel/nsa_compress_tiling.h"

namespace nsa::ascend {

// A few consecutive slices of tokens of one segment. Windows are counted within the segment.
struct NsaCompressStep {
  int64_t token;         // first token of the step
  int64_t slice;         // that token / 16, counted from the start of the segment
  int64_t window_begin;  // the core's windows of this segment
  int64_t window_end;
  int64_t row;  // of output, of the segment's window 0
  int32_t slices;
  int32_t tile;
};

class NsaCompressSteps {
 public:
  __aicore__ inline void Init(GM_ADDR act_seq_len, const NsaCompressTilingData& tiling,
                              int32_t core) {
    shape_ = ShapeOf(tiling);
    windows_ = tiling.windows;
    step_slices_ = tiling.step_slices;
    unit_ = tiling.unit_begin[core];
    unit_end_ = tiling.unit_begin[core + 1];
    cursor_.Init(act_seq_len, tiling.segments, shape_);
    if (unit_ < unit_end_) {
      cursor_.Start(tiling.first_segment[core], tiling.windows_before[core], 0);
      tile_ = static_cast<int32_t>(unit_ / windows_);
    }
  }

  // False if there is none left.
  __aicore__ inline bool Next(NsaCompressStep* step) {
    if (slice_ == slice_end_) {
      if (unit_ == unit_end_) return false;
      NextRun();
    }
    step->token = cursor_.begin + slice_ * kSliceTokens;
    step->slice = slice_;
    step->window_begin = window_begin_;
    step->window_end = window_end_;
    step->row = cursor_.first_window;
    step->slices = static_cast<int32_t>(Min(step_slices_, slice_end_ - slice_));
    step->tile = tile_;
    slice_ += step->slices;
    return true;
  }

 private:
  // The windows of the next segment, as far as they are this core's.
  __aicore__ inline void NextRun() {
    const int32_t tile = static_cast<int32_t>(unit_ / windows_);
    const int64_t window = unit_ - tile * windows_;
    if (tile != tile_) {
      tile_ = tile;
      cursor_.Start(0, 0, 0);
    }
    cursor_.SeekWindow(window);
    window_begin_ = window - cursor_.first_window;
    window_end_ = Min(cursor_.windows, window_begin_ + unit_end_ - unit_);
    unit_ += window_end_ - window_begin_;
    slice_ = window_begin_ * shape_.stride;
    slice_end_ = (window_end_ - 1) * shape_.stride + shape_.block;
  }

  SegmentCursor cursor_;
  WindowShape shape_{};
  int64_t windows_ = 0, unit_ = 0, unit_end_ = 0;
  int64_t window_begin_ = 0, window_end_ = 0, slice_ = 0, slice_end_ = 0;
  int32_t tile_ = 0, step_slices_ = 0;
};

}  // namespace nsa::ascend
