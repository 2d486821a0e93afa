// Which rows of queries and keys belong to each other, where these are in batches or packed. Host
// side only.
#pragma once

#include "cpu/engine/plan/plan.h"

namespace nsa::cpu {

// The lists of a call: prefix sums if packed, else lengths, or nullptr: all of them.
struct TokenLists {
  const int64_t *queries, *keys;
  bool packed, packed_keys;  // one after the other; otherwise [B, Sq] and [B, Sk]
  int64_t Sq, Sk;
};

// What batch element b has. Where statistics and keys would begin stand the numbers of the rows of
// its first query and key; every query sees every key.
inline Segment token_segment(const TokenLists& lists, int64_t b) {
  const auto begin = [&](const int64_t* sums) { return b == 0 ? 0 : sums[b - 1]; };
  Segment seg{};
  seg.index = b;
  seg.stat = lists.packed ? begin(lists.queries) : b * lists.Sq;
  seg.q_len = lists.packed    ? lists.queries[b] - seg.stat
              : lists.queries ? lists.queries[b]
                              : lists.Sq;
  seg.k = lists.packed_keys ? begin(lists.keys) : b * lists.Sk;
  seg.kv_len = lists.packed_keys ? lists.keys[b] - seg.k : lists.keys ? lists.keys[b] : lists.Sk;
  seg.range.kv_len = seg.kv_len;
  return seg;
}

// each(first row, rows) for the rows of queries that belong to no segment.
template <class Each>
void each_other_row(const AttentionPlan& plan, int64_t rows, const Each& each) {
  int64_t past = 0;
  for (int64_t b = 0; b < plan.num_segments; ++b) {
    const Segment& seg = plan.segments[b];
    if (seg.stat > past) each(past, seg.stat - past);
    past = max64(past, seg.stat + seg.q_len);
  }
  if (rows > past) each(past, rows - past);
}

}  // namespace nsa::cpu
