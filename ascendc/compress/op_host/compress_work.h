// The total work of the segments of a call of NsaCompress, and where a share of it begins.
#pragma once

#include <algorithm>
#include <vector>

#include "ascendc/compress/compress_shape.h"
#include "infer/seq.h"

namespace nsa::ascend {

struct CompressSizes {
  int64_t tokens, rows;  // of input; of output or outputGrad
  int32_t heads, dim, block_size, stride;
};

// The part of the tiling data that is the call itself.
template <class Tiling>
void set_sizes(const CompressSizes& sizes, const SeqList& list, Tiling* t) {
  t->tokens = sizes.tokens;
  t->segments = static_cast<int64_t>(list.size());
  t->rows = sizes.rows;
  t->heads = sizes.heads;
  t->dim = sizes.dim;
  t->block_size = sizes.block_size;
  t->stride = sizes.stride;
}

class CompressWork {
 public:
  // A segment and what the segments before it hold.
  struct Place {
    int64_t segment, windows_before, slices_before, uncovered_before;
  };

  CompressWork(const SeqList& list, WindowShape shape) : shape_(shape) {
    for (std::vector<int64_t>* sums : {&windows_, &slices_, &uncovered_}) {
      sums->reserve(list.size() + 1);
      sums->push_back(0);
    }
    for (size_t b = 0; b < list.size(); ++b) {
      const int64_t tokens = segment_length(list, b);
      const int64_t windows = shape.Windows(tokens);
      const int64_t slices = shape.CoveredSlices(windows);
      windows_.push_back(windows_.back() + windows);
      slices_.push_back(slices_.back() + slices);
      uncovered_.push_back(uncovered_.back() + tokens - slices * kSliceTokens);
    }
  }

  int64_t windows() const { return windows_.back(); }
  int64_t slices() const { return slices_.back(); }        // covered by windows
  int64_t uncovered() const { return uncovered_.back(); }  // tokens in no window

  // Where a window, a covered slice or an uncovered token is, counted over all segments; each must
  // exist.
  Place of_window(int64_t window) const { return place(segment_of(windows_, window)); }
  Place of_slice(int64_t slice) const { return place(segment_of(slices_, slice)); }
  Place of_uncovered(int64_t token) const { return place(segment_of(uncovered_, token)); }

  // The first window that begins at or after a cost, when a window costs the slices that it covers
  // and its predecessors in the segment do not. The costs of all windows are slices() together.
  int64_t window_at_cost(int64_t cost) const {
    if (cost >= slices()) return windows();
    const Place at = of_slice(cost);
    const int64_t within = cost - at.slices_before;
    const int64_t overlap = shape_.block - shape_.stride;
    const int64_t window =
        within == 0 ? 0 : ceil_div(std::max<int64_t>(within - overlap, 1), shape_.stride);
    return std::min(at.windows_before + window, windows_[at.segment + 1]);
  }

 private:
  static int64_t segment_of(const std::vector<int64_t>& sums, int64_t position) {
    return std::upper_bound(sums.begin(), sums.end(), position) - sums.begin() - 1;
  }
  Place place(int64_t segment) const {
    return {segment, windows_[segment], slices_[segment], uncovered_[segment]};
  }

  WindowShape shape_;
  std::vector<int64_t> windows_, slices_, uncovered_;  // prefix sums, [B + 1]
};

// Most heads, at least one, for which `fits` holds.
template <class Fits>
int32_t largest_tile(int32_t heads, Fits fits) {
  while (heads > 1 && !fits(heads)) --heads;
  return heads;
}

// Slices of tokens for a step of about this many bytes, which is what a transfer needs to reach the
// memory's rate, as far as they fit.
constexpr uint32_t kStepBytes = 32 * 1024;
template <class Fits>
int32_t slices_of_step(int32_t columns, Fits fits) {
  int32_t slices = std::max<int32_t>(1, kStepBytes / (SliceFloatBytes(columns) / 2));
  while (slices > 1 && !fits(slices)) --slices;
  return slices;
}

}  // namespace nsa::ascend
