// Parameters of SparseFlashAttention and its gradient: raw pointers, which need
// element alignment only, sizes and the operators' attributes. Lists are already checked.
#pragma once

#include <cstdint>

#include "cpu/types.h"
#include "infer/sparse_flash_attention.h"

namespace nsa::cpu {

struct SparseFlashAttentionParams : SparseFlashAttentionAttrs {
  const void* query;              // [rows, N, D]
  const void* key;                // [keys, N2, D], or pages of them
  const void* value;              // [keys, N2, Dv]
  const int32_t* sparse_indices;  // [rows, N2, count]
  const void* query_rope;         // [rows, N, R] or nullptr
  const void* key_rope;           // [keys, N2, R] or nullptr
  const float* sinks;             // [N] or nullptr
  const int64_t* seq_q;           // [B] prefix sums if packed, else lengths, or nullptr: Sq
  const int64_t* seq_k;           // [B] likewise; lengths where keys are in pages
  const int32_t* block_table;     // [B, places] or nullptr: no pages
  void* attention_out;            // [rows, N, Dv]
  float* softmax_max;             // packed [N2, rows, N / N2], else [B, N2, Sq, N / N2]; nullptr
  float* softmax_sum;             // the same
  ElemType dtype;
  bool packed;         // queries one after the other; otherwise [B, Sq]
  int64_t rows, keys;  // of all queries; of all keys that are in no pages
  int64_t B, Sq, Sk, N, N2, D, Dv, R, count;
  int64_t places, page;  // pages of a batch element, tokens of a page
};

// attention_out of the base is an input here; keys are in no pages.
struct SparseFlashAttentionGradParams : SparseFlashAttentionParams {
  const void* attention_out_grad;  // [rows, N, Dv]
  const float* softmax_sum_grad;   // as softmax_sum, or nullptr: zeros
  void* dq;                        // [rows, N, D]
  void* dk;                        // [keys, N2, D]
  void* dv;                        // [keys, N2, Dv]
  void* dq_rope;                   // [rows, N, R] or nullptr
  void* dk_rope;                   // [keys, N2, R] or nullptr
  float* dsinks;                   // [N] or nullptr
};

// Throw std::bad_alloc when scratch cannot be had, before any output is touched.
void sparse_flash_attention(const SparseFlashAttentionParams& p);
void sparse_flash_attention_grad(const SparseFlashAttentionGradParams& p);

}  // namespace nsa::cpu
