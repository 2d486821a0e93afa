// The softmax of every attention kernel: running maximum and sum of a row, and the only place that
// knows about rows without keys and about infinite scores. A score of +inf or NaN makes the sum of
// its row NaN, as inf - inf is; one of -inf is masked.
//
// The state of a row is SoftmaxState; of as many rows as a vector has lanes, SoftmaxLanes, where
// nothing waits for one row's maximum and no branch depends on whether it grew. How exponents are
// taken and what becomes of probabilities are policies.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/simd/vec_math.h"

namespace nsa::cpu {
namespace {

constexpr float kInfinity = __builtin_inff();

struct SoftmaxState {
  float max;  // of the scores seen, -inf: none yet
  float sum;  // of exp(score - max)

  static SoftmaxState empty() { return {-kInfinity, 0.0f}; }

  // For a second pass over the same scores, and the sink: exponents are then taken against the
  // maximum of all of them from the first key on.
  SoftmaxState restart_from_max(float sink = -kInfinity) const {
    return {sink > max ? sink : max, 0.0f};
  }

  // Base of the exponents: 0 for -inf, because -inf - -inf would be NaN.
  float base() const { return max == -kInfinity ? 0.0f : max; }

  // Raises the maximum; gives the factor for everything accumulated so far.
  float raise(float new_max) {
    if (!(new_max > max)) return 1.0f;
    const float old = max;
    max = new_max;
    const float factor = old == -kInfinity ? 0.0f : exp1(old - max);
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
  bool empty_row() const { return max == -kInfinity && sum == sum; }
  float divisor() const { return empty_row() ? 1.0f : sum; }
  float inverse_sum() const { return empty_row() ? 0.0f : 1.0f / sum; }
  // Vectors pass over a NaN in search of the maximum.
  float max_out() const {
    if (sum != sum && max < kInfinity) return sum;
    return empty_row() ? -kFloatMax : max;
  }
  float sum_out() const { return empty_row() ? kFloatMax : sum; }

  // inverse in P = exp(score - max) * inverse, from the stored statistics of a row.
  static float inverse_of(float max_out, float sum_out) {
    return max_out == -kFloatMax && sum_out == kFloatMax ? 0.0f : 1.0f / sum_out;
  }
};

// s[0..n) *= scale; gives their maximum, without regard to NaN.
inline float scaled_max(float* s, int64_t n, float scale) {
  expect<Length::kWholeVectors>(n);
  const V factor = set1(scale);
  V m = set1(-kInfinity);
  for (int64_t j = 0; j < n; j += W) {
    V x = mul(load(s + j), factor);
    store(s + j, x);
    m = max(x, m);
  }
  return hmax(m);
}

// Makes every score of a NaN row NaN, except the masked ones.
inline float nan_row(float* s, int64_t n, float scale) {
  const float nan = __builtin_nanf("");
  for (int64_t j = 0; j < n; ++j) s[j] = s[j] * scale == -kInfinity ? 0.0f : nan;
  return nan;
}

// exp(x - base) of scores.
inline V exp_from(V x, V base) { return exp2(mul(sub(x, base), set1(kLog2e))); }

// exp(x - base) for a base, the row's maximum, that is at least x. Where numbers are too large
// for bf16x3 a gradient may differ from its forward by what floats round: exp() of that could be
// infinite.
inline V exp_below(V x, V base) {
  if constexpr (kHasTiles) {
    // The second operand is what min() gives where one of both is NaN.
    return exp2(mul(min(zero(), sub(x, base)), set1(kLog2e)));
  } else {
    return exp_from(x, base);
  }
}

// How the lanes of a state take exponents: of scores, or of scores that have log2(e) in them.
struct NaturalExponent {
  static V of(V x, V base) { return exp_from(x, base); }
};
struct BinaryExponent {
  static V of(V x, V base) { return exp2(sub(x, base)); }
};

// The states of W rows, lane by lane.
template <class Exponent>
struct SoftmaxLanes {
  V max, sum;

  static SoftmaxLanes empty() { return {set1(-kInfinity), zero()}; }

  // Base of the exponents: 0 for -inf, because -inf - -inf would be NaN.
  static V base_of(V max) { return where_lt(set1(-kInfinity), max, max, zero()); }

  // Takes in exponentials against base_of(top), whose sum is `total`; top is not below the maximum.
  // Gives the factor for everything accumulated so far.
  V add(V top, V total) {
    const V factor = Exponent::of(max, base_of(top));
    max = top;
    sum = fma(sum, factor, total);
    return factor;
  }

  // Takes in other scores of the same rows, whose maximum is not above this one.
  void merge(const SoftmaxLanes& other) {
    sum = fma(other.sum, Exponent::of(other.max, base_of(max)), sum);
  }
};

// s = exp(s - base); gives the sum.
inline float exp_row(float* s, int64_t n, float base) {
  expect<Length::kWholeVectors>(n);
  if (base == kInfinity) return nan_row(s, n, 1.0f);
  const V b = set1(base);
  V sum = zero();
  for (int64_t j = 0; j < n; j += W) {
    V e = exp_from(load(s + j), b);
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

// No score of a row with this maximum is +inf, and none of all of them overflows.
inline bool in_exp_range(float max) { return max > -1e30f && max < 1e30f; }

// The largest of raw products, without regard to NaN.
inline float raw_max(const float* s, int64_t n) {
  expect<Length::kWholeVectors>(n);
  V m = set1(-kInfinity);
  for (int64_t j = 0; j < n; j += W) m = max(load(s + j), m);
  return hmax(m);
}

// online_softmax_row() for raw products of keys that are all visible, in two passes
// over them instead of three: put(j, x) stores elements j.. of the probabilities. The caller has
// made sure that the scores are in the range of exp; top is their maximum.
template <class Put>
inline float online_softmax_visible(const float* s, int64_t n, float scale, float top, float weight,
                                    SoftmaxState& state, const Put& put) {
  const float factor = state.raise(top);
  const V base = set1(state.max), by = set1(scale), times = set1(weight);
  V sum = zero();
  for (int64_t j = 0; j < n; j += W) {
    const V e = exp_from(mul(load(s + j), by), base);
    sum = add(sum, e);
    put(j, weight == 1.0f ? e : mul(e, times));
  }
  state.sum += weight * hsum(sum);
  return factor;
}

// prob += row / sum. In a row that sees a NaN a masked score still has the probability 0, so that
// its block ranks above those of which nothing is known.
inline void add_probabilities(const float* row, int64_t n, float inverse_sum, float* prob) {
  if (inverse_sum != inverse_sum) {
    for (int64_t j = 0; j < n; ++j) {
      if (row[j] != 0.0f) prob[j] = inverse_sum;
    }
    return;
  }
  expect<Length::kWholeVectors>(n);
  const V inverse = set1(inverse_sum);
  for (int64_t j = 0; j < n; j += W) store(prob + j, fma(load(row + j), inverse, load(prob + j)));
}

// Backward: s = exp(s * scale - max) * inverse.
inline void probabilities_row(float* s, int64_t n, float scale, float max_value, float inverse) {
  expect<Length::kWholeVectors>(n);
  if (inverse != inverse) {
    nan_row(s, n, scale);
    return;
  }
  const V factor = set1(scale), base = set1(max_value), inv = set1(inverse);
  for (int64_t j = 0; j < n; j += W)
    store(s + j, mul(exp_below(mul(load(s + j), factor), base), inv));
}

// Probabilities in place as words: the bf16 form rounds them and uses the front half of the row.
template <class Variant>
inline void pack_probabilities(float* p, int64_t n) {
  if (Variant::kForm.per_word == 1) return;
  for (int64_t j = 0; j < n; j += W) Variant::put(p, j, load(p + j));
}

// One step of the online softmax over raw products of keys that are all visible: they become words
// of probabilities. Gives the factor for the output row so far.
template <class Variant>
inline float softmax_step(float* s, int64_t n, float scale, SoftmaxState& state,
                          float weight = 1.0f) {
  const float top = raw_max(s, n) * scale;
  if (scale > 0.0f && in_exp_range(top) && state.max < kInfinity) {
    return online_softmax_visible(s, n, scale, top, weight, state,
                                  [&](int64_t j, V x) { Variant::put(s, j, x); });
  }
  const float factor = online_softmax_row(s, n, scale, state, weight);
  pack_probabilities<Variant>(s, n);
  return factor;
}

inline void copy_states(const SoftmaxState* from, int64_t n, SoftmaxState* to) {
  for (int64_t r = 0; r < n; ++r) to[r] = from[r];
}

// softmax_step() of W rows of s, ld apart. False: some row's scores are not in the range of exp,
// and nothing is done.
template <class Variant>
inline bool softmax_step_rows(float* s, int64_t ld, int64_t n, float scale, SoftmaxState* state,
                              float* factor) {
  expect<Length::kWholeVectors>(n);
  V each[W];
  float top[W], sum[W];
  for (int r = 0; r < W; ++r) {
    const float* row = s + r * ld;
    V m = set1(-kInfinity);
    for (int64_t j = 0; j < n; j += W) m = max(load(row + j), m);
    each[r] = m;
    top[r] = state[r].max;
    sum[r] = state[r].sum;
  }
  const V by = set1(scale), here = mul(max_rows(each), by), before = load(top);
  if (!in_exp_range(hmax(max(before, max(here, sub(zero(), here)))))) return false;
  SoftmaxLanes<NaturalExponent> lanes{before, load(sum)};
  const V now = max(here, before);
  store(top, now);
  for (int r = 0; r < W; ++r) {
    float* row = s + r * ld;
    const V base = set1(top[r]);
    const auto probability = [&](int64_t j) { return exp_from(mul(load(row + j), by), base); };
    V total = zero();
    int64_t j = 0;
    for (; j + 2 * W <= n; j += 2 * W) {
      const V e = probability(j), next = probability(j + W);
      total = add(add(total, e), next);
      Variant::put(row, j, e, next);
    }
    if (j < n) {
      const V e = probability(j);
      total = add(total, e);
      Variant::put(row, j, e);
    }
    each[r] = total;
  }
  store(factor, lanes.add(now, sum_rows(each)));
  store(sum, lanes.sum);
  for (int r = 0; r < W; ++r) state[r] = {top[r], sum[r]};
  return true;
}

// softmax_step() of all rows. A call: within a caller's loops the constants of the exponential do
// not stay in registers.
template <class Variant>
[[gnu::noinline]] inline void softmax_rows(float* s, int64_t rows, int64_t n, float scale,
                                           SoftmaxState* state, float* factor) {
  int64_t r = 0;
  for (; r + W <= rows; r += W) {
    float* first = s + r * kScoreRow;
    if (scale > 0.0f &&
        softmax_step_rows<Variant>(first, kScoreRow, n, scale, state + r, factor + r))
      continue;
    for (int64_t k = r; k < r + W; ++k)
      factor[k] = softmax_step<Variant>(s + k * kScoreRow, n, scale, state[k]);
  }
  for (; r < rows; ++r) factor[r] = softmax_step<Variant>(s + r * kScoreRow, n, scale, state[r]);
}

}  // namespace
}  // namespace nsa::cpu
