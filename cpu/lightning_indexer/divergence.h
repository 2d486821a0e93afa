// The Kullback-Leibler divergence of an indexer from the attention that teaches it, over the keys
// of one query.
#pragma once

#include "cpu/engine/step/online_softmax.h"

namespace nsa::cpu {
namespace {

// The natural logarithm, with a relative error of some 1e-14 for what is a float: a series of
// (m - 1) / (m + 1) for a mantissa between sqrt(1/2) and sqrt(2). As the standard has it: -inf of
// 0, inf of inf, NaN of NaN and what is below 0.
inline double log_of(double x) {
  constexpr double kInf = __builtin_inf();
  if (!(x > 0.0 && x < kInf)) return x == 0.0 ? -kInf : x == kInf ? kInf : __builtin_nan("");
  int64_t bits;
  __builtin_memcpy(&bits, &x, 8);
  int64_t exponent = (bits >> 52) - 1023;
  bits = (bits & ((int64_t{1} << 52) - 1)) | (int64_t{1023} << 52);
  double m;
  __builtin_memcpy(&m, &bits, 8);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double f = (m - 1.0) / (m + 1.0), s = f * f;
  double series = 1.0 / 17;
  for (int n = 15; n > 0; n -= 2) series = series * s + 1.0 / n;
  return static_cast<double>(exponent) * 0.6931471805599453 + 2.0 * f * series;
}

// Lanes g, g + 1, ... of heads, and 0 of those past the last of `heads`, where 0 times an infinite
// key is NaN.
inline V of_heads(V x, int64_t g, int64_t heads) {
  if (g + W <= heads) return x;
  return where_lt(iota(), set1(static_cast<float>(heads - g)), x, zero());
}

// The sum over n keys of p (log p - log y), where y = exp(score - max) / sum; 0 where p is. Beside
// an infinite score, which makes the sum NaN, all others have y = 0.
inline double divergence(const float* p, const float* score, int64_t n, float max, float sum) {
  const double log_sum = max == kInfinity ? 0.0 : log_of(sum);
  double total = 0.0;
  for (int64_t t = 0; t < n; ++t) {
    if (p[t] == 0.0f) continue;
    const double above = static_cast<double>(score[t]) - static_cast<double>(max);
    total += static_cast<double>(p[t]) * (log_of(p[t]) - above + log_sum);
  }
  return total;
}

// The softmax of n scores, whose row reaches to a whole vector: scores become what the gradient of
// the divergence by them is, y * (sum of p) - p. Gives the divergence.
inline double divergence_gradient(const float* p, float* score, int64_t n) {
  const int64_t past = round_up(n, W);
  for (int64_t t = n; t < past; ++t) score[t] = -kInfinity;
  V top = set1(-kInfinity);
  for (int64_t t = 0; t < past; t += W) top = max(load(score + t), top);
  const float highest = hmax(top);
  const V base = set1(highest == -kInfinity ? 0.0f : highest);
  double sum = 0.0, mass = 0.0;
  for (int64_t t = 0; t < past; t += W) sum += hsum(exp_from(load(score + t), base));
  for (int64_t t = 0; t < n; ++t) mass += p[t];
  const double loss = divergence(p, score, n, highest, static_cast<float>(sum));
  const V by = set1(static_cast<float>(mass / sum));
  for (int64_t t = 0; t < past; t += W)
    store(score + t, sub(mul(exp_from(load(score + t), base), by), load(p + t)));
  return loss;
}

}  // namespace
}  // namespace nsa::cpu
