// Tiling data of NsaCompressGrad, written by op_host and read by the kernel, and its use of the UB.
#pragma once

#include "ascendc/compress/compress_shape.h"

namespace nsa::ascend {

// The covered slices of all segments, in order, are cut into `chunks` of equal size (+-1). A work
// item is a chunk of one head tile: item = tile * chunks + chunk. The cut depends on the problem
// alone, because weight_grad is the sum of one partial sum per chunk, taken in the order of the
// chunks: neither the number of cores nor the head tile changes a bit.
struct NsaCompressGradTilingData {
  int64_t tokens;       // T
  int64_t segments;     // B, entries of actSeqLen
  int64_t rows;         // of outputGrad; those past the windows are not read
  int64_t slices;       // covered, of all segments
  int64_t uncovered;    // tokens that no window covers
  int32_t heads;        // N
  int32_t dim;          // D
  int32_t block_size;   // l
  int32_t stride;       // s
  int32_t chunks;       // 0 if there is no window
  int32_t tile_heads;   // heads of a head tile; the last one may have fewer
  int32_t tiles;        // head tiles
  int32_t step_slices;  // slices of tokens that one step loads
  // Where a core's first item begins: the segment, and what the segments before it hold.
  int64_t first_segment[kMaxCores];
  int64_t windows_before[kMaxCores];
  int64_t slices_before[kMaxCores];
  // Where its share of the uncovered tokens begins.
  int64_t clear_segment[kMaxCores];
  int64_t clear_before[kMaxCores];  // uncovered tokens of the segments before it
};
static_assert(sizeof(NsaCompressGradTilingData) <= kMaxTilingBytes);

// First item, slice or token of share `k` of `shares` equal ones (+-1) of `count`.
__aicore__ constexpr int64_t ShareBegin(int64_t count, int64_t k, int64_t shares) {
  return count / shares * k + count % shares * k / shares;
}

// Rows of outputGrad that are in float at a time: all that a step needs.
__aicore__ constexpr int32_t OpenRows(int32_t block_size, int32_t stride, int32_t step_slices) {
  return WindowShape{block_size / kSliceTokens, stride / kSliceTokens}.MostOver(step_slices);
}

// Bytes of the kernel's buffers for a head tile.
struct NsaCompressGradBuffers {
  uint32_t step;     // input, and inputGrad, of one step, 16-bit [step_slices * 16, columns], twice
  uint32_t rows;     // new rows of outputGrad, 16-bit [open rows, columns], twice
  uint32_t open;     // outputGrad of the open windows in float [open rows, columns]
  uint32_t slice;    // input, and inputGrad, of one slice in float [16, columns]
  uint32_t dots;     // products on their way to weightGrad, [16, heads, 64]
  uint32_t blocks;   // the same, added up to one block: [16, heads, 8]
  uint32_t grads;    // weightGrad of the item, [l, heads, 8]
  uint32_t partial;  // the same, added up: [l, heads padded to 8]
  uint32_t weights;  // spread and raw
  uint32_t scratch;  // while the weight is prepared

  __aicore__ constexpr NsaCompressGradBuffers(int32_t block_size, int32_t stride, int32_t heads,
                                              int32_t dim, int32_t step_slices)
      : step(SliceFloatBytes(heads * dim) / 2 * step_slices),
        rows(static_cast<uint32_t>(OpenRows(block_size, stride, step_slices) * heads * dim) * 2),
        open(rows * 2),
        slice(SliceFloatBytes(heads * dim)),
        dots(static_cast<uint32_t>(kSliceTokens * heads * kRepeatFloats) * 4),
        blocks(static_cast<uint32_t>(kSliceTokens * heads) * kBlockBytes),
        grads(WeightBytes(block_size, heads)),
        partial(static_cast<uint32_t>(block_size * CeilDiv(heads, kBlockFloats)) * kBlockBytes),
        weights(WeightBytes(block_size, heads) + RawWeightBytes(block_size, heads)),
        scratch(WeightScratchBytes(heads)) {}
  __aicore__ constexpr uint32_t Total() const {
    return 4 * step + 2 * rows + open + 2 * slice + dots + blocks + grads + partial + weights +
           scratch;
  }
};

// One head always fits, whatever the sizes within the limits of infer/limits.h.
static_assert(NsaCompressGradBuffers(128, 16, 1, 256, 1).Total() <= kUbBytes);

// The second phase adds up partial sums [chunks, l * N], 16 chunks and so many columns at a time.
constexpr int32_t kSumColumns = 1024;
static_assert(2 * kSliceTokens * kSumColumns * 4 + kSumColumns * 4 + 2 * kSumColumns * 2 <=
              kUbBytes);

}  // namespace nsa::ascend
