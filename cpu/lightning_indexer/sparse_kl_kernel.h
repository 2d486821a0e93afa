// The KL loss of an indexer over the tokens that it selected, query by query on the gathered rows
// of SparseFlashAttention: the mean attention of the heads, the scores of the indexer, and from
// both the gradients of the scores, which go on as those of LightningIndexer do.
#pragma once

#include "cpu/engine/step/gathered_tokens.h"
#include "cpu/lightning_indexer/divergence.h"
#include "cpu/lightning_indexer/grad_kernel.h"
#include "cpu/lightning_indexer/kl_loss_plan.h"

namespace nsa::cpu {
namespace {

static_assert(kGatherRows == kTopkStep);

struct SparseKLBuffers {
  GatherBuffers gathered;
  float* q;              // [G, row_k] of a key head of the attention
  float* q_lanes;        // [depth, lanes]
  float* s;              // [kGatherRows, lanes]
  float *max, *inverse;  // [lanes]
  TokenGradBuffers index;
  float* p;      // [most] mean attention
  float* score;  // [most] of the indexer, then its gradients
  int64_t lanes;

  static SparseKLBuffers carve(Arena& arena, const KLPlan& plan) {
    SparseKLBuffers b{};
    const int64_t most = round_up(plan.tokens.most, kLanePad);
    b.gathered = GatherBuffers::carve(arena, plan.attention, plan.tokens);
    b.lanes = round_up(plan.attention.G, kLanePad);
    b.q = arena.take<float>(plan.attention.G * b.gathered.row_k);
    b.q_lanes = arena.take<float>(plan.tokens.depth(plan.attention) * b.lanes);
    b.s = arena.take<float>(kGatherRows * b.lanes);
    b.max = arena.take<float>(b.lanes);
    b.inverse = arena.take<float>(b.lanes);
    b.index = TokenGradBuffers::carve(arena, plan.index, plan.grad);
    b.p = arena.take<float>(most);
    b.score = arena.take<float>(most);
    return b;
  }
};

// One query of a group.
class SparseQueryKL {
 public:
  SparseQueryKL(const KLPlan& plan, int64_t segment, int64_t group, int64_t i, SparseKLBuffers& b)
      : plan_(plan),
        seg_(plan.index.segments[segment]),
        group_(group),
        i_(i),
        row_(seg_.first_query + i),
        b_(b) {}

  // Returns the number of tokens like grad_one_query().
  int64_t run(int32_t* topk_tokens, float* dz) {
    const AttentionPlan& index = plan_.index;
    TokenGradBuffers& of_index = b_.index;
    const int64_t at = row_ * index.N2 + group_;
    const int64_t total = expand_tokens(
        plan_.tokens, seg_, i_, plan_.tokens.indices + at * plan_.tokens.count, b_.gathered);
    const int32_t* tokens = b_.gathered.tokens;
    load_topk_query(index, plan_.grad, row_, group_, of_index);
    if (total > 0) {
      mean_attention(total);
      scores(total, dz);
      plan_.loss[at] = divergence_gradient(b_.p, b_.score, total);
    }
    for (int64_t t = 0; t < total; t += kGatherRows) {
      const int64_t n = min64(kGatherRows, total - t);
      gather_topk_keys(index, seg_, group_, tokens + t, n, of_index);
      accumulate_topk_grads(index, n, b_.score + t, dz + t * of_index.lanes, of_index);
    }
    for (int64_t t = 0; t < total; ++t) topk_tokens[t] = tokens[t];
    store_topk_query(index, plan_.grad, row_, group_, of_index);
    return total;
  }

 private:
  // p = the mean of exp(score - max) / sum over the heads of the group.
  void mean_attention(int64_t total) {
    const AttentionPlan& plan = plan_.attention;
    fill(b_.p, round_up(total, kLanePad), 0.0f);
    const int64_t heads = plan_.key_heads();
    for (int64_t h = group_ * heads; h < (group_ + 1) * heads; ++h) {
      GatherBuffers& gathered = b_.gathered;
      load_rows(plan, plan_.tokens, row_, h, gathered.row_k, b_.lanes, b_.q, b_.q_lanes);
      load_statistics(h);
      for (int64_t t = 0; t < total; t += kGatherRows) {
        const int64_t n = min64(kGatherRows, total - t);
        gather_rows(plan, plan_.tokens, seg_, h, gathered.tokens + t, n, gathered);
        products_of_rows(n, plan_.tokens.depth(plan), gathered.keys, gathered.row_k, b_.q_lanes,
                         b_.lanes, b_.s);
        add_probabilities_of_heads(n, b_.p + t);
      }
    }
  }

  void load_statistics(int64_t key_head) {
    const AttentionPlan& plan = plan_.attention;
    fill(b_.max, b_.lanes, 0.0f);
    fill(b_.inverse, b_.lanes, 0.0f);
    const int64_t at = plan_.tokens.statistic(plan, row_, key_head);
    const float share = 1.0f / static_cast<float>(plan.G * plan_.key_heads());
    for (int64_t g = 0; g < plan.G; ++g) {
      const float top = plan.softmax_max[at + g], sum = plan.softmax_sum[at + g];
      b_.inverse[g] = share * SoftmaxState::inverse_of(top, sum);
      b_.max[g] = top == -kFloatMax ? 0.0f : top;
    }
  }

  void add_probabilities_of_heads(int64_t n, float* p) {
    const V by = set1(plan_.attention.scale);
    for (int64_t j = 0; j < n; ++j) {
      V sum = zero();
      for (int64_t g = 0; g < b_.lanes; g += W) {
        const V x = mul(load(b_.s + j * b_.lanes + g), by);
        const V e = of_heads(exp_from(x, load(b_.max + g)), g, plan_.attention.G);
        sum = fma(e, load(b_.inverse + g), sum);
      }
      p[j] += hsum(sum);
    }
  }

  // Computes the scores of all tokens and the products z [total, lanes] that they come from.
  void scores(int64_t total, float* products) {
    TokenGradBuffers& b = b_.index;
    const int64_t heads = plan_.index.G;
    for (int64_t t = 0; t < total; t += kGatherRows) {
      const int64_t n = min64(kGatherRows, total - t);
      gather_topk_keys(plan_.index, seg_, group_, b_.gathered.tokens + t, n, b);
      float* const z = products + t * b.lanes;
      topk_products(plan_.index, n, b, z);
      for (int64_t j = 0; j < n; ++j) {
        V sum = zero();
        for (int64_t g = 0; g < b.lanes; g += W)
          sum = fma(load(b.weight + g), of_heads(max(zero(), load(z + j * b.lanes + g)), g, heads),
                    sum);
        b_.score[t + j] = hsum(sum);
      }
    }
  }

  const KLPlan& plan_;
  const Segment& seg_;
  int64_t group_, i_, row_;
  SparseKLBuffers& b_;
};

void sparse_kl_loss(const KLPlan& plan, const ForwardScratch& scratch, int threads) {
  parallel_region(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    SparseKLBuffers buffers = SparseKLBuffers::carve(arena, plan);
    grad_of_topk(
        member, plan.index, plan.grad, buffers.index,
        [&](const Segment& seg, int64_t group, int64_t i, int32_t* topk_tokens, float* dz) {
          return SparseQueryKL(plan, seg.index, group, i, buffers).run(topk_tokens, dz);
        });
  });
}

int64_t sparse_kl_loss_thread_size(const KLPlan& plan) {
  return measured([&](Arena& arena) { SparseKLBuffers::carve(arena, plan); });
}

}  // namespace
}  // namespace nsa::cpu
