// Reduces layouts, position bias, masks and sparse modes of FlashAttentionScore to a plan. Host
// side only.
#pragma once

#include <vector>

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/flash_attention_score/params.h"

namespace nsa::cpu {

// Fills plan. Its segments are in the vector given back, which must outlive it.
[[nodiscard]] std::vector<Segment> make_plan(const FlashAttentionScoreParams& p,
                                             AttentionPlan& plan);

}  // namespace nsa::cpu
