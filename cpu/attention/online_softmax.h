// The softmax of every attention kernel: running maximum and sum of a row, and the only place that
// knows about rows without keys.
#pragma once

#include "cpu/simd/vec_math.h"

namespace nsa::cpu {
namespace {

constexpr float kInfinity = __builtin_inff();

struct SoftmaxState {
  float max;  // of the scores seen, -inf: none yet
  float sum;  // of exp(score - max)

  static SoftmaxState empty() { return {-kInfinity, 0.0f}; }

  // What exponents are taken against: -inf - -inf would be NaN.
  float base() const { return max == -kInfinity ? 0.0f : max; }

  // Raises the maximum; gives the factor for everything accumulated so far.
  float raise(float new_max) {
    float old = max;
    max = new_max > old ? new_max : old;
    float factor = exp1(old - base());
    sum *= factor;
    return factor;
  }

  // A sink is one more logit without a value; gives the factor for the output.
  float add_sink(float sink) {
    float factor = raise(sink);
    sum += exp1(sink - base());
    return factor;
  }

  // A row without keys has accumulated zeros: they stay zeros.
  float divisor() const { return max == -kInfinity ? 1.0f : sum; }
  float inverse_sum() const { return max == -kInfinity ? 0.0f : 1.0f / sum; }
  float max_out() const { return max == -kInfinity ? -kFloatMax : max; }
  float sum_out() const { return max == -kInfinity ? kFloatMax : sum; }

  // What the backward pass needs of a stored pair: P = exp(score - max) * inverse.
  static float inverse_of(float max_out, float sum_out) {
    return max_out == -kFloatMax && sum_out == kFloatMax ? 0.0f : 1.0f / sum_out;
  }
};

// s[0..n) = min(s * scale, FLT_MAX) and their maximum. A score that overflows must not become inf,
// whose difference with itself is NaN.
inline float scaled_max(float* s, int64_t n, float scale) {
  expect<Length::kWholeVectors>(n);
  const V top = set1(kFloatMax), factor = set1(scale);
  V m = set1(-kInfinity);
  for (int64_t j = 0; j < n; j += W) {
    V x = min(top, mul(load(s + j), factor));
    store(s + j, x);
    m = max(x, m);
  }
  return hmax(m);
}

// s = exp(s - base); gives the sum.
inline float exp_row(float* s, int64_t n, float base) {
  expect<Length::kWholeVectors>(n);
  const V b = set1(base);
  V sum = zero();
  for (int64_t j = 0; j < n; j += W) {
    V e = exp(sub(load(s + j), b));
    store(s + j, e);
    sum = add(sum, e);
  }
  return hsum(sum);
}

// Scores of one more tile become exp(s - max); gives the factor for the output row so far. Every
// key of the tile counts `weight` times.
inline float online_softmax_row(float* s, int64_t n, float scale, SoftmaxState& state,
                                float weight = 1.0f) {
  float factor = state.raise(scaled_max(s, n, scale));
  state.sum += weight * exp_row(s, n, state.base());
  if (weight != 1.0f)
    for (int64_t j = 0; j < n; ++j) s[j] *= weight;
  return factor;
}

// Backward: s = exp(min(s * scale, FLT_MAX) - max) * inverse.
inline void probabilities_row(float* s, int64_t n, float scale, float max_value, float inverse) {
  expect<Length::kWholeVectors>(n);
  const V top = set1(kFloatMax), factor = set1(scale), base = set1(max_value), inv = set1(inverse);
  for (int64_t j = 0; j < n; j += W) {
    V x = min(top, mul(load(s + j), factor));
    store(s + j, mul(exp(sub(x, base)), inv));
  }
}

}  // namespace
}  // namespace nsa::cpu
