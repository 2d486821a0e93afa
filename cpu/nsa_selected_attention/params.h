// Parameters of NsaSelectedAttention: raw pointers, which need element alignment only, sizes and
// the operator's attributes. Sequence lists are inclusive prefix sums, already checked.
#pragma once

#include <cstdint>

#include "cpu/types.h"
#include "infer/nsa_selected_attention.h"

namespace nsa::cpu {

struct NsaSelectedAttentionParams : NsaSelectedAttentionAttrs {
  const void* query;            // [T1, N1, D]
  const void* key;              // [T2, N2, D]
  const void* value;            // [T2, N2, Dv]
  const int32_t* topk_indices;  // [T1, N2, select_block_count]
  const int64_t* seq_q;         // [B]
  const int64_t* seq_kv;        // [B]
  const int64_t* q_offset;      // [B] or nullptr
  void* attention_out;          // [T1, N1, Dv]
  float* softmax_max;           // [T1, N1, 8]
  float* softmax_sum;           // [T1, N1, 8]
  ElemType dtype;
  int64_t T1, T2, B, N1, N2, D, Dv;
};

// attention_out, softmax_max and softmax_sum of the base are inputs here.
struct NsaSelectedAttentionGradParams : NsaSelectedAttentionParams {
  const void* attention_out_grad;  // [T1, N1, Dv]
  const float* softmax_sum_grad;   // [T1, N1, 8] or nullptr: zeros
  void* dq;                        // [T1, N1, D]
  void* dk;                        // [T2, N2, D]
  void* dv;                        // [T2, N2, Dv]
};

// Throw std::bad_alloc when scratch cannot be had, before any output is touched.
void nsa_selected_attention(const NsaSelectedAttentionParams& p);
void nsa_selected_attention_grad(const NsaSelectedAttentionGradParams& p);

}  // namespace nsa::cpu
