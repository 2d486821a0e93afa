// Parameters of BlockIndexer: raw pointers, which need element alignment only, sizes and the
// operator's attributes. Sequence lists are inclusive prefix sums, already checked.
#pragma once

#include <cstdint>

#include "cpu/types.h"
#include "infer/block_indexer.h"

namespace nsa::cpu {

struct BlockIndexerParams : BlockIndexerAttrs {
  const void* query;        // [T1, H, D]
  const void* key;          // [T2, Nk, D]
  const float* weights;     // [T1, H] or nullptr: ones
  const int64_t* seq_q;     // [B]
  const int64_t* seq_kv;    // [B], of compressed tokens with kSoftmaxMax, may then end before T2
  const int64_t* q_offset;  // [B] or nullptr
  int32_t* topk_indices;    // [T1, groups, block_count]
  ElemType dtype;
  int64_t T1, T2, B, H, Nk, D, groups;
};

// Throws std::bad_alloc when scratch cannot be had, before any output is touched.
void block_indexer(const BlockIndexerParams& p);

}  // namespace nsa::cpu
