// Reduces layouts, sequence lists and mask modes to a plan. Host side only.
#pragma once

#include <vector>

#include "cpu/engine/plan/plan.h"
#include "cpu/params.h"

namespace nsa::cpu {

// Fills plan. Its segments are in the vector given back, which must outlive it.
[[nodiscard]] std::vector<Segment> make_plan(const FlashAttentionScoreParams& p,
                                             AttentionPlan& plan);

// The tensors of an operator on packed inputs as FlashAttentionScore's in TND layout, every key
// visible.
template <class Params>
FlashAttentionScoreParams packed_flash_params(const Params& p, const int64_t* seq_kv) {
  FlashAttentionScoreParams f{};
  f.query = p.query;
  f.key = p.key;
  f.value = p.value;
  f.seq_q = p.seq_q;
  f.seq_kv = seq_kv;
  f.attention_out = p.attention_out;
  f.softmax_max = p.softmax_max;
  f.softmax_sum = p.softmax_sum;
  f.layout = Layout::kTND;
  f.dtype = p.dtype;
  f.B = p.B;
  f.N1 = p.N1;
  f.N2 = p.N2;
  f.S1 = p.T1;
  f.S2 = p.T2;
  f.D = p.D;
  f.Dv = p.Dv;
  f.sparse_mode = 1;
  f.scalar_value = p.scale_value;
  return f;
}

// The visible interval of segment b, without its sparse_mode 7/8 exception and without kv_len.
RowRange make_range(const FlashAttentionScoreParams& p, int64_t sparse_mode, int64_t b,
                    int64_t q_len, int64_t kv_len);

}  // namespace nsa::cpu
