// Parameters of FlashAttentionScore: raw pointers, which need element alignment only, sizes and the
// operator's attributes. Sequence lists are inclusive prefix sums, already checked.
#pragma once

#include <cstdint>

#include "cpu/types.h"
#include "infer/flash_attention_score.h"

namespace nsa::cpu {

// With a compress_stride the mask is the compressed causal one; its attributes are the gradient's.
struct FlashAttentionScoreParams : FlashAttentionScoreGradAttrs {
  const void* query;         // by layout; N1 heads of D
  const void* key;           // N2 heads of D
  const void* value;         // N2 heads of Dv
  const void* real_shift;    // pse tensor of the query's dtype (pse_type 0, 1) or float slopes (2,
                             // 3); nullptr
  const uint8_t* drop_mask;  // bits, LSB first, 1 keeps; nullptr: none
  const uint8_t* attn_mask;  // 1 masks; nullptr where absent or where sparse_mode is analytic
  const int64_t* prefix;     // [B], sparse_mode 5 and 6; nullptr
  const int64_t* seq_q;      // [B] TND only
  const int64_t* seq_kv;     // [B] TND only
  const int64_t* q_offset;   // [B], compressed causal only; nullptr: zeros
  // Positions of the first query and key for the distance of slopes, [q_starts], [kv_starts]: 1, or
  // B of them; nullptr: zeros.
  const int64_t* q_start;
  const int64_t* kv_start;
  const float* sink;    // [N1] or nullptr
  void* attention_out;  // layout of query with Dv
  float* softmax_max;   // TND [T1, N1, 8], otherwise [B, N1, S1, 8]
  float* softmax_sum;   // the same
  ElemType dtype;
  int64_t B, N1, N2, S1, S2, D, Dv;  // TND: S1 = T1 and S2 = T2
  int64_t mask_shape[4];  // attn_mask's shape, its dims at the end: [S1, S2] is {1, 1, S1, S2}
  int64_t pse_shape[4];   // real_shift's, likewise; a flat TND pse is {1, 1, 1, numel}
  int64_t pse_rank;       // 1 flat or slopes [N1], 2 slopes [B, N1], 4
  int64_t q_starts, kv_starts;
};

// attention_out, softmax_max and softmax_sum of the base are inputs here.
struct FlashAttentionScoreGradParams : FlashAttentionScoreParams {
  const void* dy;                 // layout of attention_out
  const float* softmax_sum_grad;  // shape of softmax_sum, or nullptr: zeros
  void* dq;                       // layout of query
  void* dk;                       // layout of key
  void* dv;                       // layout of value
  void* dpse;                     // shape of real_shift, or nullptr: not asked for
  float* dsink;                   // [N1] or nullptr
};

// Throw std::bad_alloc when scratch cannot be had, before any output is touched.
void flash_attention_score(const FlashAttentionScoreParams& p);
void flash_attention_score_grad(const FlashAttentionScoreGradParams& p);

}  // namespace nsa::cpu
