// Walks the segments of a packed sequence in a kernel, empty and short ones included.
#pragma once

#include "ascendc/compress/compress_shape.h"
#include "kernel_operator.h"

namespace nsa::ascend {

class SegmentCursor {
 public:
  __aicore__ inline void Init(GM_ADDR act_seq_len, int64_t segments, WindowShape shape) {
    list_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(act_seq_len), segments);
    shape_ = shape;
  }
  // Stands at a segment with these many windows and covered slices before it.
  __aicore__ inline void Start(int64_t segment, int64_t windows_before, int64_t slices_before) {
    segment_ = segment;
    first_window = windows_before;
    first_slice = slices_before;
    begin = segment == 0 ? 0 : list_.GetValue(segment - 1);
    Measure();
  }
  __aicore__ inline void Next() {
    first_window += windows;
    first_slice += slices;
    begin = end;
    ++segment_;
    Measure();
  }
  // To the segment that holds a window, or a covered slice, that is not before this one.
  __aicore__ inline void SeekWindow(int64_t window) {
    while (window >= first_window + windows) Next();
  }
  __aicore__ inline void SeekSlice(int64_t slice) {
    while (slice >= first_slice + slices) Next();
  }

  int64_t begin = 0, end = 0;                 // tokens of the segment
  int64_t windows = 0, slices = 0;            // its own: windows, and slices they cover
  int64_t first_window = 0, first_slice = 0;  // of all windows, of all covered slices

 private:
  __aicore__ inline void Measure() {
    end = list_.GetValue(segment_);
    windows = shape_.Windows(end - begin);
    slices = shape_.CoveredSlices(windows);
  }

  AscendC::GlobalTensor<int64_t> list_;  // prefix sums, [segments]
  WindowShape shape_{};
  int64_t segment_ = 0;
};

}  // namespace nsa::ascend
