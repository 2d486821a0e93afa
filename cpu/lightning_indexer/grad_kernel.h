// The gradient of LightningIndexer's values, query by query: the top-k keys are gathered once, and
// all heads are rows of the products with them. The gradients of these products wait, for a wave of
// queries, for the sums of keys, see token_sums.h.
#pragma once

#include "cpu/engine/plan/topk_tokens.h"
#include "cpu/engine/step/forward.h"
#include "cpu/engine/step/token_sums.h"
#include "cpu/lightning_indexer/indexer_plan.h"

namespace nsa::cpu {
namespace {

struct TokenGradBuffers {
  TokenSumBuffers sums;
  float* q;        // [G, row_d]
  float* q_lanes;  // [D, lanes]
  float* weight;   // [lanes]
  float* dweight;  // [lanes]
  float* dq;       // [G, row_d]
  float* keys;     // [kTopkStep, row_d]
  float* dy;       // [kTopkStep]
  int64_t row_d, lanes;

  static TokenGradBuffers carve(Arena& arena, const AttentionPlan& plan,
                                const TokenGradPlan& grad) {
    TokenGradBuffers b{};
    b.sums = TokenSumBuffers::carve(arena, plan.G, grad.waiting);
    b.row_d = padded_row(plan.D);
    b.lanes = round_up(plan.G, kLanePad);
    b.q = arena.take<float>(plan.G * b.row_d);
    b.q_lanes = arena.take<float>(plan.D * b.lanes);
    b.weight = arena.take<float>(b.lanes);
    b.dweight = arena.take<float>(b.lanes);
    b.dq = arena.take<float>(plan.G * b.row_d);
    b.keys = arena.take<float>(kTopkStep * b.row_d);
    b.dy = arena.take<float>(kTopkStep);
    return b;
  }
};

// The query of a row with the heads of a key head, as rows and as lanes; its gradients begin at 0.
inline void load_topk_query(const AttentionPlan& plan, const TokenGradPlan& grad, int64_t row,
                            int64_t key_head, TokenGradBuffers& b) {
  fill(b.weight, b.lanes, 0.0f);
  fill(b.q_lanes, plan.D * b.lanes, 0.0f);
  fill(b.dweight, b.lanes, 0.0f);
  fill(b.dq, plan.G * b.row_d, 0.0f);
  for (int64_t g = 0; g < plan.G; ++g) {
    const int64_t head = key_head * plan.G + g;
    float* q = b.q + g * b.row_d;
    to_float(plan.dtype, plan.query, row * plan.q.row + head * plan.q.head, plan.D, q);
    fill(q + plan.D, b.row_d - plan.D, 0.0f);
    for (int64_t d = 0; d < plan.D; ++d) b.q_lanes[d * b.lanes + g] = q[d];
    b.weight[g] = grad.weights ? grad.weights[row * plan.N1 + head] : 1.0f;
  }
}

// The keys of n top-k tokens of a segment, padded with zeros.
inline void gather_topk_keys(const AttentionPlan& plan, const Segment& seg, int64_t key_head,
                             const int32_t* topk_tokens, int64_t n, TokenGradBuffers& b) {
  const auto row = [&](int64_t j) {
    return seg.k + topk_tokens[j] * plan.k.row + key_head * plan.k.head;
  };
  for (int64_t j = 0; j < n; ++j) {
    if (j + kPrefetchDistance < n)
      prefetch_row(plan.dtype, plan.key, row(j + kPrefetchDistance), plan.D);
    float* key = b.keys + j * b.row_d;
    to_float(plan.dtype, plan.key, row(j), plan.D, key);
    fill(key + plan.D, b.row_d - plan.D, 0.0f);
  }
}

// z [n, lanes] of the gathered keys and all heads.
inline void topk_products(const AttentionPlan& plan, int64_t n, const TokenGradBuffers& b,
                          float* z) {
  matmul<FloatStep>({n, b.lanes, plan.D}, {b.keys, b.row_d, 1}, {b.q_lanes, b.lanes}, {z, b.lanes});
}

// Adds what n scores with the gradients dy add to the query and its weights. z [n, lanes], the
// products of the gathered keys, becomes their gradients.
inline void accumulate_topk_grads(const AttentionPlan& plan, int64_t n, const float* gradients,
                                  float* z, TokenGradBuffers& b) {
  const int64_t lanes_d = round_up(plan.D, kLanePad);
  for (int64_t j = 0; j < n; ++j) {
    const V dy = set1(gradients[j]);
    for (int64_t g = 0; g < b.lanes; g += W) {
      float* at = z + j * b.lanes + g;
      const V x = load(at);
      store(b.dweight + g, fma(dy, max(zero(), x), load(b.dweight + g)));
      store(at, where_lt(zero(), x, mul(dy, load(b.weight + g)), zero()));
    }
  }
  matmul<FloatStep>({plan.G, lanes_d, n}, {z, 1, b.lanes}, {b.keys, b.row_d}, {b.dq, b.row_d},
                    {Into::kAdd});
}

inline void store_topk_query(const AttentionPlan& plan, const TokenGradPlan& grad, int64_t row,
                             int64_t key_head, const TokenGradBuffers& b) {
  for (int64_t g = 0; g < plan.G; ++g) {
    const int64_t head = key_head * plan.G + g;
    from_float(plan.dtype, b.dq + g * b.row_d, plan.D, grad.dq,
               row * plan.q.row + head * plan.q.head);
    grad.dweights[row * plan.N1 + head] = b.dweight[g];
  }
}

// Query i with the heads of a key head: writes dq and dweights, and for each top-k token that
// exists its index and the gradients of its products, dz [lanes]. Returns how many.
inline int64_t grad_one_query(const AttentionPlan& plan, const TokenGradPlan& grad,
                              const Segment& seg, int64_t key_head, int64_t i, int32_t* topk_tokens,
                              float* dz, TokenGradBuffers& b) {
  const int64_t row = seg.first_query + i, at = row * plan.N2 + key_head;
  const int32_t* indices = grad.indices + at * grad.count;
  load_topk_query(plan, grad, row, key_head, b);
  int64_t total = 0;
  for (int64_t p = 0; p < grad.count;) {
    int64_t n = 0;
    for (; p < grad.count && n < kTopkStep; ++p) {
      const int32_t k = indices[p];
      if (k < 0 || k >= seg.kv_len) continue;
      topk_tokens[total + n] = k;
      b.dy[n++] = load1(plan.dtype, grad.dy, at * grad.count + p);
    }
    if (n > 0) {
      gather_topk_keys(plan, seg, key_head, topk_tokens + total, n, b);
      float* const z = dz + total * b.lanes;
      topk_products(plan, n, b, z);
      accumulate_topk_grads(plan, n, b.dy, z, b);
    }
    total += n;
  }
  store_topk_query(plan, grad, row, key_head, b);
  return total;
}

// The gradients of all queries, wave by wave: query(segment, key head, number, topk_tokens, dz)
// does one, as grad_one_query().
template <class Query>
inline void grad_of_topk(const Member& member, const AttentionPlan& plan, const TokenGradPlan& grad,
                         TokenGradBuffers& buffers, const Query& query) {
  const WaitingTokens& waiting = grad.waiting;
  const KeyOutput dk = {plan.query, grad.dz, grad.dk, plan.D};
  for (int64_t b = 0; b < plan.num_segments; ++b) {
    const Segment& seg = plan.segments[b];
    for (int64_t h = 0; h < plan.N2; ++h) {
      for (int64_t i0 = 0; i0 < seg.q_len; i0 += waiting.wave) {
        const int64_t queries = min64(waiting.wave, seg.q_len - i0);
        member.dynamic_for(queries, [&](int64_t n) {
          const int64_t first = n * waiting.most;
          const int64_t total = query(seg, h, i0 + n, waiting.tokens + first,
                                      grad.dz + first * round_up(plan.G, kLanePad));
          put_in_chunks(waiting, n, total);
        });
        member.barrier();
        add_token_sums(member, {plan, waiting, seg, h, i0, queries}, &dk, 1, buffers.sums);
        member.barrier();
      }
    }
  }
}

void lightning_indexer_grad_kernel(const AttentionPlan& plan, const TokenGradPlan& grad,
                                   const ForwardScratch& scratch, int threads) {
  parallel_region(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    TokenGradBuffers buffers = TokenGradBuffers::carve(arena, plan, grad);
    grad_of_topk(
        member, plan, grad, buffers,
        [&](const Segment& seg, int64_t key_head, int64_t i, int32_t* topk_tokens, float* dz) {
          return grad_one_query(plan, grad, seg, key_head, i, topk_tokens, dz, buffers);
        });
  });
}

int64_t lightning_indexer_grad_thread_size(const AttentionPlan& plan, const TokenGradPlan& grad) {
  return measured([&](Arena& arena) { TokenGradBuffers::carve(arena, plan, grad); });
}

}  // namespace
}  // namespace nsa::cpu
