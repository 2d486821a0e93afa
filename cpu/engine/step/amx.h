// The way of AMX tiles: products of bf16 that read the left side along its rows only.
#pragma once

#include "cpu/engine/simd/amx.h"
#include "cpu/engine/step/bf16_dot.h"

namespace nsa::cpu {
namespace {

struct AmxStep {};

template <>
constexpr int64_t matmul_steps<AmxStep>(int64_t M, int64_t N) {
  return ceil_div(M / kAmxTile, 2) * ceil_div(N, 2 * kAmxTile);
}

// The product on tiles: K in whole tiles, A with neighbouring words. Up to 15 rows after the
// last row of A are read, whatever they hold; rows of C past M are not written. Sums go on in C, so
// that a sum over many calls is one long sum. It rounds more than a sum of partial sums, and far
// less than the operands are rounded.
template <>
inline void matmul<AmxStep>(Sizes of, Operand a, Lanes lanes_of_b, Output c, Sum sum) {
  const auto [M, N, K] = of;
  expect<Length::kPadded>(N);
  NSA_EXPECT(K % kAmxTile == 0 && a.k_stride == 1 && lanes_of_b.lane_stride == 1);
  const float* b = lanes_of_b.data;
  const int64_t ldb = lanes_of_b.row_stride;
  constexpr int64_t step = 2 * kAmxTile;
  const bool keep = sum.into != Into::kReplace;
  if (sum.into == Into::kAddScaled) {
    for (int64_t m = 0; m < M; ++m) {
      // With the online softmax few steps raise a row's maximum.
      if (sum.row_scale[m] != 1.0f) scale_row(c.row(m), N, sum.row_scale[m]);
    }
  }
  const int64_t whole = M / kAmxTile * kAmxTile;
  alignas(64) float part[kAmxTile * step];
  for (int64_t n = 0; n < N; n += step) {
    const int64_t lanes = min64(step, N - n);
    for (int64_t m = 0; m < whole; m += step) {
      const AmxRows rows = AmxRows::together(a.at(m, 0), a.row_stride, c.row(m) + n, c.row_stride);
      if (sum.ahead) sum.ahead->step();
      if (whole - m >= step) {
        amx_lanes<2>(lanes, K, rows, b + n, ldb, keep);
      } else {
        amx_lanes<1>(lanes, K, rows, b + n, ldb, keep);
      }
    }
    if (whole == M) continue;
    amx_lanes<1>(lanes, K, AmxRows::together(a.at(whole, 0), a.row_stride, part, step), b + n, ldb,
                 false);
    for (int64_t r = 0; r < M - whole; ++r) {
      for (int64_t j = 0; j < lanes; j += W) {
        float* at = c.row(whole + r) + n + j;
        const V x = load(part + r * step + j);
        store(at, keep ? add(load(at), x) : x);
      }
    }
  }
}

struct AmxPath : DotPath {
  using Step = AmxStep;
  static constexpr WordForm kForm = {2, kAmxTile};
  // Values of 2^64 and more would leave no room for kSlack.
  static constexpr uint32_t kLargeExponent = 0x5f80;

  static float dot_in_order(const float* a, const float* b, int64_t n) { return amx_dot(a, b, n); }
  static void dots_in_order(const float* a, const float* b, int64_t row, int64_t n, float* sums) {
    for (int k = 0; k < kDots; ++k) sums[k] = amx_dot(a + k * row, b + k * row, n);
  }
  // Rows that are whole words in memory, a vector's lanes at once.
  static int64_t transpose_rows(const TensorRows& rows, int64_t D, int64_t lanes, float* dst) {
    const int64_t depth = kForm.words(D);
    int64_t done = 0;
    for (; D % (2 * W) == 0 && rows.row % 2 == 0 && done + W <= rows.n; done += W) {
      for (int64_t j = done + W; j < min64(done + 2 * W, rows.n); ++j)
        ask_for_row(rows.t, rows.src, rows.at(j), D);
      const char* first = static_cast<const char*>(rows.src) + 2 * rows.at(done);
      for (int64_t d = 0; d < depth; d += W)
        transpose_square(reinterpret_cast<const float*>(first) + d, rows.row / 2,
                         dst + d * lanes + done, lanes);
    }
    return done;
  }
  // dst[c][r] = word c of row r, for W rows of W words.
  static void transpose(const float* src, int64_t lds, float* dst, int64_t ldd) {
    transpose_square(src, lds, dst, ldd);
  }
  // amx_block().
  using Block = AmxRows;
  template <int Rows, int Lanes, class Between = Nothing>
  [[gnu::always_inline]] static void block(int64_t K, const AmxRows& rows, const float* b,
                                           int64_t ldb, bool add, const Between& between = {}) {
    amx_block<Rows, Lanes>(K, rows, b, ldb, add, between);
  }
  static void begin() { amx_begin(); }
  static void end() { amx_end(); }
};

}  // namespace
}  // namespace nsa::cpu
