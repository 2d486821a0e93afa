// Parameters of NsaCompressAttention: raw pointers, which need element alignment only, sizes and
// the operator's attributes. Sequence lists are inclusive prefix sums, already checked.
#pragma once

#include <cstdint>

#include "cpu/types.h"
#include "infer/nsa_compress_attention.h"

namespace nsa::cpu {

struct NsaCompressAttentionParams : NsaCompressAttentionAttrs {
  const void* query;          // [T1, N1, D]
  const void* key;            // [T2, N2, D]
  const void* value;          // [T2, N2, Dv]
  const uint8_t* topk_mask;   // [.., topk_mask_cols], 1 forces the block; nullptr: none
  const uint8_t* atten_mask;  // [.., atten_mask_cols], 1 masks; nullptr: none
  const int64_t* seq_q;       // [B]
  const int64_t* seq_cmp_kv;  // [B], may end before T2
  const int64_t* q_offset;    // [B] position of a segment's first query; nullptr: zeros
  void* attention_out;        // [T1, N1, Dv]
  int32_t* topk_indices;      // [T1, N2, select_block_count]
  float* softmax_max;         // [T1, N1, 8]
  float* softmax_sum;         // [T1, N1, 8]
  ElemType dtype;
  int64_t T1, T2, B, N1, N2, D, Dv;
  int64_t topk_mask_cols, atten_mask_cols;
};

// Throws std::bad_alloc when scratch cannot be had, before any output is touched.
void nsa_compress_attention(const NsaCompressAttentionParams& p);

}  // namespace nsa::cpu
