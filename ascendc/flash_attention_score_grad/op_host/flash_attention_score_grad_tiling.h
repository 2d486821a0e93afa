// How FlashAttentionScoreGrad is cut up for the cores.
#pragma once

#include "ascendc/attention/op_host/attention_plan.h"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad_tiling.h"

namespace nsa::ascend {

// Fills the tiling data and returns the number of cube cores to use, at most `cores`. `ub_bytes`:
// of the UB, that a kernel may use.
int32_t tile_flash_attention_score_grad(const FlashCall& call, int32_t cores, uint32_t ub_bytes,
                                        FlashAttentionScoreGradTilingData* tiling);

// Bytes of the workspace of `cores` cube cores.
int64_t flash_attention_score_grad_workspace(const FlashAttentionScoreGradTilingData& tiling,
                                             int32_t element_bytes, int32_t cores);

}  // namespace nsa::ascend
