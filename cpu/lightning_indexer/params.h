// Parameters of LightningIndexer, its gradient and the losses that train it: raw pointers, which
// need element alignment only, sizes and the operators' attributes. Lists are already checked.
#pragma once

#include <cstdint>

#include "cpu/types.h"
#include "infer/lightning_indexer.h"
#include "infer/lightning_indexer_kl_loss.h"

namespace nsa::cpu {

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

// Parameters of both losses and of the statistics of the dense one. The statistics are its outputs
// and have no attention. A member that an operator lacks is nullptr. Keys are not paged.
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

// Throw std::bad_alloc when scratch cannot be had, before any output is touched.
void lightning_indexer(const LightningIndexerParams& p);
void lightning_indexer_grad(const LightningIndexerGradParams& p);
void sparse_indexer_kl_loss(const IndexerKLLossParams& p);
void dense_indexer_kl_loss(const IndexerKLLossParams& p);
void dense_indexer_softmax_lse(const IndexerKLLossParams& p);

}  // namespace nsa::cpu
