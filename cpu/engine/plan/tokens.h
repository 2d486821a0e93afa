// Attention over tokens that were picked for a query, besides the plan of queries, keys and values.
#pragma once

#include "cpu/engine/plan/plan.h"

namespace nsa::cpu {

// Where statistics of queries are, of several heads.
struct StatisticRows {
  bool heads_first;    // [heads, rows]; otherwise [B, heads, Sq]
  int64_t rows;        // of all queries, also those of no segment
  int64_t batch_rows;  // Sq

  int64_t of(int64_t heads, int64_t row, int64_t head) const {
    if (heads_first) return head * rows + row;
    return (row / batch_rows * heads + head) * batch_rows + row % batch_rows;
  }
};

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
  StatisticRows statistic_rows;  // of G floats each, by key head
  bool statistics;

  int64_t depth(const AttentionPlan& plan) const { return plan.D + R; }

  // Where the statistics of a query and key head begin.
  int64_t statistic(const AttentionPlan& plan, int64_t row, int64_t key_head) const {
    return statistic_rows.of(plan.N2, row, key_head) * plan.G;
  }
};

}  // namespace nsa::cpu
