// The gradient of SparseFlashAttention, query by query on the tiles of its forward. Probabilities
// and gradients of scores of a wave of queries wait for the sums of keys and values, see
// token_sums.h.
#pragma once

#include "cpu/engine/step/token_sums.h"
#include "cpu/sparse_flash_attention/kernel.h"

namespace nsa::cpu {
namespace {

// Floats of keys that are gathered once for both passes over them: with more, which would leave the
// second-level cache, reading them again from the tensor takes no longer.
constexpr int64_t kKeptFloats = 3 << 17;

struct SparseGradBuffers {
  GatherBuffers gathered;
  int64_t kept;  // tokens that it has room for
  TokenSumBuffers sums;
  float* q;                      // [G, row_k]
  float* q_lanes;                // [depth, lanes]
  float* dout;                   // [G, row_o], and zeros in the rest of kDots rows
  float* dout_lanes;             // [Dv, lanes]
  float* dq;                     // [G, row_k]
  float *max, *inverse, *delta;  // [lanes]
  float* out;                    // [kDots, row_o] of a few heads
  int64_t lanes, row_o;

  static SparseGradBuffers carve(Arena& arena, const AttentionPlan& plan,
                                 const SparseGradPlan& sparse) {
    SparseGradBuffers b{};
    const int64_t fit = kKeptFloats / padded_row(sparse.depth(plan));
    b.kept = max64(kGatherRows, min64(fit, sparse.most));
    b.gathered = GatherBuffers::carve(arena, plan, sparse, b.kept);
    b.sums = TokenSumBuffers::carve(arena, plan.G, sparse.waiting);
    b.lanes = round_up(plan.G, kLanePad);
    b.row_o = padded_row(plan.Dv);
    b.q = arena.take<float>(plan.G * b.gathered.row_k);
    b.q_lanes = arena.take<float>(sparse.depth(plan) * b.lanes);
    b.dout = arena.take<float>(round_up(plan.G, kDots) * b.row_o);
    b.dout_lanes = arena.take<float>(plan.Dv * b.lanes);
    b.dq = arena.take<float>(plan.G * b.gathered.row_k);
    b.max = arena.take<float>(b.lanes);
    b.inverse = arena.take<float>(b.lanes);
    b.delta = arena.take<float>(b.lanes);
    b.out = arena.take<float>(kDots * b.row_o);
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

  // Writes the query's tokens, their probabilities and the gradients of their scores, [total,
  // lanes] each. Returns how many.
  int64_t run(int32_t* topk_tokens, float* p, float* ds) {
    GatherBuffers& gathered = b_.gathered;
    const int64_t total = expand_tokens(
        grad_, seg_, i_, grad_.indices + (row_ * plan_.N2 + key_head_) * grad_.count, gathered);
    fill(b_.dq, plan_.G * gathered.row_k, 0.0f);
    load_rows(plan_, grad_, row_, key_head_, gathered.row_k, b_.lanes, b_.q, b_.q_lanes);
    load_out();
    const bool kept = total <= b_.kept;
    probabilities(total, kept, p);
    for (int64_t t = 0; t < total; t += kGatherRows) {
      const int64_t n = min64(kGatherRows, total - t), row = gathered.row_k;
      float* const keys = gathered.keys + (kept ? t * row : 0);
      if (!kept) gather_keys(plan_, grad_, seg_, key_head_, gathered.tokens + t, n, keys, row);
      gather_values(plan_, grad_, seg_, key_head_, gathered.tokens + t, n, gathered);
      float* const of_scores = ds + t * b_.lanes;
      score_gradients(p + t * b_.lanes, gathered.shared ? keys : gathered.values, n, of_scores);
      matmul<FloatStep>({plan_.G, round_up(depth_, kLanePad), n}, {of_scores, 1, b_.lanes},
                        {keys, row}, {b_.dq, row}, {Into::kAdd});
    }
    for (int64_t t = 0; t < total; ++t) topk_tokens[t] = gathered.tokens[t];
    store_rows();
    return total;
  }

 private:
  int64_t head(int64_t g) const { return row_ * plan_.N1 + key_head_ * plan_.G + g; }

  // delta = rowsum(dout * out), of a few heads side by side: one sum alone would wait for each
  // addition.
  void load_out() {
    fill(b_.delta, b_.lanes, 0.0f);
    for (int64_t g0 = 0; g0 < plan_.G; g0 += kDots) {
      const int64_t heads = min64(kDots, plan_.G - g0), row = b_.row_o;
      float* const dout = b_.dout + g0 * row;
      fill(dout, kDots * row, 0.0f);
      fill(b_.out, kDots * row, 0.0f);
      for (int64_t g = 0; g < heads; ++g) {
        to_float(plan_.dtype, grad_.dout, head(g0 + g) * plan_.Dv, plan_.Dv, dout + g * row);
        to_float(plan_.dtype, plan_.out, head(g0 + g) * plan_.Dv, plan_.Dv, b_.out + g * row);
      }
      float sums[kDots] = {};
      for (int64_t d = 0; d < plan_.Dv; ++d)
        for (int64_t g = 0; g < kDots; ++g) sums[g] += dout[g * row + d] * b_.out[g * row + d];
      for (int64_t g = 0; g < heads; ++g) b_.delta[g0 + g] = sums[g];
    }
    rows_as_lanes(b_.dout, b_.row_o, plan_.G, plan_.Dv, b_.lanes, b_.dout_lanes);
  }

  // p = exp(score - max) / sum of all tokens, and of the sink.
  void probabilities(int64_t total, bool kept, float* p) {
    const GatherBuffers& gathered = b_.gathered;
    for (int64_t t = 0; t < total; t += kGatherRows) {
      const int64_t n = min64(kGatherRows, total - t), row = gathered.row_k;
      float* const keys = gathered.keys + (kept ? t * row : 0);
      gather_keys(plan_, grad_, seg_, key_head_, gathered.tokens + t, n, keys, row);
      products_of_rows(n, depth_, keys, row, b_.q_lanes, b_.lanes, p + t * b_.lanes);
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
        const V x = mul(load(p + t * b_.lanes + g), by);
        store(p + t * b_.lanes + g, x);
        top = max(x, top);
      }
      const V base = SoftmaxLanes<NaturalExponent>::base_of(top);
      V each[kSums] = {exp_from(load(sinks), base), zero(), zero(), zero()};
      for (int64_t t = 0; t < total; ++t) {
        const V e = exp_from(load(p + t * b_.lanes + g), base);
        store(p + t * b_.lanes + g, e);
        each[t % kSums] = add(each[t % kSums], e);
      }
      float sums[W];
      store(sums, sum_of(each));
      for (int64_t k = 0; k < W; ++k) b_.inverse[g + k] = sums[k] == 0.0f ? 0.0f : 1.0f / sums[k];
      add_sum_gradients(sums, g);
      store(b_.max + g, top);
      const V inverse = load(b_.inverse + g);
      for (int64_t t = 0; t < total; ++t) {
        float* at = p + t * b_.lanes + g;
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
  void score_gradients(const float* p, const float* values, int64_t n, float* ds) {
    products_of_rows(n, plan_.Dv, values, b_.gathered.row_v, b_.dout_lanes, b_.lanes, ds);
    const V by = set1(plan_.scale);
    for (int64_t g = 0; g < b_.lanes; g += W) {
      const V delta = load(b_.delta + g);
      for (int64_t j = 0; j < n; ++j) {
        float* at = ds + j * b_.lanes + g;
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

void sparse_flash_attention_grad_kernel(const AttentionPlan& plan, const SparseGradPlan& grad,
                                        const ForwardScratch& scratch, int threads) {
  const WaitingTokens& waiting = grad.waiting;
  const int64_t of_query = waiting.most * round_up(plan.G, kLanePad);
  const KeyOutput outputs[] = {{plan.query, grad.ds, grad.dk, plan.D},
                               {grad.query_rope, grad.ds, grad.dk_rope, grad.R},
                               {grad.dout, grad.p, grad.dv, plan.Dv}};
  parallel_region(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    SparseGradBuffers buffers = SparseGradBuffers::carve(arena, plan, grad);
    for (int64_t b = 0; b < plan.num_segments; ++b) {
      const Segment& seg = plan.segments[b];
      for (int64_t h = 0; h < plan.N2; ++h) {
        for (int64_t i0 = 0; i0 < seg.q_len; i0 += waiting.wave) {
          const int64_t queries = min64(waiting.wave, seg.q_len - i0);
          member.dynamic_for(queries, [&](int64_t n) {
            const int64_t total = SparseQueryGrad(plan, grad, seg, h, i0 + n, buffers)
                                      .run(waiting.tokens + n * waiting.most, grad.p + n * of_query,
                                           grad.ds + n * of_query);
            put_in_chunks(waiting, n, total);
          });
          member.barrier();
          add_token_sums(member, {plan, waiting, seg, h, i0, queries}, outputs, 3, buffers.sums);
          member.barrier();
        }
      }
    }
  });
}

int64_t sparse_flash_attention_grad_thread_size(const AttentionPlan& plan,
                                                const SparseGradPlan& grad) {
  return measured([&](Arena& arena) { SparseGradBuffers::carve(arena, plan, grad); });
}

}  // namespace
}  // namespace nsa::cpu
