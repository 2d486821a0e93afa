// Tiling data of NsaCompressWithCache, written by op_host and read by the kernel, and its use of
// the UB.
#pragma once

#include "ascendc/compress/compress_shape.h"
#include "ascendc/decoding/row_tokens.h"

namespace nsa::ascend {

struct NsaCompressWithCacheTilingData {
  PagesTiling pages;   // of input
  int64_t batch;       // B
  int64_t slots;       // rows of cache
  int64_t block_size;  // l
  int64_t stride;      // s
  int32_t heads;       // N
  int32_t dim;         // D
  int32_t tile_heads;  // heads of a head tile; the last one may have fewer
};
static_assert(sizeof(NsaCompressWithCacheTilingData) <= kMaxTilingBytes);

// Bytes of the kernel's buffers for a head tile. A window is read in steps of 16 tokens.
struct NsaCompressWithCacheBuffers {
  uint32_t step;      // tokens of a step, 16-bit [16, columns], twice
  uint32_t weight;    // their rows of the weight, 16-bit [16, padded heads], twice
  uint32_t row;       // a window, 16-bit [columns], twice, and zeros
  uint32_t slice;     // the tokens in float [16, columns]
  uint32_t products;  // likewise; before that the weights on their way into `spread`
  uint32_t sums;      // of the window, [columns]
  uint32_t spread;    // each weight in all lanes of a block, [16, heads, 8]

  __aicore__ constexpr NsaCompressWithCacheBuffers(int32_t heads, int32_t dim)
      : step(SliceFloatBytes(heads * dim) / 2),
        weight(RawWeightBytes(kSliceTokens, heads)),
        row(static_cast<uint32_t>(heads * dim) * 2),
        slice(SliceFloatBytes(heads * dim)),
        products(
            static_cast<uint32_t>(Max(SliceFloatBytes(heads * dim), WeightScratchBytes(heads)))),
        sums(static_cast<uint32_t>(heads * dim) * 4),
        spread(WeightBytes(kSliceTokens, heads)) {}
  __aicore__ constexpr uint32_t Total() const {
    return 2 * (step + weight) + 3 * row + slice + products + sums + spread;
  }
};

// One head always fits, whatever the sizes within the limits of infer/limits.h.
static_assert(NsaCompressWithCacheBuffers(1, 512).Total() <= kUbBytes);
static_assert(TileFitsInstructions(1, 512));

}  // namespace nsa::ascend
