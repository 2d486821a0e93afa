// How NsaSelectedAttentionInfer is cut up for the cores.
#pragma once

#include "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_tiling.h"

namespace nsa::ascend {

// A call that infer/ has accepted; the lengths of its rows are known on the device alone.
struct SelectedInferCall {
  int64_t pages, page, places;  // places: of block_table, 0: there is none
  int64_t batch, queries;
  int64_t n1, n2, d, dv;
  int64_t block_size, block_count;
  float scale;
};

// Fills the tiling data and returns the number of cube cores to use, at most `cores`.
int32_t tile_nsa_selected_attention_infer(const SelectedInferCall& call, int32_t cores,
                                          NsaSelectedAttentionInferTilingData* tiling);

// Bytes of the operator's own workspace.
int64_t nsa_selected_attention_infer_workspace(const NsaSelectedAttentionInferTilingData& tiling,
                                               int32_t cores);

}  // namespace nsa::ascend
