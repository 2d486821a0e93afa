// Tokens that were selected for a query: which rows of queries and keys belong to each other, where
// these are in batches or packed, and what attention over top-k tokens is given besides the plan.
#pragma once

#include "cpu/engine/plan/attention_plan.h"

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

// Queries find their tensors by Segment::first_query, and keys and values by Segment::first_key.
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

// The lists of a call: prefix sums if packed, else lengths, or nullptr: all of them.
struct TokenLists {
  const int64_t *queries, *keys;
  bool packed, packed_keys;  // one after the other; otherwise [B, Sq] and [B, Sk]
  int64_t Sq, Sk;
};

// Batch element b, whose queries see every key. Offsets in elements are left to the operator.
inline Segment token_segment(const TokenLists& lists, int64_t b) {
  const auto begin = [&](const int64_t* sums) { return b == 0 ? 0 : sums[b - 1]; };
  Segment seg{};
  seg.index = b;
  seg.first_query = lists.packed ? begin(lists.queries) : b * lists.Sq;
  seg.q_len = lists.packed    ? lists.queries[b] - seg.first_query
              : lists.queries ? lists.queries[b]
                              : lists.Sq;
  seg.first_key = lists.packed_keys ? begin(lists.keys) : b * lists.Sk;
  seg.kv_len = lists.packed_keys ? lists.keys[b] - seg.first_key
               : lists.keys      ? lists.keys[b]
                                 : lists.Sk;
  seg.range.kv_len = seg.kv_len;
  return seg;
}

// each(first row, rows) for the rows of queries that belong to no segment.
template <class Each>
void each_other_row(const AttentionPlan& plan, int64_t rows, const Each& each) {
  int64_t past = 0;
  for (int64_t b = 0; b < plan.num_segments; ++b) {
    const Segment& seg = plan.segments[b];
    if (seg.first_query > past) each(past, seg.first_query - past);
    past = max64(past, seg.first_query + seg.q_len);
  }
  if (rows > past) each(past, rows - past);
}

}  // namespace nsa::cpu
