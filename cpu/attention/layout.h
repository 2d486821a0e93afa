// Reduces layouts, sequence lists and mask modes to a plan. Host side only.
#pragma once

#include <vector>

#include "cpu/attention/plan.h"
#include "cpu/params.h"

namespace nsa::cpu {

// Fills everything of plan but segments; gives the segments.
std::vector<Segment> make_plan(const FlashAttentionScoreParams& p, AttentionPlan& plan);

// The visible interval of segment b, without its sparse_mode 7/8 exception and without kv_len.
RowRange make_range(const FlashAttentionScoreParams& p, int64_t sparse_mode, int64_t b,
                    int64_t q_len, int64_t kv_len);

}  // namespace nsa::cpu
