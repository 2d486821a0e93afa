// How NsaSelectedAttentionInfer is cut up for the cores.
#pragma once

#include "ascendc/decoding/op_host/split_plan.h"
#include "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_tiling.h"

namespace nsa::ascend {

// Fills the tiling data and returns the number of cube cores to use, at most `cores`. `call.keys`
// is not read: it follows from the blocks.
int32_t tile_nsa_selected_attention_infer(SplitCall call, int64_t block_size, int64_t block_count,
                                          int32_t cores,
                                          NsaSelectedAttentionInferTilingData* tiling);

}  // namespace nsa::ascend
