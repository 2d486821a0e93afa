// How NsaSelectedAttentionGrad is cut up for the cores.
#pragma once

#include "ascendc/attention/op_host/selection_plan.h"
#include "ascendc/nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad_tiling.h"

namespace nsa::ascend {

// Fills the tiling data and returns the number of cube cores to use, at most `cores`.
int32_t tile_nsa_selected_attention_grad(const SelectedCall& call, int32_t cores,
                                         NsaSelectedAttentionGradTilingData* tiling);

// Bytes of the workspace of `cores` cube cores.
int64_t nsa_selected_attention_grad_workspace(const NsaSelectedAttentionGradTilingData& tiling,
                                              int32_t cores);

}  // namespace nsa::ascend
