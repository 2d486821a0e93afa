// SparseFlashAttention, query by query: the tokens of a query are gathered once for all heads that
// share a key head, which are the lanes of its scores and the rows of its output.
#pragma once

#include "cpu/engine/step/gathered_tokens.h"
#include "cpu/sparse_flash_attention/sparse_plan.h"

namespace nsa::cpu {
namespace {

struct SparseBuffers {
  GatherBuffers gathered;
  float* q;                   // [G, row_k]
  float* q_lanes;             // [depth, lanes]
  float* s;                   // [kGatherRows, lanes] scores, then probabilities
  float* o;                   // [G, row_o]
  float *max, *sum, *factor;  // [lanes]
  float* one;                 // [row_o] of one head
  int64_t lanes, row_o;

  static SparseBuffers carve(Arena& arena, const AttentionPlan& plan, const SparsePlan& sparse) {
    SparseBuffers b{};
    b.gathered = GatherBuffers::carve(arena, plan, sparse);
    b.lanes = round_up(plan.G, kLanePad);
    b.row_o = padded_row(plan.Dv);
    b.q = arena.take<float>(plan.G * b.gathered.row_k);
    b.q_lanes = arena.take<float>(sparse.depth(plan) * b.lanes);
    b.s = arena.take<float>(kGatherRows * b.lanes);
    b.o = arena.take<float>(plan.G * b.row_o);
    b.max = arena.take<float>(b.lanes);
    b.sum = arena.take<float>(b.lanes);
    b.factor = arena.take<float>(b.lanes);
    b.one = arena.take<float>(b.row_o);
    return b;
  }
};

// Sums of every kSums-th of many terms: one sum of all would round in one direction where terms are
// equal.
constexpr int64_t kSums = 4;

inline V sum_of(const V* sums) { return add(add(sums[0], sums[1]), add(sums[2], sums[3])); }

// One step of the online softmax: n rows of scores [n, lanes] become probabilities. `factor` is
// that for the output so far.
inline void softmax_of_lanes(float* s, int64_t n, int64_t lanes, float scale, float* max_so_far,
                             float* sum, float* factor) {
  const V by = set1(scale);
  for (int64_t g = 0; g < lanes; g += W) {
    const V before = load(max_so_far + g);
    V top = before;
    for (int64_t j = 0; j < n; ++j) {
      const V x = mul(load(s + j * lanes + g), by);
      store(s + j * lanes + g, x);
      top = max(x, top);
    }
    SoftmaxLanes<NaturalExponent> state{before, load(sum + g)};
    const V base = SoftmaxLanes<NaturalExponent>::base_of(top);
    V sums[kSums] = {zero(), zero(), zero(), zero()};
    for (int64_t j = 0; j < n; ++j) {
      const V e = exp_from(load(s + j * lanes + g), base);
      store(s + j * lanes + g, e);
      sums[j % kSums] = add(sums[j % kSums], e);
    }
    store(factor + g, state.add(top, sum_of(sums)));
    store(max_so_far + g, top);
    store(sum + g, state.sum);
  }
}

// Inputs of a query with the heads of a key head.
struct SparseRow {
  const AttentionPlan& plan;
  const SparsePlan& sparse;
  const Segment& seg;
  int64_t key_head, total;  // tokens of the query, which are gathered step by step
};

// Outputs o [Dv] of head g whose sums of exp(score - max) times values have left the range of
// float32, as values near its largest number let them: NaN and infinite ones once more, with
// probabilities, whose sum is 1, halved, because rounding may exceed that.
[[gnu::noinline]] inline void normalised_outputs(const SparseRow& row, int64_t g,
                                                 const SoftmaxState& state, SparseBuffers& b,
                                                 float* o) {
  const AttentionPlan& plan = row.plan;
  GatherBuffers& gathered = b.gathered;
  const float half = 0.5f / state.divisor(), base = state.base();
  fill(b.one, b.row_o, 0.0f);
  for (int64_t t = 0; t < row.total; t += kGatherRows) {
    const int64_t n = min64(kGatherRows, row.total - t);
    gather_rows(plan, row.sparse, row.seg, row.key_head, gathered.tokens + t, n, gathered);
    products_of_rows(n, row.sparse.depth(plan), gathered.keys, gathered.row_k, b.q_lanes, b.lanes,
                     b.s);
    float* const p = b.s + g;
    for (int64_t j = 0; j < n; ++j) {
      const float e = exp1(p[j * b.lanes] * plan.scale - base);
      p[j * b.lanes] = e < kFloatMin ? 0.0f : e * half;
    }
    const bool finite = all_finite(gathered.values, n * gathered.row_v);
    multiply_values<FloatVariant>(finite, {1, round_up(plan.Dv, kLanePad), n}, {p, 1, b.lanes},
                                  {gathered.values, gathered.row_v}, {b.one, b.row_o},
                                  {Into::kAdd});
  }
  for (int64_t d = 0; d < plan.Dv; ++d)
    if (!(o[d] * 0.0f == 0.0f)) o[d] = 2.0f * b.one[d];
}

inline void sparse_query(const AttentionPlan& plan, const SparsePlan& sparse, const Segment& seg,
                         int64_t key_head, int64_t i, SparseBuffers& b) {
  GatherBuffers& gathered = b.gathered;
  const int64_t row = seg.first_query + i, depth = sparse.depth(plan),
                lanes_v = round_up(plan.Dv, kLanePad);
  const int64_t total = expand_tokens(
      sparse, seg, i, sparse.indices + (row * plan.N2 + key_head) * sparse.count, gathered);
  fill(b.max, b.lanes, -kInfinity);
  fill(b.sum, b.lanes, 0.0f);
  fill(b.o, plan.G * b.row_o, 0.0f);
  if (total > 0) load_rows(plan, sparse, row, key_head, gathered.row_k, b.lanes, b.q, b.q_lanes);
  for (int64_t t = 0; t < total; t += kGatherRows) {
    const int64_t n = min64(kGatherRows, total - t);
    gather_rows(plan, sparse, seg, key_head, gathered.tokens + t, n, gathered);
    products_of_rows(n, depth, gathered.keys, gathered.row_k, b.q_lanes, b.lanes, b.s);
    softmax_of_lanes(b.s, n, b.lanes, plan.scale, b.max, b.sum, b.factor);
    const bool finite = all_finite(gathered.values, n * gathered.row_v);
    multiply_values<FloatVariant>(finite, {plan.G, lanes_v, n}, {b.s, 1, b.lanes},
                                  {gathered.values, gathered.row_v}, {b.o, b.row_o},
                                  {Into::kAddScaled, b.factor});
  }
  for (int64_t g = 0; g < plan.G; ++g) {
    const int64_t head = key_head * plan.G + g;
    SoftmaxState state{b.max[g], b.sum[g]};
    const float factor = plan.sink ? state.add_sink(plan.sink[head]) : 1.0f;
    float* o = b.o + g * b.row_o;
    const float divisor = state.divisor();
    for (int64_t d = 0; d < plan.Dv; ++d) o[d] = o[d] * factor / divisor;
    if (!all_finite(o, plan.Dv) && state.sum == state.sum)
      normalised_outputs(SparseRow{plan, sparse, seg, key_head, total}, g, state, b, o);
    from_float(plan.dtype, o, plan.Dv, plan.out, (row * plan.N1 + head) * plan.Dv);
    if (!sparse.statistics) continue;
    const int64_t at = sparse.statistic(plan, row, key_head) + g;
    plan.softmax_max[at] = state.max_out();
    plan.softmax_sum[at] = state.sum_out();
  }
}

// Work items are queries of a key head, all segments one after the other.
void sparse_flash_attention_kernel(const AttentionPlan& plan, const SparsePlan& sparse,
                                   const ForwardScratch& scratch, int threads) {
  parallel_region(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    SparseBuffers buffers = SparseBuffers::carve(arena, plan, sparse);
    for (int64_t b = 0; b < plan.num_segments; ++b) {
      const Segment& seg = plan.segments[b];
      member.dynamic_for(seg.q_len * plan.N2, [&](int64_t work_item) {
        sparse_query(plan, sparse, seg, work_item % plan.N2, work_item / plan.N2, buffers);
      });
      member.barrier();
    }
  });
}

int64_t sparse_flash_attention_thread_size(const AttentionPlan& plan, const SparsePlan& sparse) {
  return measured([&](Arena& arena) { SparseBuffers::carve(arena, plan, sparse); });
}

}  // namespace
}  // namespace nsa::cpu
