// Where a pair's gradients are summed. Host side only.
#pragma once

#include "cpu/engine/plan/waves.h"

namespace nsa::cpu {

// How dq is accumulated, where the kernel has tiles and nothing but visibility changes scores.
inline GradGroups grad_groups(const AttentionGradPlan& plan, WordForm form) {
  constexpr int64_t step = 2 * kGradGroup;
  // Counted as floats.
  constexpr int64_t kMostKeys = 1 << 24;
  if (plan.dtype != ElemType::kBFloat16 || form.align != kGradGroup) return GradGroups::kNone;
  if (plan.D % step != 0 || plan.Dv % step != 0) return GradGroups::kNone;
  if (plan.bias.changes_scores() || plan.bias.drop || plan.dpse) return GradGroups::kNone;
  for (int64_t b = 0; b < plan.num_segments; ++b)
    if (plan.segments[b].kv_len > kMostKeys) return GradGroups::kNone;
  // Rows that are next to each other in memory: those a power of two apart compete for few sets of
  // the caches.
  const bool heads = plan.G % kGradGroup == 0 && plan.q.head <= plan.q.row;
  return heads ? GradGroups::kHeads : GradGroups::kQueries;
}

// Shares of a chunk of keys: so many chunks of them in a call, half of which a causal mask leaves
// on the mean, as many units at once. A share has two chunks of queries at least.
constexpr int64_t kKeyChunks = 64;

inline int64_t shares_of_queries(const AttentionPlan& plan, const GradPair& pair) {
  const int64_t chunks = plan.num_segments * plan.N2 * max64(1, pair.kv_chunks);
  return max64(1, min64(kKeyChunks / chunks, pair.q_chunks / 2));
}

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
    if (plan.in_groups()) {
      pair.max = delta;
      pair.inv = pair.max + seg.q_len * G;
      delta = pair.inv + seg.q_len * G;
    }
    pair.lead_dk = accumulators;
    pair.lead_dv = pair.lead_dk + pair.lead_rows() * plan.D;
    accumulators = pair.lead_dv + pair.lead_rows() * plan.Dv;
    if (plan.dtype == ElemType::kFloat32) {
      pair.dq = static_cast<float*>(plan.dq) + seg.q + pair.kv_head * G * plan.q.head;
      pair.dk = static_cast<float*>(plan.dk) + seg.k + pair.kv_head * plan.k.head;
      pair.dv = static_cast<float*>(plan.dv) + seg.v + pair.kv_head * plan.v.head;
      pair.dq_strides = plan.q;
      pair.dk_row = plan.k.row;
      pair.dv_row = plan.v.row;
      if (pair.shares == 1) continue;
    } else {
      pair.dq_strides = {G * plan.D, plan.D};
      pair.dq = accumulators;
      if (!pair.whole()) accumulators += pair.dq_queries(seg) * G * plan.D;
    }
    pair.dk_row = plan.D;
    pair.dv_row = plan.Dv;
    if (pair.whole()) {
      pair.dq = nullptr;
      pair.dk = accumulators;
      pair.dv = pair.dk + pair.slots * pair.slot_keys * plan.D;
      accumulators = pair.dv + pair.slots * pair.slot_keys * plan.Dv;
      continue;
    }
    pair.dk = accumulators;
    pair.dv = pair.dk + pair.shares * seg.kv_len * plan.D;
    accumulators = pair.dv + pair.shares * seg.kv_len * plan.Dv;
  }
}

}  // namespace nsa::cpu
