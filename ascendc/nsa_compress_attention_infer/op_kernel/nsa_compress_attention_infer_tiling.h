// Tiling data of NsaCompressAttentionInfer, written by op_host and read by the kernel.
#pragma once

#include "ascendc/decoding/ranked_splits.h"

namespace nsa::ascend {

// The keys of a decode row are the compressed tokens that its query sees.
struct NsaCompressAttentionInferTilingData {
  SplitTiling splits;
  RankingTiling ranking;  // one query; causal: the rows' tokens are known
  int64_t window_tokens;  // l
  int64_t stride;         // s
  int64_t most_tokens;    // of a row
};
static_assert(sizeof(NsaCompressAttentionInferTilingData) <= kMaxTilingBytes);

}  // namespace nsa::ascend
