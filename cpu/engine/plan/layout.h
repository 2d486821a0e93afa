// Reduces the layouts of tensors and their sequence lists to a plan. Host side only.
#pragma once

#include <vector>

#include "cpu/engine/plan/plan.h"

namespace nsa::cpu {

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

// Fills plan with tensors and segments, every key being visible. The segments are in the vector
// given back, which must outlive the plan.
[[nodiscard]] std::vector<Segment> make_plan(const AttentionTensors& x, AttentionPlan& plan);

// The same of packed inputs.
template <class Params>
[[nodiscard]] std::vector<Segment> make_packed_plan(const Params& p, const int64_t* seq_kv,
                                                    AttentionPlan& plan) {
  return make_plan({p.query, p.key, p.value, p.attention_out, p.softmax_max, p.softmax_sum, p.seq_q,
                    seq_kv, Layout::kTND, p.dtype, p.B, p.N1, p.N2, p.T1, p.T2, p.D, p.Dv,
                    static_cast<float>(p.scale_value)},
                   plan);
}

// A segment of packed tensors starts where the one before it ends.
inline int64_t start_of(const int64_t* list, int64_t b) { return b == 0 ? 0 : list[b - 1]; }

}  // namespace nsa::cpu
