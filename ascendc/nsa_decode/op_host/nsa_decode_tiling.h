// How NsaDecode is cut up for the cores.
#pragma once

#include "ascendc/nsa_compress_attention_infer/op_host/nsa_compress_attention_infer_tiling.h"
#include "ascendc/nsa_decode/op_kernel/nsa_decode_tiling.h"
#include "ascendc/nsa_selected_attention_infer/op_host/nsa_selected_attention_infer_tiling.h"

namespace nsa::ascend {

// A call that infer/ has accepted. Nobody reads the keys and scores of the branches' calls.
struct DecodeCall {
  SplitCall compressed, selected, window;
  RankingRule ranking;
  int64_t window_tokens;
};

// Fills the tiling data and returns the number of cube cores to use, at most `cores`. `ub_bytes`:
// of the UB, that a kernel may use.
int32_t tile_nsa_decode(const DecodeCall& call, int32_t cores, uint32_t ub_bytes,
                        NsaDecodeTilingData* tiling);

// Bytes of the operator's own workspace.
int64_t nsa_decode_workspace(const NsaDecodeTilingData& tiling, int32_t cores);

}  // namespace nsa::ascend
