// A step of the online softmax for several rows at once. Their maxima and sums are lanes of
// vectors: nothing waits for one row's maximum, and no branch depends on whether it grew.
#pragma once

#include "cpu/engine/plan/schedule.h"
#include "cpu/engine/step/pack.h"

namespace nsa::cpu {
namespace {

inline void copy_states(const SoftmaxState* from, int64_t n, SoftmaxState* to) {
  for (int64_t r = 0; r < n; ++r) to[r] = from[r];
}

// softmax_step() of W rows of s, ld apart. False: some row's scores are not moderate, and nothing
// is done.
template <class Path>
inline bool softmax_step_rows(float* s, int64_t ld, int64_t n, float scale, SoftmaxState* state,
                              float* factor) {
  expect<Length::kWholeVectors>(n);
  V part[W];
  float top[W], sum[W];
  for (int r = 0; r < W; ++r) {
    const float* row = s + r * ld;
    V m = set1(-kInfinity);
    for (int64_t j = 0; j < n; j += W) m = max(load(row + j), m);
    part[r] = m;
    top[r] = state[r].max;
    sum[r] = state[r].sum;
  }
  const V by = set1(scale), here = mul(max_rows(part), by), before = load(top);
  if (!moderate(hmax(max(before, max(here, sub(zero(), here)))))) return false;
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
      Path::put(row, j, e, next);
    }
    if (j < n) {
      const V e = probability(j);
      total = add(total, e);
      Path::put(row, j, e);
    }
    part[r] = total;
  }
  store(factor, lanes.add(now, sum_rows(part)));
  store(sum, lanes.sum);
  for (int r = 0; r < W; ++r) state[r] = {top[r], sum[r]};
  return true;
}

// softmax_step() of all rows. A call: within a caller's loops the constants of the exponential do
// not stay in registers.
template <class Path>
[[gnu::noinline]] inline void softmax_rows(float* s, int64_t rows, int64_t n, float scale,
                                           SoftmaxState* state, float* factor) {
  int64_t r = 0;
  for (; r + W <= rows; r += W) {
    float* first = s + r * kScoreRow;
    if (scale > 0.0f && softmax_step_rows<Path>(first, kScoreRow, n, scale, state + r, factor + r))
      continue;
    for (int64_t k = r; k < r + W; ++k)
      factor[k] = softmax_step<Path>(s + k * kScoreRow, n, scale, state[k]);
  }
  for (; r < rows; ++r) factor[r] = softmax_step<Path>(s + r * kScoreRow, n, scale, state[r]);
}

}  // namespace
}  // namespace nsa::cpu
