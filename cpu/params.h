// Parameters of the CPU kernels: raw pointers, sizes and the operator's attributes, one struct per
// operator pair; a gradient's struct extends its forward's. Pointers need element alignment only.
// Sequence lists are inclusive prefix sums, already checked.
#pragma once

#include <cstdint>

#include "cpu/types.h"
#include "infer/block_indexer.h"
#include "infer/flash_attention_score.h"
#include "infer/lightning_indexer.h"
#include "infer/lightning_indexer_kl_loss.h"
#include "infer/nsa_compress_attention.h"
#include "infer/nsa_dropout_mask.h"
#include "infer/nsa_selected_attention.h"
#include "infer/sparse_flash_attention.h"

namespace nsa::cpu {

struct NsaCompressParams {
  const void* input;       // [T, N, D]
  const void* weight;      // [l, N]
  void* output;            // [rows, N, D]; rows past the real windows become zero
  const int64_t* seq_len;  // [B]
  ElemType dtype;
  int64_t T, N, D, B;
  int64_t block_size;  // l, tokens of a window
  int64_t stride;      // s, tokens between window starts
  int64_t rows;        // rows of output (output_grad), at least the number of windows
};

struct NsaCompressGradParams : NsaCompressParams {  // output is unused
  const void* output_grad;                          // [rows, N, D]
  void* input_grad;                                 // [T, N, D]
  void* weight_grad;                                // [l, N]
};

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
  bool overlap;  // importance convention: "overlap" (paper), otherwise "cann"
};

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

enum class Layout : int { kBSH, kSBH, kBSND, kBNSD, kTND };

struct FlashAttentionScoreParams : FlashAttentionScoreAttrs {
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
  Layout layout;
  ElemType dtype;
  int64_t B, N1, N2, S1, S2, D, Dv;  // TND: S1 = T1 and S2 = T2
  int64_t mask_shape[4];  // attn_mask's shape, its dims at the end: [S1, S2] is {1, 1, S1, S2}
  int64_t pse_shape[4];   // real_shift's, likewise; a flat TND pse is {1, 1, 1, numel}
  int64_t pse_rank;       // 1 flat or slopes [N1], 2 slopes [B, N1], 4
  int64_t q_starts, kv_starts;
  int64_t compress_block_size, compress_stride;  // stride 0: off; else the compressed causal mask
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

enum class BlockScore { kMax, kMean, kReluWeighted, kSoftmaxMax };

struct BlockIndexerParams : BlockIndexerAttrs {
  const void* query;        // [T1, H, D]
  const void* key;          // [T2, Nk, D]
  const float* weights;     // [T1, H] or nullptr: ones
  const int64_t* seq_q;     // [B]
  const int64_t* seq_kv;    // [B], of compressed tokens with kSoftmaxMax, may then end before T2
  const int64_t* q_offset;  // [B] or nullptr
  int32_t* topk_indices;    // [T1, groups, block_count]
  BlockScore score;
  ElemType dtype;
  int64_t T1, T2, B, H, Nk, D, groups;
};

struct LightningIndexerParams : LightningIndexerAttrs {
  const void* query;           // [rows, H, D]
  const void* key;             // [keys, N2, D], or pages of them
  const float* weights;        // [rows, H] or nullptr: ones
  const int64_t* seq_q;        // [B] prefix sums if packed, else lengths, or nullptr: Sq
  const int64_t* seq_k;        // [B] likewise; lengths where keys are in pages
  const int64_t* residual;     // [B] or nullptr: zeros
  const int32_t* block_table;  // [B, places] or nullptr: no pages
  int32_t* sparse_indices;     // [rows, N2, sparse_count]
  void* sparse_values;         // the same, or nullptr: not asked for
  ElemType dtype;
  bool packed;         // queries one after the other; otherwise [B, Sq]
  int64_t rows, keys;  // of all queries; of all keys that are in no pages
  int64_t B, Sq, Sk, H, N2, D;
  int64_t places, page;  // pages of a batch element, tokens of a page
};

// Keys are in no pages.
struct LightningIndexerGradParams : LightningIndexerParams {
  const int32_t* indices;  // [rows, N2, sparse_count], of the forward
  const void* dy;          // the same, gradient of sparse_values
  void* dq;                // [rows, H, D]
  void* dk;                // [keys, N2, D]
  float* dweights;         // [rows, H]
};

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
  void* dq;                        // [rows, N, D]
  void* dk;                        // [keys, N2, D]
  void* dv;                        // [keys, N2, Dv]
  void* dq_rope;                   // [rows, N, R] or nullptr
  void* dk_rope;                   // [keys, N2, R] or nullptr
  float* dsinks;                   // [N] or nullptr
};

// Of both losses, and of the statistics of the dense one, which are its outputs and have no
// attention; what only one of them has is nullptr in the others. Keys are in no pages.
struct IndexerKLLossParams : IndexerKLLossAttrs {
  const void* query;              // [rows, N, D]
  const void* key;                // [keys, N2, D]
  const void* query_rope;         // [rows, N, R] or nullptr
  const void* key_rope;           // [keys, N2, R] or nullptr
  const void* query_index;        // [rows, H, d]
  const void* key_index;          // [keys, groups, d]
  const float* weights;           // [rows, H]
  const int32_t* sparse_indices;  // [rows, groups, count] of the sparse loss
  const float* softmax_max;       // packed [N2, rows, N / N2], else [B, N2, Sq, N / N2]
  const float* softmax_sum;       // the same
  float* softmax_max_index;       // packed [groups, rows], else [B, groups, Sq], of the dense loss
  float* softmax_sum_index;       // the same
  const int64_t* seq_q;           // [B] prefix sums if packed, else lengths, or nullptr: Sq
  const int64_t* seq_k;           // [B] likewise
  void* dq;                       // [rows, H, d]
  void* dk;                       // [keys, groups, d]
  float* dweights;                // [rows, H]
  float* loss;                    // [1]
  ElemType dtype;
  bool packed;  // queries and keys one after the other; otherwise [B, Sq] and [B, Sk]
  int64_t rows, keys;
  int64_t B, Sq, Sk, N, N2, D, R, H, groups, d, count;
};

struct DropoutMaskParams : NsaDropoutMaskAttrs {
  uint64_t seed;
  uint8_t* mask;  // [ceil(numel / 8)]
};

// Entry points. They throw std::bad_alloc when scratch cannot be had, before any output is touched.
void nsa_compress(const NsaCompressParams& p);
void nsa_compress_grad(const NsaCompressGradParams& p);
void nsa_compress_attention(const NsaCompressAttentionParams& p);
void nsa_selected_attention(const NsaSelectedAttentionParams& p);
void nsa_selected_attention_grad(const NsaSelectedAttentionGradParams& p);
void flash_attention_score(const FlashAttentionScoreParams& p);
void flash_attention_score_grad(const FlashAttentionScoreGradParams& p);
void sparse_flash_attention(const SparseFlashAttentionParams& p);
void sparse_flash_attention_grad(const SparseFlashAttentionGradParams& p);
void dropout_mask(const DropoutMaskParams& p);
void block_indexer(const BlockIndexerParams& p);
void lightning_indexer(const LightningIndexerParams& p);
void lightning_indexer_grad(const LightningIndexerGradParams& p);
void sparse_indexer_kl_loss(const IndexerKLLossParams& p);
void dense_indexer_kl_loss(const IndexerKLLossParams& p);
void dense_indexer_softmax_lse(const IndexerKLLossParams& p);

}  // namespace nsa::cpu
