// How NsaCompressAttentionInfer is cut up for the cores.
#pragma once

#include "ascendc/decoding/op_host/ranking_plan.h"
#include "ascendc/decoding/op_host/split_plan.h"
#include "ascendc/nsa_compress_attention_infer/op_kernel/nsa_compress_attention_infer_tiling.h"

namespace nsa::ascend {

// Fills the tiling data and returns the number of cube cores to use, at most `cores`. `ub_bytes`:
// of the UB, that a kernel may use. What `call` says of its keys and scores is not read.
int32_t tile_nsa_compress_attention_infer(SplitCall call, const RankingRule& rule, int32_t cores,
                                          uint32_t ub_bytes,
                                          NsaCompressAttentionInferTilingData* tiling);

}  // namespace nsa::ascend
