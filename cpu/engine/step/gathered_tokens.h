// The tokens of a query: its indices in order, expanded to the tokens of their blocks that it sees;
// and their rows, gathered as floats.
#pragma once

#include "cpu/engine/plan/tokens.h"
#include "cpu/engine/plan/topk_tokens.h"
#include "cpu/engine/step/forward.h"

namespace nsa::cpu {
namespace {

constexpr int64_t kGatherRows = 128;  // tokens of a step

struct GatherBuffers {
  int32_t* tokens;  // [most]
  int32_t* chosen;  // [count]
  RisingSpace space;
  float* keys;    // [kGatherRows or more, row_k]: the key, and its rope
  float* values;  // [kGatherRows, row_v], or the keys where values are these
  int64_t row_k, row_v;
  bool shared;

  // With room for `rows` keys.
  static GatherBuffers carve(Arena& arena, const AttentionPlan& plan, const SparsePlan& sparse,
                             int64_t rows = kGatherRows) {
    GatherBuffers b{};
    b.row_k = padded_row(sparse.depth(plan));
    b.shared = plan.value == plan.key && plan.Dv == plan.D;
    b.row_v = b.shared ? b.row_k : padded_row(plan.Dv);
    b.tokens = arena.take<int32_t>(sparse.most);
    b.chosen = arena.take<int32_t>(sparse.count);
    b.space = RisingSpace::carve(arena, sparse.count);
    b.keys = arena.take<float>(rows * b.row_k);
    b.values = b.shared ? b.keys : arena.take<float>(kGatherRows * b.row_v);
    return b;
  }
};

// Tokens of a row's indices, as often as they stand there, in rising order. Gives how many.
inline int64_t expand_tokens(const SparsePlan& sparse, const Segment& seg, int64_t i,
                             const int32_t* indices, GatherBuffers& b) {
  const int64_t seen = seg.range.hi(i);
  int64_t n = 0;
  for (int64_t p = 0; p < sparse.count; ++p) {
    const int64_t t = indices[p];
    if (t >= 0 && t * sparse.block < seen) b.chosen[n++] = indices[p];
  }
  put_in_order(b.chosen, n, b.space);
  int64_t total = 0;
  for (int64_t p = 0; p < n; ++p) {
    const int64_t begin = b.chosen[p] * sparse.block, past = min64(begin + sparse.block, seen);
    for (int64_t s = begin; s < past; ++s) b.tokens[total++] = static_cast<int32_t>(s);
  }
  return total;
}

// Row number of a segment's token in the keys.
inline int64_t key_row(const SparsePlan& sparse, const Segment& seg, int64_t token) {
  if (sparse.table == nullptr) return seg.first_key + token;
  const int64_t page = sparse.table[seg.index * sparse.places + token / sparse.page];
  return page * sparse.page + token % sparse.page;
}

// Gathers the keys of n tokens with their ropes, padded with zeros to `row` floats.
inline void gather_keys(const AttentionPlan& plan, const SparsePlan& sparse, const Segment& seg,
                        int64_t key_head, const int32_t* tokens, int64_t n, float* keys,
                        int64_t row) {
  const int64_t depth = sparse.depth(plan);
  for (int64_t j = 0; j < n; ++j) {
    const int64_t head = key_row(sparse, seg, tokens[j]) * plan.N2 + key_head;
    if (j + kPrefetchDistance < n) {
      const int64_t next = key_row(sparse, seg, tokens[j + kPrefetchDistance]) * plan.N2 + key_head;
      prefetch_row(plan.dtype, plan.key, next * plan.D, plan.D);
    }
    float* const key = keys + j * row;
    to_float(plan.dtype, plan.key, head * plan.D, plan.D, key);
    if (sparse.R > 0)
      to_float(plan.dtype, sparse.key_rope, head * sparse.R, sparse.R, key + plan.D);
    fill(key + depth, row - depth, 0.0f);
  }
}

// Gathers the values of n tokens likewise, unless they are the keys.
inline void gather_values(const AttentionPlan& plan, const SparsePlan& sparse, const Segment& seg,
                          int64_t key_head, const int32_t* tokens, int64_t n, GatherBuffers& b) {
  if (b.shared) return;
  for (int64_t j = 0; j < n; ++j) {
    const int64_t head = key_row(sparse, seg, tokens[j]) * plan.N2 + key_head;
    if (j + kPrefetchDistance < n) {
      const int64_t next = key_row(sparse, seg, tokens[j + kPrefetchDistance]) * plan.N2 + key_head;
      prefetch_row(plan.dtype, plan.value, next * plan.Dv, plan.Dv);
    }
    float* const value = b.values + j * b.row_v;
    to_float(plan.dtype, plan.value, head * plan.Dv, plan.Dv, value);
    fill(value + plan.Dv, b.row_v - plan.Dv, 0.0f);
  }
}

inline void gather_rows(const AttentionPlan& plan, const SparsePlan& sparse, const Segment& seg,
                        int64_t key_head, const int32_t* tokens, int64_t n, GatherBuffers& b) {
  gather_keys(plan, sparse, seg, key_head, tokens, n, b.keys, b.row_k);
  gather_values(plan, sparse, seg, key_head, tokens, n, b);
}

// Transposes G rows of n floats into as_lanes [n, lanes], with zeros in the other lanes: a few
// lines of columns at a time, which stay in the first-level cache for all rows.
inline void rows_as_lanes(const float* rows, int64_t row, int64_t G, int64_t n, int64_t lanes,
                          float* as_lanes) {
  constexpr int64_t kColumns = 16;
  for (int64_t d0 = 0; d0 < n; d0 += kColumns) {
    const int64_t past = min64(d0 + kColumns, n);
    for (int64_t g = 0; g < G; ++g)
      for (int64_t d = d0; d < past; ++d) as_lanes[d * lanes + g] = rows[g * row + d];
    for (int64_t d = d0; d < past; ++d) fill(as_lanes + d * lanes + G, lanes - G, 0.0f);
  }
}

// The rows of a query with the heads of a key head: [G, row] with its rope, and as lanes.
inline void load_rows(const AttentionPlan& plan, const SparsePlan& sparse, int64_t row,
                      int64_t key_head, int64_t row_k, int64_t lanes, float* rows,
                      float* as_lanes) {
  const int64_t depth = sparse.depth(plan);
  for (int64_t g = 0; g < plan.G; ++g) {
    const int64_t head = row * plan.N1 + key_head * plan.G + g;
    float* q = rows + g * row_k;
    to_float(plan.dtype, plan.query, head * plan.D, plan.D, q);
    if (sparse.R > 0)
      to_float(plan.dtype, sparse.query_rope, head * sparse.R, sparse.R, q + plan.D);
    fill(q + depth, row_k - depth, 0.0f);
  }
  rows_as_lanes(rows, row_k, plan.G, depth, lanes, as_lanes);
}

// c [n, lanes] = rows [n, depth] times lanes [depth, lanes], with so much of the contraction at a
// time that its lanes stay in the first-level cache.
inline void products_of_rows(int64_t n, int64_t depth, const float* rows, int64_t row,
                             const float* as_lanes, int64_t lanes, float* c) {
  constexpr int64_t kAtOnce = 128;
  for (int64_t d = 0; d < depth; d += kAtOnce) {
    matmul<FloatStep>({n, lanes, min64(kAtOnce, depth - d)}, {rows + d, row, 1},
                      {as_lanes + d * lanes, lanes}, {c, lanes},
                      {d == 0 ? Into::kReplace : Into::kAdd});
  }
}

}  // namespace
}  // namespace nsa::cpu
