// What SparseFlashAttention and its gradient need besides the plan of their queries, keys and
// values.
#pragma once

#include "cpu/engine/plan/plan.h"
#include "cpu/params.h"

namespace nsa::cpu {

// Where a segment's statistics would begin stands the row of its first query; keys and values of a
// token have the same row.
struct SparsePlan {
  const int32_t* indices;  // [rows, N2, count]
  int64_t count;
  int64_t block;           // tokens that an index stands for
  int64_t most;            // tokens of a query, at most
  const void* query_rope;  // [rows, N1, R] or nullptr
  const void* key_rope;    // [keys, N2, R]
  int64_t R;               // 0: no ropes
  const int32_t* table;    // [segments, places] pages of the keys, or nullptr: none
  int64_t places, page;
  int64_t rows;          // of all queries, also those of no segment
  int64_t groups_first;  // 1: statistics are [N2, rows, G]; otherwise [B, N2, Sq, G]
  int64_t batch_rows;    // Sq of the latter
  bool statistics;

  int64_t depth(const AttentionPlan& plan) const { return plan.D + R; }
};

struct SparseGradPlan : SparsePlan {
  const void* dout;       // as out
  void* dq;               // [rows, N1, D]
  void* dq_rope;          // [rows, N1, R]
  float* dk;              // [keys, N2, D], zero at first
  float* dv;              // [keys, N2, Dv], zero at first
  float* dk_rope;         // [keys, N2, R], zero at first
  float* dsink;           // [rows, N1] of one query each, or nullptr
  int64_t wave;           // queries whose products wait at a time
  float* products;        // [wave, most, padded depth]
  float* value_products;  // [wave, most, padded Dv]
  int32_t* picked;        // [wave, most] their keys
  int64_t* num_picked;    // [wave]
};

}  // namespace nsa::cpu
