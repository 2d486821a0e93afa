// Tiling data of NsaSelectedAttentionInfer, written by op_host and read by the kernel.
#pragma once

#include "ascendc/decoding/split_tiling.h"

namespace nsa::ascend {

constexpr int32_t kMostQueryBlocks = 128;  // blocks of a query

struct NsaSelectedAttentionInferTilingData {
  SplitTiling splits;
  int64_t block_size, block_count;
};
static_assert(sizeof(NsaSelectedAttentionInferTilingData) <= kMaxTilingBytes);

}  // namespace nsa::ascend
