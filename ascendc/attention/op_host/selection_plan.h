// From what a call on selected blocks says to the tiling data that its kernels share.
#pragma once

#include "ascendc/attention/op_host/attention_plan.h"
#include "ascendc/attention/selection_sizes.h"

namespace nsa::ascend {

// A call of NsaSelectedAttention or its gradient that infer/ has accepted.
struct SelectedCall {
  int64_t t1 = 0, t2 = 0, n1 = 0, n2 = 0, d = 0, dv = 0;
  SeqList query_ends, key_ends;
  SeqList query_offsets;  // empty: zeros
  int64_t block_size = 0, block_count = 0;
  bool causal = false;
  bool sum_grad = false;  // given to a gradient: that of softmax_sum
  float scale = 1;
  int64_t tile_queries = 0;  // at most; 0: as many as fit

  // The call as attention of the key heads, each with the queries of its group.
  FlashCall attention() const;
  SelectionTiling selection() const;
  // Queries of a tile that has room for `most`.
  int32_t queries_of(int32_t most) const {
    return tile_queries > 0 ? static_cast<int32_t>(Min(most, tile_queries)) : most;
  }
};

}  // namespace nsa::ascend
