// How NsaCompressAttention is cut up for the cores.
#pragma once

#include "ascendc/attention/op_host/attention_plan.h"
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_tiling.h"
#include "infer/seq.h"

namespace nsa::ascend {

// A call that infer/ has accepted.
struct CompressAttentionCall {
  int64_t queries = 0, keys = 0;  // T1, T2
  int64_t heads = 1, key_heads = 1, dim = 0, value_dim = 0;
  SeqList query_ends, key_ends;
  SeqList query_offsets;  // empty: zeros
  SelectionRule rule{};
  int64_t count = 0, init_blocks = 0, local_blocks = 0;
  int64_t mask_row = 0, topk_mask_row = 0;  // columns of the masks, 0 where there is none
  float scale = 1;
};

// Fills the tiling data and returns the number of cube cores to use, at most `cores`. `ub_bytes`:
// of the UB, that a kernel may use.
int32_t tile_nsa_compress_attention(const CompressAttentionCall& call, int32_t cores,
                                    uint32_t ub_bytes, NsaCompressAttentionTilingData* tiling);

// Bytes of the workspace of `cores` cube cores.
int64_t nsa_compress_attention_workspace(const NsaCompressAttentionTilingData& tiling,
                                         int32_t cores);

}  // namespace nsa::ascend
