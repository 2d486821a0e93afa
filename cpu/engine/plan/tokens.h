// Attention over tokens that were picked for a query, besides the plan of queries, keys and values.
#pragma once

#include "cpu/engine/plan/plan.h"

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

  // Where the statistics of a query and key head begin.
  int64_t statistic(const AttentionPlan& plan, int64_t row, int64_t key_head) const {
    if (groups_first) return (key_head * rows + row) * plan.G;
    const int64_t b = row / batch_rows, i = row % batch_rows;
    return ((b * plan.N2 + key_head) * batch_rows + i) * plan.G;
  }
};

}  // namespace nsa::cpu
