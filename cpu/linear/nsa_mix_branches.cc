#include "cpu/linear/nsa_mix_branches.h"

#include <cmath>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/threads/scratch.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {
namespace {

// n elements as floats: where they are, or in tmp.
const float* floats(const KernelTable& table, ElemType t, const void* x, int64_t n, float* tmp) {
  if (t == ElemType::kFloat32) return static_cast<const float*>(x);
  table.widen_rows(t, x, n, tmp);
  return tmp;
}

// A thread's rows of one token.
struct Rows {
  const float* branch[kGates];  // [N1 Dv]
  float* wide[kGates];          // [N1 Dv] for branches of 16 bits
  float* product;               // [N1 Dv]
  float* mixed_grad;            // [N1 Dv]
  float* gates;                 // [3 N1]
  float* sigmoid;               // [3 N1]

  static Rows carve(Arena& arena, const NsaMixBranchesParams& p) {
    Rows rows{};
    for (float*& wide : rows.wide) wide = arena.take<float>(p.N1 * p.Dv);
    rows.product = arena.take<float>(p.N1 * p.Dv);
    rows.mixed_grad = arena.take<float>(p.N1 * p.Dv);
    rows.gates = arena.take<float>(kGates * p.N1);
    rows.sigmoid = arena.take<float>(kGates * p.N1);
    return rows;
  }

  // The gates of token t, and the branches in float32.
  void load(const NsaMixBranchesParams& p, const KernelTable& table, int64_t t) {
    const int64_t width = p.N1 * p.Dv;
    const float* logits = p.logits + t * kGates * p.N1;
    for (int64_t i = 0; i < kGates * p.N1; ++i) {
      sigmoid[i] = 1.0f / (1.0f + std::exp(-logits[i]));
      gates[i] = sigmoid[i];
      // tanh(x / 2) = 2 sigmoid(x) - 1, without the difference of what is nearly equal.
      if (p.residual) gates[i] = i / p.N1 == 1 ? 2.0f * sigmoid[i] : std::tanh(0.5f * logits[i]);
    }
    for (int b = 0; b < kGates; ++b) {
      const char* row = static_cast<const char*>(p.branches[b]) + t * width * elem_size(p.dtype);
      branch[b] = floats(table, p.dtype, row, width, wide[b]);
    }
  }
};

template <class Token>
void for_tokens(const NsaMixBranchesParams& p, const Token& token) {
  const int threads = num_threads();
  const int64_t space = thread_space(measured([&](Arena& arena) { Rows::carve(arena, p); }));
  char* memory = nullptr;
  const Scratch scratch([&](Arena& arena) { memory = arena.take_threads(threads, space); });
  parallel_region(threads, [&](const Member& member) {
    Arena arena{memory + member.number * space};
    Rows rows = Rows::carve(arena, p);
    member.static_for(p.T, [&](int64_t t) { token(t, rows); });
  });
}

// Rounds n floats to numbers of a dtype that are floats still; tmp holds n of them.
void round_floats(const KernelTable& table, ElemType t, const float* x, int64_t n, void* tmp,
                  float* rounded) {
  table.round_rows(t, x, n, tmp);
  table.widen_rows(t, tmp, n, rounded);
}

// In the same order for any instruction set.
float dot(const float* __restrict a, const float* __restrict b, int64_t n) {
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) sums[i % kLanes] += a[i] * b[i];
  float sum = 0.0f;
  for (const float each : sums) sum += each;
  return sum;
}

void mix_token(const NsaMixBranchesParams& p, const KernelTable& table, int64_t t, Rows& rows) {
  rows.load(p, table, t);
  const int64_t width = p.N1 * p.Dv;
  const bool plain = p.dtype == ElemType::kFloat32;
  char* mixed = static_cast<char*>(p.mixed) + t * width * elem_size(p.mixed_type);
  float* __restrict product = plain ? reinterpret_cast<float*>(mixed) : rows.product;
  const float *x0 = rows.branch[0], *x1 = rows.branch[1], *x2 = rows.branch[2];
  for (int64_t h = 0; h < p.N1; ++h) {
    const float g0 = rows.gates[h], g1 = rows.gates[p.N1 + h], g2 = rows.gates[2 * p.N1 + h];
    for (int64_t d = h * p.Dv; d < (h + 1) * p.Dv; ++d)
      product[d] = g0 * x0[d] + g1 * x1[d] + g2 * x2[d];
  }
  if (plain) return;
  if (p.mixed_type == p.dtype) return table.round_rows(p.dtype, rows.product, width, mixed);
  round_floats(table, p.dtype, rows.product, width, rows.wide[0], reinterpret_cast<float*>(mixed));
}

// mixed = sum over b of gate_b branch_b:
//   branch_b_grad = gate_b mixed_grad,  logit_b_grad = (mixed_grad . branch_b) slope_b
// with the slope s (1 - s) of s = sigmoid(logit_b), or twice that.
void mix_token_grad(const NsaMixBranchesGradParams& p, const KernelTable& table, int64_t t,
                    Rows& rows) {
  rows.load(p, table, t);
  const int64_t width = p.N1 * p.Dv;
  const bool plain = p.dtype == ElemType::kFloat32;
  const float times = p.residual ? 2.0f : 1.0f;
  const float* mixed_grad =
      floats(table, p.mixed_type,
             static_cast<const char*>(p.mixed_grad) + t * width * elem_size(p.mixed_type), width,
             rows.mixed_grad);
  for (int b = 0; b < kGates; ++b) {
    char* branch_grad = static_cast<char*>(p.branch_grads[b]) + t * width * elem_size(p.dtype);
    float* slopes = plain ? reinterpret_cast<float*>(branch_grad) : rows.product;
    for (int64_t h = 0; h < p.N1; ++h) {
      const float gate = rows.gates[b * p.N1 + h], s = rows.sigmoid[b * p.N1 + h];
      const float* dy = mixed_grad + h * p.Dv;
      float* __restrict slope = slopes + h * p.Dv;
      p.logits_grad[(t * kGates + b) * p.N1 + h] =
          dot(dy, rows.branch[b] + h * p.Dv, p.Dv) * (s * (1.0f - s) * times);
      for (int64_t d = 0; d < p.Dv; ++d) slope[d] = gate * dy[d];
    }
    if (!plain) table.round_rows(p.dtype, slopes, width, branch_grad);
  }
}

}  // namespace

void nsa_mix_branches(const NsaMixBranchesParams& p) {
  const KernelTable& table = kernels();
  for_tokens(p, [&](int64_t t, Rows& rows) { mix_token(p, table, t, rows); });
}

void nsa_mix_branches_grad(const NsaMixBranchesGradParams& p) {
  const KernelTable& table = kernels();
  for_tokens(p, [&](int64_t t, Rows& rows) { mix_token_grad(p, table, t, rows); });
}

void nsa_round(const NsaRoundParams& p) {
  const KernelTable& table = kernels();
  constexpr int64_t kAtOnce = 4096;
  parallel_region(num_threads(), [&](const Member& member) {
    alignas(64) float tmp[kAtOnce];
    member.static_for(ceil_div(p.n, kAtOnce), [&](int64_t n) {
      const int64_t at = n * kAtOnce;
      round_floats(table, p.dtype, p.x + at, min64(kAtOnce, p.n - at), tmp, p.rounded + at);
    });
  });
}

}  // namespace nsa::cpu
