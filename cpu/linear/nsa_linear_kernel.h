// A linear map of few rows reads every weight once and does little with it, so it should take as
// long as the reading: weights are rounded on their way, some of four rows at a time.
#pragma once

#include "cpu/engine/simd/vec_math.h"
#include "cpu/linear/nsa_linear.h"

namespace nsa::cpu {
namespace {

constexpr int64_t kLinearStep = 256;  // elements of a row at once
constexpr int64_t kLinearTokens = 8;  // rows of x at once

// n elements of a weight's row from k on as the product takes them, in `some` unless they can stay.
inline const float* linear_weight(const NsaLinearParams& p, int64_t row, int64_t k, int64_t n,
                                  float* some) {
  const int64_t at = row * p.K + k;
  const bool whole = p.weight_type == ElemType::kFloat32 && n % W == 0;
  const float* weight = whole ? static_cast<const float*>(p.weight) + at : some;
  if (!whole) to_float(p.weight_type, p.weight, at, n, some);
  if (kRoundsBFloat16 && whole && p.dtype == ElemType::kBFloat16) {
    for (int64_t i = 0; i < n; i += W) store(some + i, round_bf16(load(weight + i)));
    return some;
  }
  if (p.dtype != ElemType::kFloat32 && p.dtype != p.weight_type) {
    alignas(64) uint16_t narrow[kLinearStep];
    from_float(p.dtype, weight, n, narrow, 0);
    to_float(p.dtype, narrow, 0, n, some);
    weight = some;
  }
  if (!whole) fill(some + n, round_up(n, W) - n, 0.0f);
  return weight;
}

// y[t][row..row + kLinearRows) of `tokens` rows of x from t0 on.
inline void linear_tokens(const NsaLinearParams& p, int64_t row, int64_t t0, int64_t tokens) {
  alignas(64) float some[kLinearRows][kLinearStep], last[kLinearStep];
  V acc[kLinearTokens][kLinearRows];
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t r = 0; r < kLinearRows; ++r) acc[t][r] = zero();
  for (int64_t k = 0; k < p.K; k += kLinearStep) {
    const int64_t n = min64(kLinearStep, p.K - k);
    const float* weight[kLinearRows];
    // Past the last row it counts again, and is not written.
    for (int64_t r = 0; r < kLinearRows; ++r)
      weight[r] = linear_weight(p, min64(row + r, p.N - 1), k, n, some[r]);
    for (int64_t t = 0; t < tokens; ++t) {
      const float* x = p.x + (t0 + t) * p.K + k;
      if (n % W != 0) {
        __builtin_memcpy(last, x, static_cast<size_t>(4 * n));
        fill(last + n, round_up(n, W) - n, 0.0f);
        x = last;
      }
      V sum[kLinearRows];
#pragma GCC unroll 4
      for (int64_t r = 0; r < kLinearRows; ++r) sum[r] = acc[t][r];
      for (int64_t i = 0; i < n; i += W) {
        const V xi = load(x + i);
#pragma GCC unroll 4
        for (int64_t r = 0; r < kLinearRows; ++r) sum[r] = fma(xi, load(weight[r] + i), sum[r]);
      }
#pragma GCC unroll 4
      for (int64_t r = 0; r < kLinearRows; ++r) acc[t][r] = sum[r];
    }
  }
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t r = 0; r < min64(kLinearRows, p.N - row); ++r)
      p.y[(t0 + t) * p.N + row + r] = hsum(acc[t][r]);
}

// One token and whole vectors of float32: a weight is used once, so it is rounded in its register,
// and the next rows are prefetched. A row is often a page or two, and the hardware prefetcher stops
// at the end of a page.
template <bool kRounds>
[[gnu::noinline]] void linear_token(const NsaLinearParams& p, int64_t row) {
  const float* weight[kLinearRows];
  V sum[kLinearRows];
#pragma GCC unroll 4
  for (int64_t r = 0; r < kLinearRows; ++r) {
    weight[r] = static_cast<const float*>(p.weight) + min64(row + r, p.N - 1) * p.K;
    sum[r] = zero();
  }
  const int64_t next = row + 2 * kLinearRows <= p.N ? kLinearRows * p.K : 0;
  for (int64_t k = 0; k < p.K; k += W) {
    const V x = load(p.x + k);
#pragma GCC unroll 4
    for (int64_t r = 0; r < kLinearRows; ++r) {
      __builtin_prefetch(weight[r] + next + k, 0, 3);
      V w = load(weight[r] + k);
      if constexpr (kRounds) w = round_bf16(w);
      sum[r] = fma(x, w, sum[r]);
    }
  }
#pragma GCC unroll 4
  for (int64_t r = 0; r < kLinearRows; ++r)
    if (row + r < p.N) p.y[row + r] = hsum(sum[r]);
}

void linear_rows(const NsaLinearParams& p, int64_t row) {
  if (p.T == 1 && p.weight_type == ElemType::kFloat32 && p.K % W == 0) {
    if (p.dtype == ElemType::kFloat32) return linear_token<false>(p, row);
    if constexpr (kRoundsBFloat16) {
      if (p.dtype == ElemType::kBFloat16) return linear_token<true>(p, row);
    }
  }
  for (int64_t t = 0; t < p.T; t += kLinearTokens)
    linear_tokens(p, row, t, min64(kLinearTokens, p.T - t));
}

}  // namespace
}  // namespace nsa::cpu
