// The gradient of SparseFlashAttention, query by query on the tiles of its forward. What a query
// adds to its keys and values waits until a wave of queries is done; then every thread adds it up
// for a share of the keys, in the order of the queries.
#pragma once

#include "cpu/sparse_flash_attention/kernel.h"

namespace nsa::cpu {
namespace {

struct SparseGradBuffers {
  GatherBuffers gathered;
  float* q;                      // [G, row_k]
  float* q_lanes;                // [depth, lanes]
  float* dout;                   // [G, row_o]
  float* dout_lanes;             // [Dv, lanes]
  float* dq;                     // [G, row_k]
  float* p;                      // [most, lanes] scores, then probabilities
  float* ds;                     // [kGatherRows, lanes]
  float *max, *inverse, *delta;  // [lanes]
  float* tmp;                    // [Dv]
  int64_t lanes, row_o;

  static SparseGradBuffers carve(Arena& arena, const AttentionPlan& plan,
                                 const SparsePlan& sparse) {
    SparseGradBuffers b{};
    b.gathered = GatherBuffers::carve(arena, plan, sparse);
    b.lanes = round_up(plan.G, kLanePad);
    b.row_o = padded_row(plan.Dv);
    b.q = arena.take<float>(plan.G * b.gathered.row_k);
    b.q_lanes = arena.take<float>(sparse.depth(plan) * b.lanes);
    b.dout = arena.take<float>(plan.G * b.row_o);
    b.dout_lanes = arena.take<float>(plan.Dv * b.lanes);
    b.dq = arena.take<float>(plan.G * b.gathered.row_k);
    b.p = arena.take<float>(sparse.most * b.lanes);
    b.ds = arena.take<float>(kGatherRows * b.lanes);
    b.max = arena.take<float>(b.lanes);
    b.inverse = arena.take<float>(b.lanes);
    b.delta = arena.take<float>(b.lanes);
    b.tmp = arena.take<float>(round_up(plan.Dv, kLanePad));
    return b;
  }
};

// One query with the heads of a key head.
class SparseQueryGrad {
 public:
  SparseQueryGrad(const AttentionPlan& plan, const SparseGradPlan& grad, const Segment& seg,
                  int64_t key_head, int64_t i, SparseGradBuffers& b)
      : plan_(plan),
        grad_(grad),
        seg_(seg),
        key_head_(key_head),
        i_(i),
        row_(seg.first_query + i),
        depth_(grad.depth(plan)),
        b_(b) {}

  // Writes the terms of dk and dv to the rows of products and their tokens to `topk_tokens`.
  // Returns how many.
  int64_t run(int32_t* topk_tokens, float* products, float* value_products) {
    GatherBuffers& gathered = b_.gathered;
    const int64_t total = expand_tokens(
        grad_, seg_, i_, grad_.indices + (row_ * plan_.N2 + key_head_) * grad_.count, gathered);
    fill(b_.dq, plan_.G * gathered.row_k, 0.0f);
    load_rows(plan_, grad_, row_, key_head_, gathered.row_k, b_.lanes, b_.q, b_.q_lanes);
    load_out();
    probabilities(total);
    for (int64_t t = 0; t < total; t += kGatherRows) {
      const int64_t n = min64(kGatherRows, total - t);
      gather_rows(plan_, grad_, seg_, key_head_, gathered.tokens + t, n, gathered);
      score_gradients(b_.p + t * b_.lanes, n);
      const int64_t lanes_k = round_up(depth_, kLanePad), lanes_v = round_up(plan_.Dv, kLanePad);
      const Lanes rows = {gathered.keys, gathered.row_k};
      matmul<FloatStep>({plan_.G, lanes_k, n}, {b_.ds, 1, b_.lanes}, rows, {b_.dq, rows.row_stride},
                        {Into::kAdd});
      matmul<FloatStep>({n, lanes_k, plan_.G}, {b_.ds, b_.lanes, 1}, {b_.q, rows.row_stride},
                        {products + t * rows.row_stride, rows.row_stride});
      matmul<FloatStep>({n, lanes_v, plan_.G}, {b_.p + t * b_.lanes, b_.lanes, 1},
                        {b_.dout, b_.row_o}, {value_products + t * b_.row_o, b_.row_o});
    }
    for (int64_t t = 0; t < total; ++t) topk_tokens[t] = gathered.tokens[t];
    store_rows();
    return total;
  }

 private:
  int64_t head(int64_t g) const { return row_ * plan_.N1 + key_head_ * plan_.G + g; }

  // delta = rowsum(dout * out).
  void load_out() {
    fill(b_.dout_lanes, plan_.Dv * b_.lanes, 0.0f);
    fill(b_.delta, b_.lanes, 0.0f);
    for (int64_t g = 0; g < plan_.G; ++g) {
      float* dout = b_.dout + g * b_.row_o;
      to_float(plan_.dtype, grad_.dout, head(g) * plan_.Dv, plan_.Dv, dout);
      fill(dout + plan_.Dv, b_.row_o - plan_.Dv, 0.0f);
      to_float(plan_.dtype, plan_.out, head(g) * plan_.Dv, plan_.Dv, b_.tmp);
      for (int64_t d = 0; d < plan_.Dv; ++d) {
        b_.dout_lanes[d * b_.lanes + g] = dout[d];
        b_.delta[g] += dout[d] * b_.tmp[d];
      }
    }
  }

  // p = exp(score - max) / sum of all tokens, and of the sink.
  void probabilities(int64_t total) {
    GatherBuffers& gathered = b_.gathered;
    for (int64_t t = 0; t < total; t += kGatherRows) {
      const int64_t n = min64(kGatherRows, total - t);
      gather_rows(plan_, grad_, seg_, key_head_, gathered.tokens + t, n, gathered);
      products_of_rows(n, depth_, gathered.keys, gathered.row_k, b_.q_lanes, b_.lanes,
                       b_.p + t * b_.lanes);
    }
    const V by = set1(plan_.scale);
    for (int64_t g = 0; g < b_.lanes; g += W) {
      float sinks[W];
      for (int64_t k = 0; k < W; ++k) {
        const bool there = plan_.sink != nullptr && g + k < plan_.G;
        sinks[k] = there ? plan_.sink[key_head_ * plan_.G + g + k] : -kInfinity;
      }
      V top = load(sinks);
      for (int64_t t = 0; t < total; ++t) {
        const V x = mul(load(b_.p + t * b_.lanes + g), by);
        store(b_.p + t * b_.lanes + g, x);
        top = max(x, top);
      }
      const V base = SoftmaxLanes<NaturalExponent>::base_of(top);
      V each[kSums] = {exp_from(load(sinks), base), zero(), zero(), zero()};
      for (int64_t t = 0; t < total; ++t) {
        const V e = exp_from(load(b_.p + t * b_.lanes + g), base);
        store(b_.p + t * b_.lanes + g, e);
        each[t % kSums] = add(each[t % kSums], e);
      }
      float sums[W];
      store(sums, sum_of(each));
      for (int64_t k = 0; k < W; ++k) b_.inverse[g + k] = sums[k] == 0.0f ? 0.0f : 1.0f / sums[k];
      add_sum_gradients(sums, g);
      store(b_.max + g, top);
      const V inverse = load(b_.inverse + g);
      for (int64_t t = 0; t < total; ++t) {
        float* at = b_.p + t * b_.lanes + g;
        store(at, mul(load(at), inverse));
      }
    }
  }

  // delta -= sum * gradient of the sum, the maximum being a constant, of W heads from g on.
  void add_sum_gradients(const float* sums, int64_t g) {
    if (grad_.sum_grad == nullptr) return;
    const float* of_sum = grad_.sum_grad + grad_.statistic(plan_, row_, key_head_);
    for (int64_t k = 0; k < W && g + k < plan_.G; ++k) b_.delta[g + k] -= sums[k] * of_sum[g + k];
  }

  // ds = scale * p * (dp - delta) of n tokens; 0 where p is.
  void score_gradients(const float* p, int64_t n) {
    const GatherBuffers& gathered = b_.gathered;
    products_of_rows(n, plan_.Dv, gathered.values, gathered.row_v, b_.dout_lanes, b_.lanes, b_.ds);
    const V by = set1(plan_.scale);
    for (int64_t g = 0; g < b_.lanes; g += W) {
      const V delta = load(b_.delta + g);
      for (int64_t j = 0; j < n; ++j) {
        float* at = b_.ds + j * b_.lanes + g;
        const V x = load(p + j * b_.lanes + g), scaled = mul(x, by);
        const V d = mul(scaled, sub(load(at), delta));
        store(at, where_lt(zero(), x, d, mul(x, zero())));
      }
    }
  }

  void store_rows() {
    for (int64_t g = 0; g < plan_.G; ++g) {
      const float* dq = b_.dq + g * b_.gathered.row_k;
      from_float(plan_.dtype, dq, plan_.D, grad_.dq, head(g) * plan_.D);
      if (grad_.R > 0)
        from_float(plan_.dtype, dq + plan_.D, grad_.R, grad_.dq_rope, head(g) * grad_.R);
      if (grad_.dsink == nullptr) continue;
      const float sink = plan_.sink[key_head_ * plan_.G + g];
      const float base = b_.max[g] == -kInfinity ? 0.0f : b_.max[g];
      grad_.dsink[head(g)] = -exp1(sink - base) * b_.inverse[g] * b_.delta[g];
    }
  }

  const AttentionPlan& plan_;
  const SparseGradPlan& grad_;
  const Segment& seg_;
  int64_t key_head_, i_, row_, depth_;
  SparseGradBuffers& b_;
};

// A member's share of the keys of a segment: what the queries of a wave add to them.
inline void add_to_tokens(const Member& member, const AttentionPlan& plan,
                          const SparseGradPlan& grad, const Segment& seg, int64_t key_head,
                          int64_t queries) {
  const int64_t row_k = padded_row(grad.depth(plan)), row_v = padded_row(plan.Dv);
  const int64_t begin = seg.kv_len * member.number / member.region.count;
  const int64_t past = seg.kv_len * (member.number + 1) / member.region.count;
  for (int64_t n = 0; n < queries; ++n) {
    const int32_t* topk_tokens = grad.topk_tokens + n * grad.most;
    for (int64_t t = 0; t < grad.num_topk[n]; ++t) {
      if (topk_tokens[t] < begin || topk_tokens[t] >= past) continue;
      const int64_t head = (seg.first_key + topk_tokens[t]) * plan.N2 + key_head,
                    at = n * grad.most + t;
      const float* product = grad.products + at * row_k;
      add_to(grad.dk + head * plan.D, product, plan.D);
      if (grad.R > 0) add_to(grad.dk_rope + head * grad.R, product + plan.D, grad.R);
      add_to(grad.dv + head * plan.Dv, grad.value_products + at * row_v, plan.Dv);
    }
  }
}

void sparse_flash_attention_grad(const AttentionPlan& plan, const SparseGradPlan& grad,
                                 const ForwardScratch& scratch, int threads) {
  const int64_t row_k = padded_row(grad.depth(plan)), row_v = padded_row(plan.Dv);
  parallel_region(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    SparseGradBuffers buffers = SparseGradBuffers::carve(arena, plan, grad);
    for (int64_t b = 0; b < plan.num_segments; ++b) {
      const Segment& seg = plan.segments[b];
      for (int64_t h = 0; h < plan.N2; ++h) {
        for (int64_t i0 = 0; i0 < seg.q_len; i0 += grad.wave) {
          const int64_t queries = min64(grad.wave, seg.q_len - i0);
          member.dynamic_for(queries, [&](int64_t n) {
            grad.num_topk[n] =
                SparseQueryGrad(plan, grad, seg, h, i0 + n, buffers)
                    .run(grad.topk_tokens + n * grad.most, grad.products + n * grad.most * row_k,
                         grad.value_products + n * grad.most * row_v);
          });
          member.barrier();
          add_to_tokens(member, plan, grad, seg, h, queries);
          member.barrier();
        }
      }
    }
  });
}

int64_t sparse_flash_attention_grad_thread_size(const AttentionPlan& plan,
                                                const SparsePlan& sparse) {
  return measured([&](Arena& arena) { SparseGradBuffers::carve(arena, plan, sparse); });
}

}  // namespace
}  // namespace nsa::cpu
