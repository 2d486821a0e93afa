// Parameters of the decoding operators. Lengths are per row, not prefix sums, and already checked;
// pointers need element alignment only.
#pragma once

#include "cpu/nsa_decode/decode_plan.h"
#include "infer/declare.h"

namespace nsa::cpu {

struct InferParams {
  const void* query;     // [T, N1, D], the rows' queries one after another
  void* attention_out;   // [T, N1, Dv]
  const int64_t* q_len;  // [B] queries of every row; the last one stands at the row's last token
  ElemType dtype;
  int64_t T, B, N1, N2, D, Dv;
  float scale;
};
struct NsaCompressAttentionInferParams : InferParams {
  CacheView key, value;    // compressed tokens
  const int64_t* cmp_len;  // [B] compressed tokens of every row
  const int64_t* sel_len;  // [B] tokens of every row; nullptr: every query sees all cmp_len
  int32_t* topk_indices;   // [T, N2, select_block_count]
  SelectionAttrs rule;
};

struct NsaSelectedAttentionInferParams : InferParams {
  CacheView key, value;
  const int32_t* topk_indices;  // [T, N2, select_block_count]
  const int64_t* kv_len;        // [B] tokens of every row
  int64_t select_block_size, select_block_count;
};

struct NsaDecodeParams : InferParams {
  CacheView key[kBranches], value[kBranches];
  const float* gates;     // [T, 3, N1]
  const int64_t* kv_len;  // [B] tokens of every row, the queries' own included
  int64_t window_size;
  SelectionAttrs rule;
};

struct NsaCompressWithCacheParams {
  CacheView input;      // pages of tokens [.., N, D]; packed: one page, the rows one after another
  const void* weight;   // [l, N]
  void* cache;          // [slots, N, D]
  void* rows;           // [B, N, D] what was written, zeros for a row that fills no window
  const int64_t* slot;  // [B] row of cache that a full window of row b goes to
  const int64_t* seq_len;  // [B] tokens of every row
  ElemType dtype;
  int64_t B, N, D;
  int64_t block_size, stride;
  bool packed;

  // Whether the last token of a row of `n` tokens fills a window.
  [[gnu::always_inline]] bool fills(int64_t n) const {
    return n >= block_size && (n - block_size) % stride == 0;
  }
};

// Entry points. They throw std::bad_alloc when scratch cannot be had, before any output is touched.
void nsa_compress_attention_infer(const NsaCompressAttentionInferParams& p);
void nsa_selected_attention_infer(const NsaSelectedAttentionInferParams& p);
void nsa_decode(const NsaDecodeParams& p);
void nsa_compress_with_cache(const NsaCompressWithCacheParams& p);

}  // namespace nsa::cpu
