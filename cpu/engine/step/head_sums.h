// Scores of an indexer: products of several heads with a key become one number.
#pragma once

#include <type_traits>

#include "cpu/engine/simd/vec_math.h"

namespace nsa::cpu {
namespace {

// out[j] = sum over `heads` rows of s, lds apart, of weight[h] times scale s[h][j], or times what
// is positive of it; whole vectors from [0, n).
template <bool kRelu>
inline void combine_heads(const float* s, int64_t lds, float scale, const float* weight,
                          int64_t heads, int64_t n, float* out) {
  constexpr int kVectors = 4;
  const V times = set1(scale);
  const auto columns = [&](int64_t j, auto vectors) {
    constexpr int count = decltype(vectors)::value;
    V sum[count];
    for (int v = 0; v < count; ++v) sum[v] = zero();
    for (int64_t h = 0; h < heads; ++h) {
      const V by = set1(weight[h]);
      for (int v = 0; v < count; ++v) {
        const V x = mul(load(s + h * lds + j + v * W), times);
        // The second operand is what max() gives where it is NaN.
        sum[v] = fma(by, kRelu ? max(zero(), x) : x, sum[v]);
      }
    }
    for (int v = 0; v < count; ++v) store(out + j + v * W, sum[v]);
  };
  int64_t j = 0;
  for (; j + kVectors * W <= n; j += kVectors * W)
    columns(j, std::integral_constant<int, kVectors>{});
  for (; j < n; j += W) columns(j, std::integral_constant<int, 1>{});
}

}  // namespace
}  // namespace nsa::cpu
