// Plan members of NsaCompressAttention besides the attention plan.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/plan/importance.h"

namespace nsa::cpu {

struct ImportancePlan {
  ImportanceRule rule;
  const uint8_t* topk_mask;  // [.., topk_mask_cols] or nullptr
  int64_t topk_mask_cols;
  int32_t* topk_indices;  // [T1, N2, count]
  int64_t count;
  int64_t select_block_size;
  int64_t init_blocks, local_blocks;
  bool causal;
  const int64_t* q_offset;   // [B] or nullptr
  const int64_t* first_row;  // [segments] of topk_indices
  int64_t max_kv_len, max_blocks;
  int64_t max_queries, max_rows;  // whose scores are in cache at once

  int64_t position(int64_t b, int64_t i) const { return (q_offset ? q_offset[b] : 0) + i; }
  int64_t blocks(const Segment& seg) const {
    if (!causal) return rule.blocks(seg.kv_len);
    return ceil_div(position(seg.index, seg.q_len), select_block_size);
  }
};

}  // namespace nsa::cpu
