// The state of the online softmax against sums in double precision, for the instruction set that
// the build names: scores that come in steps, of rows alone and side by side, and in parts that are
// merged, rows without keys, masked scores, and scores that are no numbers. Prints what is wrong
// and fails.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "cpu/engine/step/online_softmax.h"

namespace nsa::cpu {
namespace {

int failures = 0;

void expect_close(const char* what, double got, double want, double tolerance) {
  const bool same = got == want || std::fabs(got - want) <= tolerance * std::fabs(want);
  const bool nan = std::isnan(got) && std::isnan(want);
  if (same || nan) return;
  std::printf("%s: got %.9g, expected %.9g\n", what, got, want);
  ++failures;
}

struct Exact {
  double max = -INFINITY, sum = 0;
};

Exact exact(const std::vector<float>& scores) {
  Exact all;
  for (const float s : scores) all.max = std::fmax(all.max, s);
  if (all.max == -INFINITY) return all;
  for (const float s : scores)
    all.sum += all.max == INFINITY ? NAN : std::exp(static_cast<double>(s) - all.max);
  return all;
}

// Scores of 6 steps of 32 keys, in [-range, range].
std::vector<float> draw(uint32_t seed, float range) {
  std::vector<float> scores(6 * 32);
  for (float& s : scores) {
    seed = seed * 1664525u + 1013904223u;
    s = range * (static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
  }
  return scores;
}

SoftmaxState by_rows(std::vector<float> scores, int64_t step, bool visible) {
  SoftmaxState state = SoftmaxState::empty();
  for (size_t at = 0; at < scores.size(); at += step) {
    float* s = scores.data() + at;
    const float top = raw_max(s, step);
    if (visible && in_exp_range(top)) {
      online_softmax_visible(s, step, 1.0f, top, 1.0f, state,
                             [&](int64_t j, V x) { store(s + j, x); });
    } else {
      online_softmax_row(s, step, 1.0f, state);
    }
  }
  return state;
}

// How a kernel variant takes probabilities: as floats.
struct Floats {
  static constexpr WordForm kForm = {1, 1};
  static void put(float* p, int64_t j, V x) { store(p + j, x); }
  static void put(float* p, int64_t j, V x, V y) {
    put(p, j, x);
    put(p, j + W, y);
  }
};

// Repeats a row of scores once more than a vector has lanes: rows side by side, and the last alone.
void check_side_by_side(const std::vector<float>& scores, int64_t step) {
  constexpr int64_t kRows = W + 1;
  std::vector<SoftmaxState> state(kRows, SoftmaxState::empty());
  std::vector<float> s(kRows * kScoreRow), factor(kRows), seen(kRows);
  for (size_t at = 0; at < scores.size(); at += step) {
    for (int64_t r = 0; r < kRows; ++r)
      std::copy_n(scores.data() + at, step, s.data() + r * kScoreRow);
    softmax_rows<Floats>(s.data(), kRows, step, 1.0f, state.data(), factor.data());
    for (int64_t r = 0; r < kRows; ++r) {
      seen[r] *= factor[r];
      for (int64_t j = 0; j < step; ++j) seen[r] += s[r * kScoreRow + j];
    }
  }
  const Exact want = exact(scores);
  for (int64_t r = 0; r < kRows; ++r) {
    expect_close("maximum of rows side by side", state[r].max, want.max, 0);
    expect_close("sum of rows side by side", state[r].sum, want.sum, 2e-5);
    expect_close("their probabilities", seen[r], want.sum, 2e-5);
  }
}

// Key j of a row of lane i is scores[j W + i]: every lane has a row of its own.
template <class Exponent>
SoftmaxLanes<Exponent> by_lanes(const std::vector<float>& scores, size_t from, size_t past,
                                float scale) {
  using Lanes = SoftmaxLanes<Exponent>;
  Lanes lanes = Lanes::empty();
  for (size_t at = from; at < past; at += W) {
    const V x = mul(load(scores.data() + at), set1(scale)), top = max(x, lanes.max);
    lanes.add(top, Exponent::of(x, Lanes::base_of(top)));
  }
  return lanes;
}

template <class Exponent>
void check_lanes(const std::vector<float>& scores, float scale) {
  using Lanes = SoftmaxLanes<Exponent>;
  const size_t half = scores.size() / W / 2 * W;
  Lanes all = by_lanes<Exponent>(scores, 0, scores.size(), scale);
  const Lanes a = by_lanes<Exponent>(scores, 0, half, scale);
  const Lanes b = by_lanes<Exponent>(scores, half, scores.size(), scale);
  Lanes merged{max(a.max, b.max), zero()};
  merged.merge(a);
  merged.merge(b);
  float sum[W], merged_sum[W], top[W];
  store(sum, all.sum);
  store(merged_sum, merged.sum);
  store(top, all.max);
  for (size_t lane = 0; lane < W; ++lane) {
    std::vector<float> row;
    for (size_t at = lane; at < scores.size(); at += W) row.push_back(scores[at]);
    const Exact want = exact(row);
    if (want.max == INFINITY) continue;  // left to the general code
    expect_close("maximum of a lane", top[lane], want.max * scale, 1e-6);
    expect_close("sum of a lane", sum[lane], want.sum, 2e-5);
    expect_close("merged sum of a lane", merged_sum[lane], want.sum, 2e-5);
  }
}

void check(const std::vector<float>& scores) {
  const Exact want = exact(scores);
  for (const int64_t step : {int64_t{32}, int64_t{96}}) {
    for (const bool visible : {false, true}) {
      const SoftmaxState state = by_rows(scores, step, visible);
      expect_close("maximum of a row", state.max, want.max, 0);
      expect_close("sum of a row", state.sum, want.sum, 2e-5);
    }
    check_side_by_side(scores, step);
  }
  check_lanes<NaturalExponent>(scores, 1.0f);
  check_lanes<BinaryExponent>(scores, kLog2e);
}

int run() {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::vector<float> scores = draw(seed, seed % 4 == 0 ? 60.0f : 4.0f);
    check(scores);
    for (size_t j = 0; j < scores.size(); j += 3) scores[j] = -INFINITY;  // masked scores
    check(scores);
    for (size_t j = 0; j < scores.size() / 2; ++j) scores[j] = -INFINITY;  // whole steps of them
    check(scores);
  }
  check(std::vector<float>(6 * 32, -INFINITY));
  const SoftmaxState none = by_rows(std::vector<float>(32, -INFINITY), 32, false);
  expect_close("a row without keys: sum", none.sum_out(), kFloatMax, 0);
  expect_close("a row without keys: maximum", none.max_out(), -kFloatMax, 0);
  expect_close("a row without keys: divisor", none.divisor(), 1, 0);
  for (const float bad : {INFINITY, NAN}) {
    std::vector<float> scores = draw(7, 4.0f);
    scores[70] = bad;
    expect_close("a score that is no number", by_rows(scores, 32, false).sum, NAN, 0);
  }
  SoftmaxState sink = by_rows(draw(3, 4.0f), 32, false);
  const SoftmaxState before = sink;
  const float factor = sink.add_sink(9.0f);
  expect_close("a sink", sink.sum, before.sum * std::exp(before.max - 9.0) + 1, 2e-6);
  expect_close("a sink's factor", factor, std::exp(before.max - 9.0), 2e-6);
  return failures != 0;
}

}  // namespace
}  // namespace nsa::cpu

int main() { return nsa::cpu::run(); }
