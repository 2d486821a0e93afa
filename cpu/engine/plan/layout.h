// Reduces layouts, sequence lists and mask modes to a plan. Host side only.
#pragma once

#include <vector>

#include "cpu/engine/plan/plan.h"
#include "cpu/params.h"

namespace nsa::cpu {

// Fills plan. Its segments are in the vector given back, which must outlive it.
[[nodiscard]] std::vector<Segment> make_plan(const FlashAttentionScoreParams& p,
                                             AttentionPlan& plan);

// The tensors of a call and how they lie, which every attention has.
struct AttentionTensors {
  const void *query, *key, *value;
  void* out;
  float *softmax_max, *softmax_sum;
  const int64_t *seq_q, *seq_kv;  // [B] of packed tensors
  Layout layout;
  ElemType dtype;
  int64_t B, N1, N2, S1, S2, D, Dv;  // of packed tensors S1 and S2 are of all segments
  float scale;
};

// Fills plan with tensors and segments of packed inputs, every key being visible.
[[nodiscard]] std::vector<Segment> make_packed_plan(const AttentionTensors& x, AttentionPlan& plan);

template <class Params>
[[nodiscard]] std::vector<Segment> make_packed_plan(const Params& p, const int64_t* seq_kv,
                                                    AttentionPlan& plan) {
  return make_packed_plan({p.query, p.key, p.value, p.attention_out, p.softmax_max, p.softmax_sum,
                           p.seq_q, seq_kv, Layout::kTND, p.dtype, p.B, p.N1, p.N2, p.T1, p.T2, p.D,
                           p.Dv, static_cast<float>(p.scale_value)},
                          plan);
}

// The visible interval of segment b, without its sparse_mode 7/8 exception and without kv_len.
RowRange make_range(const FlashAttentionScoreParams& p, int64_t sparse_mode, int64_t b,
                    int64_t q_len, int64_t kv_len);

}  // namespace nsa::cpu
