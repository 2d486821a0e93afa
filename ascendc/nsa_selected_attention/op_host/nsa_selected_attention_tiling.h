// How NsaSelectedAttention is cut up for the cores.
#pragma once

#include "ascendc/attention/op_host/selection_plan.h"
#include "ascendc/nsa_selected_attention/op_kernel/nsa_selected_attention_tiling.h"

namespace nsa::ascend {

// Fills the tiling data and returns the number of cube cores to use, at most `cores`. `ub_bytes`:
// of the UB, that a kernel may use.
int32_t tile_nsa_selected_attention(const SelectedCall& call, int32_t cores, uint32_t ub_bytes,
                                    NsaSelectedAttentionTilingData* tiling);

// Bytes of the workspace of `cores` cube cores.
int64_t nsa_selected_attention_workspace(const NsaSelectedAttentionTilingData& tiling,
                                         int32_t cores);

}  // namespace nsa::ascend
