// Tiling data of NsaCompress, written by op_host and read by the kernel, and its use of the UB.
#pragma once

#include "ascendc/compress/compress_shape.h"

namespace nsa::ascend {

// A unit of work is one window of one head tile: unit = tile * windows + window. Core k computes
// the units unit_begin[k] ... unit_begin[k + 1] - 1.
struct NsaCompressTilingData {
  int64_t tokens;       // T
  int64_t segments;     // B, entries of actSeqLen
  int64_t windows;      // of all segments
  int64_t rows;         // of output, at least `windows`; the others become zero
  int32_t heads;        // N
  int32_t dim;          // D
  int32_t block_size;   // l
  int32_t stride;       // s
  int32_t tile_heads;   // heads of a head tile; the last one may have fewer
  int32_t step_slices;  // slices of tokens that one step loads
  int64_t unit_begin[kMaxCores + 1];
  int64_t first_segment[kMaxCores];   // that of the core's first window
  int64_t windows_before[kMaxCores];  // windows of the segments before it
};
static_assert(sizeof(NsaCompressTilingData) <= kMaxTilingBytes);

// Blocks of 32 bytes fall into 16 sets of banks in turn; a repeat takes half of them.
constexpr uint32_t kBankRound = 512;
constexpr uint32_t kHalfRound = kBankRound / 2;

// Bytes of the kernel's buffers for a head tile.
struct NsaCompressBuffers {
  uint32_t step;      // x of one step, 16-bit [step_slices * 16, columns], twice
  uint32_t row;       // an output row, 16-bit [columns], twice
  uint32_t slice;     // x of one slice in float [16, columns]
  uint32_t products;  // [16, columns] after half a round of the banks; scratch for the weight
  uint32_t sums;      // of the open windows, [open, columns]
  uint32_t weights;   // spread and raw

  __aicore__ constexpr NsaCompressBuffers(int32_t block_size, int32_t stride, int32_t heads,
                                          int32_t dim, int32_t step_slices)
      : step(SliceFloatBytes(heads * dim) / 2 * step_slices),
        row(static_cast<uint32_t>(heads * dim) * 2),
        slice(SliceFloatBytes(heads * dim)),
        products(
            static_cast<uint32_t>(Max(SliceFloatBytes(heads * dim), WeightScratchBytes(heads))) +
            kHalfRound),
        sums(CeilDiv(static_cast<uint32_t>(CeilDiv(block_size, stride) * heads * dim) * 4,
                     kBankRound) *
             kBankRound),
        weights(WeightBytes(block_size, heads) + RawWeightBytes(block_size, heads)) {}
  __aicore__ constexpr uint32_t Total() const {
    return 2 * step + 2 * row + slice + products + sums + weights;
  }
};

// One head always fits, whatever the sizes within the limits of infer/limits.h.
static_assert(NsaCompressBuffers(128, 16, 1, 256, 1).Total() <= kUbBytes);
static_assert(TileFitsInstructions(1, 256));

}  // namespace nsa::ascend
