// The gradient of LightningIndexer's values, query by query: the picked keys are gathered once, and
// all heads are rows of the products with them. What a query adds to its keys waits until a wave of
// queries is done; then every thread adds it up for a part of the keys, in the order of the
// queries.
#pragma once

#include "cpu/engine/plan/picks.h"
#include "cpu/engine/step/forward.h"
#include "cpu/lightning_indexer/plan.h"

namespace nsa::cpu {
namespace {

struct TokenGradBuffers {
  float* q;        // [G, row_d]
  float* q_lanes;  // [D, lanes]
  float* weight;   // [lanes]
  float* dweight;  // [lanes]
  float* dq;       // [G, row_d]
  float* keys;     // [kPickStep, row_d]
  float* z;        // [kPickStep, lanes] products, then their gradients
  float* dy;       // [kPickStep]
  int64_t row_d, lanes;

  static TokenGradBuffers carve(Arena& arena, const AttentionPlan& plan) {
    TokenGradBuffers b{};
    b.row_d = padded_row(plan.D);
    b.lanes = round_up(plan.G, kLanePad);
    b.q = arena.take<float>(plan.G * b.row_d);
    b.q_lanes = arena.take<float>(plan.D * b.lanes);
    b.weight = arena.take<float>(b.lanes);
    b.dweight = arena.take<float>(b.lanes);
    b.dq = arena.take<float>(plan.G * b.row_d);
    b.keys = arena.take<float>(kPickStep * b.row_d);
    b.z = arena.take<float>(kPickStep * b.lanes);
    b.dy = arena.take<float>(kPickStep);
    return b;
  }
};

// One query with the heads of a key head.
class PickedQuery {
 public:
  PickedQuery(const AttentionPlan& plan, const TokenGradPlan& grad, const Segment& seg,
              int64_t key_head, int64_t i, TokenGradBuffers& b)
      : plan_(plan), grad_(grad), seg_(seg), key_head_(key_head), row_(seg.stat + i), b_(b) {}

  // Writes dq and dweights; what is added to keys goes to products[row_d] for each pick that is
  // one, whose number goes to `picked`. Gives how many.
  int64_t run(int32_t* picked, float* products) {
    load_query();
    const int64_t at = row_ * plan_.N2 + key_head_;
    const int32_t* indices = grad_.indices + at * grad_.count;
    int64_t total = 0;
    for (int64_t p = 0; p < grad_.count;) {
      int64_t n = 0;
      for (; p < grad_.count && n < kPickStep; ++p) {
        const int32_t k = indices[p];
        if (k < 0 || k >= seg_.kv_len) continue;
        picked[total + n] = k;
        b_.dy[n] = load1(plan_.dtype, grad_.dy, at * grad_.count + p);
        to_float(plan_.dtype, plan_.key, seg_.k + k * plan_.k.row + key_head_ * plan_.k.head,
                 plan_.D, b_.keys + n * b_.row_d);
        ++n;
      }
      if (n > 0) add_picks(n, products + total * b_.row_d);
      total += n;
    }
    store_query();
    return total;
  }

 private:
  int64_t head(int64_t g) const { return key_head_ * plan_.G + g; }

  void load_query() {
    fill(b_.weight, b_.lanes, 0.0f);
    fill(b_.q_lanes, plan_.D * b_.lanes, 0.0f);
    fill(b_.dweight, b_.lanes, 0.0f);
    fill(b_.dq, plan_.G * b_.row_d, 0.0f);
    for (int64_t g = 0; g < plan_.G; ++g) {
      float* q = b_.q + g * b_.row_d;
      to_float(plan_.dtype, plan_.query, row_ * plan_.q.row + head(g) * plan_.q.head, plan_.D, q);
      fill(q + plan_.D, b_.row_d - plan_.D, 0.0f);
      for (int64_t d = 0; d < plan_.D; ++d) b_.q_lanes[d * b_.lanes + g] = q[d];
      b_.weight[g] = grad_.weights ? grad_.weights[row_ * plan_.N1 + head(g)] : 1.0f;
    }
  }

  void add_picks(int64_t n, float* products) {
    const int64_t lanes_d = round_up(plan_.D, kLanePad);
    for (int64_t j = 0; j < n; ++j)
      fill(b_.keys + j * b_.row_d + plan_.D, b_.row_d - plan_.D, 0.0f);
    matmul<FloatStep>({n, b_.lanes, plan_.D}, {b_.keys, b_.row_d, 1}, {b_.q_lanes, b_.lanes},
                      {b_.z, b_.lanes});
    for (int64_t j = 0; j < n; ++j) {
      const V dy = set1(b_.dy[j]);
      for (int64_t g = 0; g < b_.lanes; g += W) {
        float* at = b_.z + j * b_.lanes + g;
        const V z = load(at);
        store(b_.dweight + g, fma(dy, max(zero(), z), load(b_.dweight + g)));
        store(at, where_lt(zero(), z, mul(dy, load(b_.weight + g)), zero()));
      }
    }
    matmul<FloatStep>({plan_.G, lanes_d, n}, {b_.z, 1, b_.lanes}, {b_.keys, b_.row_d},
                      {b_.dq, b_.row_d}, {Into::kAdd});
    matmul<FloatStep>({n, lanes_d, plan_.G}, {b_.z, b_.lanes, 1}, {b_.q, b_.row_d},
                      {products, b_.row_d});
  }

  void store_query() {
    for (int64_t g = 0; g < plan_.G; ++g) {
      from_float(plan_.dtype, b_.dq + g * b_.row_d, plan_.D, grad_.dq,
                 row_ * plan_.q.row + head(g) * plan_.q.head);
      grad_.dweights[row_ * plan_.N1 + head(g)] = b_.dweight[g];
    }
  }

  const AttentionPlan& plan_;
  const TokenGradPlan& grad_;
  const Segment& seg_;
  int64_t key_head_, row_;
  TokenGradBuffers& b_;
};

// A member's part of the keys of a segment: what the queries of a wave add to them.
inline void add_to_keys(const Member& member, const AttentionPlan& plan, const TokenGradPlan& grad,
                        const Segment& seg, int64_t key_head, int64_t queries) {
  const int64_t row_d = padded_row(plan.D), members = member.region.count;
  const int64_t begin = seg.kv_len * member.number / members;
  const int64_t past = seg.kv_len * (member.number + 1) / members;
  for (int64_t n = 0; n < queries; ++n) {
    const int32_t* picked = grad.picked + n * grad.count;
    for (int64_t p = 0; p < grad.num_picked[n]; ++p) {
      const int64_t k = picked[p];
      if (k < begin || k >= past) continue;
      add_to(grad.dk + seg.k + k * plan.k.row + key_head * plan.k.head,
             grad.products + (n * grad.count + p) * row_d, plan.D);
    }
  }
}

void lightning_indexer_grad(const AttentionPlan& plan, const TokenGradPlan& grad,
                            const ForwardScratch& scratch, int threads) {
  in_team(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    TokenGradBuffers buffers = TokenGradBuffers::carve(arena, plan);
    for (int64_t b = 0; b < plan.num_segments; ++b) {
      const Segment& seg = plan.segments[b];
      for (int64_t h = 0; h < plan.N2; ++h) {
        for (int64_t i0 = 0; i0 < seg.q_len; i0 += grad.wave) {
          const int64_t queries = min64(grad.wave, seg.q_len - i0);
          member.take(queries, [&](int64_t n) {
            PickedQuery query(plan, grad, seg, h, i0 + n, buffers);
            grad.num_picked[n] = query.run(grad.picked + n * grad.count,
                                           grad.products + n * grad.count * padded_row(plan.D));
          });
          member.meet();
          add_to_keys(member, plan, grad, seg, h, queries);
          member.meet();
        }
      }
    }
  });
}

int64_t lightning_indexer_grad_thread_size(const AttentionPlan& plan) {
  return measured([&](Arena& arena) { TokenGradBuffers::carve(arena, plan); });
}

}  // namespace
}  // namespace nsa::cpu
