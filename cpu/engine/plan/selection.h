// Work division of NsaSelectedAttention: the selection turned round, from block to queries, by a
// counting sort of each pair; and the rows of a tile that gathers queries.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/plan/grad_schedule.h"

namespace nsa::cpu {

// Selection blocks longer than a softmax tile are packed in several parts of equal length.
struct BlockShape {
  int64_t block;  // l', keys of a selection block
  int64_t parts;  // packed parts of a block
  int64_t part;   // keys of a part, at most kTileKeys
  int64_t lanes;  // padded part

  static BlockShape of(int64_t block, int64_t key_step) {
    const int64_t parts = ceil_div(block, kTileKeys), part = ceil_div(block, parts);
    return {block, parts, part, round_up(part, key_step)};
  }
};

struct Selection {
  const int32_t* topk;  // [T1, N2, count]
  int64_t count;
  BlockShape shape;
};

// heads_fit_bf16x3(), and a block is four tiles of keys.
inline bool blocks_fit_bf16x3(const AttentionPlan& plan, int64_t block) {
  return heads_fit_bf16x3(plan) && block > kKvBlockKeys - 32 && block <= kKvBlockKeys;
}

// A pair's selection turned round. Block t is selected by queries[begin[t] .. begin[t + 1]),
// ascending; a query that names a block twice is there once.
struct BlockIndex {
  int64_t blocks;     // of the segment
  int64_t first_row;  // of topk, the segment's first query
  int64_t* begin;     // [blocks + 1]
  int64_t* marks;     // [blocks] last query that named a block
  bool* repeats;      // some query names a block twice
  int32_t* queries;   // [q_len * min(count, blocks)]
};

struct SelectPair : ChunkedPair, BlockIndex {
  int64_t first_chunk;  // sum of q_chunks before it in its wave
};

struct SelectGradPair : GradPair, BlockIndex {
  // The first block of chunk number `n` of keys, and the one past its last.
  int64_t first_block(int64_t n) const {
    return max64(chunk_of_keys(n) * kv_chunk,
                 n < first_block_partials || first_block_partials == 0 ? 0 : 1);
  }
  int64_t past_block(int64_t n) const {
    return n < first_block_partials ? 1 : min64((chunk_of_keys(n) + 1) * kv_chunk, blocks);
  }
};

struct SelectWave {
  const SelectPair* pairs;
  int64_t num_pairs;
  int64_t num_chunks;  // of queries
};

struct SelectGradWave {
  const SelectGradPair* pairs;
  int64_t num_pairs;
  int64_t key_chunks, slots, rounds;
};

namespace {

// The block a selected index stands for, or -1 where it selects nothing the query can see.
inline int64_t selected_block(const BlockIndex& pair, const Segment& seg, const Selection& sel,
                              int64_t i, int32_t index) {
  const bool in_range = index >= 0 && index < pair.blocks;
  return in_range && index * sel.shape.block < seg.range.hi(i) ? index : -1;
}

template <class Pair>
inline const int32_t* selection_row(const Pair& pair, const Selection& sel, int64_t N2, int64_t i) {
  return sel.topk + ((pair.first_row + i) * N2 + pair.kv_head) * sel.count;
}

// visit(t, i) for every block t that query i selects, once each.
template <class Pair, class Visit>
inline void for_each_selected(const Pair& pair, const Segment& seg, const Selection& sel,
                              int64_t N2, const Visit& visit) {
  for (int64_t t = 0; t < pair.blocks; ++t) pair.marks[t] = -1;
  *pair.repeats = false;
  for (int64_t i = 0; i < seg.q_len; ++i) {
    const int32_t* row = selection_row(pair, sel, N2, i);
    for (int64_t c = 0; c < sel.count; ++c) {
      const int64_t t = selected_block(pair, seg, sel, i, row[c]);
      if (t < 0) continue;
      if (pair.marks[t] == i) {
        *pair.repeats = true;
        continue;
      }
      pair.marks[t] = i;
      visit(t, i);
    }
  }
}

template <class Pair>
inline void index_selection(const Pair& pair, const Segment& seg, const Selection& sel,
                            int64_t N2) {
  int64_t* begin = pair.begin;
  for (int64_t t = 0; t <= pair.blocks; ++t) begin[t] = 0;
  for_each_selected(pair, seg, sel, N2, [&](int64_t t, int64_t) { ++begin[t + 1]; });
  for (int64_t t = 0; t < pair.blocks; ++t) begin[t + 1] += begin[t];
  // Counting sort, pass 2: `begin[t]` is the write cursor of block t.
  for_each_selected(pair, seg, sel, N2, [&](int64_t t, int64_t i) {
    pair.queries[begin[t]++] = static_cast<int32_t>(i);
  });
  for (int64_t t = pair.blocks; t > 0; --t) begin[t] = begin[t - 1];
  begin[0] = 0;
}

// How often query i names block t.
template <class Pair>
inline float multiplicity(const Pair& pair, const Selection& sel, int64_t N2, int64_t i,
                          int64_t t) {
  if (!*pair.repeats) return 1.0f;
  const int32_t* row = selection_row(pair, sel, N2, i);
  int64_t count = 0;
  for (int64_t c = 0; c < sel.count; ++c) count += row[c] == t;
  return static_cast<float>(count);
}

// First place in the ascending list [first, last) whose query is at least i.
inline const int32_t* first_query(const int32_t* first, const int32_t* last, int64_t i) {
  while (first < last) {
    const int32_t* middle = first + (last - first) / 2;
    if (*middle < i) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

// Rows of a tile: row r is head (first + r) % G of query list[(first + r) / G].
struct GatheredRows {
  const Segment& seg;
  int64_t first_head, G;
  const int32_t* list;
  int64_t first, count;

  int64_t rows() const { return count; }
  int64_t query(int64_t r) const { return list[(first + r) / G]; }
  int64_t head(int64_t r) const { return first_head + (first + r) % G; }

  // visit(r, heads, i, head) for the rows [r, r + heads) of query i, its heads from `head` on: a
  // division for each row would take longer than much of what is done with it.
  template <class Visit>
  void each_query(const Visit& visit) const {
    const int32_t* query = list + first / G;
    for (int64_t r = 0, g = first % G, heads; r < count; r += heads, g = 0) {
      heads = min64(G - g, count - r);
      visit(r, heads, int64_t{*query++}, first_head + g);
    }
  }
};

template <class Visit>
inline void each_row(const GatheredRows& c, const Visit& visit) {
  c.each_query([&](int64_t r, int64_t heads, int64_t i, int64_t head) {
    for (int64_t n = 0; n < heads; ++n) visit(r + n, i, head + n);
  });
}

}  // namespace
}  // namespace nsa::cpu
