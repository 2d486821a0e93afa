// Where a pair's gradients are summed. Host side only.
#pragma once

#include "cpu/attention/carve.h"

namespace nsa::cpu {

// Points the accumulators into the outputs (fp32) or into scratch, and delta into its part.
template <class Pair>
void place_accumulators(const AttentionGradPlan& plan, Pair* pairs, int64_t count,
                        const GradParts& parts) {
  const int64_t G = plan.G;
  float *delta = parts.delta, *accumulators = parts.accumulators;
  for (int64_t n = 0; n < count; ++n) {
    Pair& pair = pairs[n];
    const Segment& seg = plan.segments[pair.segment];
    pair.delta = delta;
    delta += seg.q_len * G;
    if (plan.dtype == ElemType::kFloat32) {
      pair.dq = static_cast<float*>(plan.dq) + seg.q + pair.kv_head * G * plan.q.head;
      pair.dk = static_cast<float*>(plan.dk) + seg.k + pair.kv_head * plan.k.head;
      pair.dv = static_cast<float*>(plan.dv) + seg.v + pair.kv_head * plan.v.head;
      pair.dq_strides = plan.q;
      pair.dk_row = plan.k.row;
      pair.dv_row = plan.v.row;
      continue;
    }
    pair.dq_strides = {G * plan.D, plan.D};
    pair.dk_row = plan.D;
    pair.dv_row = plan.Dv;
    pair.dq = accumulators;
    pair.dk = pair.dq + min64(seg.q_len, pair.range_queries()) * G * plan.D;
    pair.dv = pair.dk + seg.kv_len * plan.D;
    accumulators = pair.dv + seg.kv_len * plan.Dv;
  }
}

}  // namespace nsa::cpu
