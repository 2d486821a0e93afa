// Shared by the tiling on the host and the kernels of NsaCompress and NsaCompressGrad: slices of
// tokens, windows counted in slices.
#pragma once

#include "ascendc/common/machine.h"

namespace nsa::ascend {

// l and s are multiples of 16, so a window covers whole slices of 16 tokens, counted from the start
// of its segment: within a slice every window uses 16 consecutive rows of the weight.
constexpr int32_t kSliceTokens = 16;

// Windows of one segment; everything in slices.
struct WindowShape {
  int32_t block;   // l / 16
  int32_t stride;  // s / 16

  __aicore__ constexpr int64_t Windows(int64_t tokens) const {
    const int64_t slices = tokens / kSliceTokens;
    return slices < block ? 0 : (slices - block) / stride + 1;
  }
  // Slices that at least one window covers: the first ones, because s <= l.
  __aicore__ constexpr int64_t CoveredSlices(int64_t windows) const {
    return windows == 0 ? 0 : (windows - 1) * stride + block;
  }
  // Windows that cover a slice are FirstOver(slice) ... LastOver(slice, windows).
  __aicore__ constexpr int64_t FirstOver(int64_t slice) const {
    return slice < block ? 0 : (slice - block) / stride + 1;
  }
  __aicore__ constexpr int64_t LastOver(int64_t slice, int64_t windows) const {
    return Min(windows - 1, slice / stride);
  }
  // Most windows over any `slices` consecutive slices.
  __aicore__ constexpr int32_t MostOver(int32_t slices) const {
    return CeilDiv(block, stride) + CeilDiv(slices - 1, stride);
  }
};

// Both operators' tiling data hold heads, dim, block_size, stride and tile_heads under these names.
template <typename Tiling>
__aicore__ constexpr WindowShape ShapeOf(const Tiling& t) {
  return {t.block_size / kSliceTokens, t.stride / kSliceTokens};
}
template <typename Tiling>
__aicore__ constexpr int32_t HeadsOfTile(const Tiling& t, int32_t tile) {
  return static_cast<int32_t>(Min(t.tile_heads, t.heads - tile * t.tile_heads));
}
// Elements of a token, or of a window.
template <typename Tiling>
__aicore__ constexpr int64_t RowSize(const Tiling& t) {
  return static_cast<int64_t>(t.heads) * t.dim;
}
// Where a head tile's columns of a row begin.
template <typename Tiling>
__aicore__ constexpr int64_t OffsetOf(const Tiling& t, int64_t row, int32_t tile) {
  return (row * t.heads + tile * t.tile_heads) * t.dim;
}

// Bytes of buffers that both kernels have. A head tile is a range of heads with all their columns;
// `columns` = its heads * D.
__aicore__ constexpr uint32_t WeightBytes(int32_t block_size, int32_t heads) {
  return static_cast<uint32_t>(block_size * heads) * kBlockBytes;
}
// One row of the weight as loaded: [heads] of a 16-bit type in whole blocks.
__aicore__ constexpr int32_t PaddedWeightHeads(int32_t heads) { return CeilDiv(heads, 16) * 16; }
__aicore__ constexpr uint32_t RawWeightBytes(int32_t block_size, int32_t heads) {
  return static_cast<uint32_t>(block_size * PaddedWeightHeads(heads)) * 2;
}
// 16 rows in float, then each value in all lanes of a block.
__aicore__ constexpr uint32_t WeightScratchBytes(int32_t heads) {
  return static_cast<uint32_t>(kSliceTokens * PaddedWeightHeads(heads)) * (4 + kBlockBytes);
}
__aicore__ constexpr uint32_t SliceFloatBytes(int32_t columns) {
  return static_cast<uint32_t>(kSliceTokens * columns) * 4;
}

// Largest head tile: the stride between the tokens of a slice, in blocks of floats, and the repeats
// that spread 16 rows of the weight have to fit into 8 bits.
__aicore__ constexpr bool TileFitsInstructions(int32_t heads, int32_t dim) {
  return heads * dim / kBlockFloats <= kMaxRepeats && heads * kBlockFloats <= kMaxRepeats &&
         2 * PaddedWeightHeads(heads) <= kMaxRepeats;
}

}  // namespace nsa::ascend
