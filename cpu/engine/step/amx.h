// The kernel variant of AMX tiles: products of bf16 that read the left side along its rows only,
// and steps of a forward for rows that see all keys of them. Included by the translation unit for
// AMX only.
#pragma once

#include "cpu/engine/simd/amx.h"
#include "cpu/engine/step/amx_buffers.h"
#include "cpu/engine/step/bf16_dot.h"
#include "cpu/engine/step/tile_matmul.h"

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
  alignas(64) float last[kAmxTile * step];
  for (int64_t n = 0; n < N; n += step) {
    const int64_t lanes = min64(step, N - n);
    for (int64_t m = 0; m < whole; m += step) {
      const AmxRows rows = AmxRows::together(a.at(m, 0), a.row_stride, c.row(m) + n, c.row_stride);
      if (sum.prefetch) sum.prefetch->step();
      if (whole - m >= step) {
        amx_lanes<2>(lanes, K, rows, b + n, ldb, keep);
      } else {
        amx_lanes<1>(lanes, K, rows, b + n, ldb, keep);
      }
    }
    if (whole == M) continue;
    amx_lanes<1>(lanes, K, AmxRows::together(a.at(whole, 0), a.row_stride, last, step), b + n, ldb,
                 false);
    for (int64_t r = 0; r < M - whole; ++r) {
      for (int64_t j = 0; j < lanes; j += W) {
        float* at = c.row(whole + r) + n + j;
        const V x = load(last + r * step + j);
        store(at, keep ? add(load(at), x) : x);
      }
    }
  }
}

struct AmxVariant : DotVariant {
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
        prefetch_row(rows.t, rows.src, rows.at(j), D);
      const char* first = static_cast<const char*>(rows.src) + 2 * rows.at(done);
      for (int64_t d = 0; d < depth; d += W)
        transpose_16x16(reinterpret_cast<const float*>(first) + d, rows.row / 2,
                        dst + d * lanes + done, lanes);
    }
    return done;
  }
  // dst[c][r] = word c of row r, for W rows of W words.
  static void transpose(const float* src, int64_t lds, float* dst, int64_t ldd) {
    transpose_16x16(src, lds, dst, ldd);
  }
  // amx_tiles().
  using TileRows = AmxRows;
  template <int Rows, int Lanes, class Between = Nothing>
  [[gnu::always_inline]] static void tiles(int64_t K, const AmxRows& rows, const float* b,
                                           int64_t ldb, bool add, const Between& between = {}) {
    amx_tiles<Rows, Lanes>(K, rows, b, ldb, add, between);
  }
  static void begin() { amx_begin(); }
  static void end() { amx_end(); }
};

// The products of scores and values wait for tiles most of the time, and the exponentials of scores
// that are there already run beside them.

static_assert(W == kAmxTile && kKvBlockKeys % kTile32x32Keys == 0);

// By so much may a score exceed what the exponents of its row are taken against before the row's
// sums are brought to a new maximum.
constexpr float kSlack = 5.5f;

// exp_from() with a polynomial of one degree less: a relative error below 1.5e-7, up to 2.4 ulp. Of
// equal scores the exponents are equal, too, and 0 at the base, however large both are.
[[gnu::always_inline]] inline V exp_beside(V score, V base) {
  const V x = mul(sub(score, base), set1(kLog2e)), r = above_floor(x);
  V p = set1(1.86713052e-3f);
  p = fma(p, r, set1(9.01702978e-3f));
  p = fma(p, r, set1(5.57999127e-2f));
  p = fma(p, r, set1(0.240164444f));
  p = fma(p, r, set1(0.693151295f));
  p = fma(p, r, set1(1.0f));
  return scale_pow2(p, x);
}

// Operands of the steps of a 32-row tile.
struct Tile32Step {
  const float* q;       // [kTile32Rows, depth]
  const float* keys;    // of the pair, KV blocks [depth, kKvBlockKeys]
  const float* values;  // of the pair [words, ldv]
  float* o;             // [kTile32Rows, ldv]
  int64_t depth, lanes_v, ldv;
  float scale;
  PrefetchQueue* prefetch;
};

class UnmaskedSteps {
 public:
  // How often a step calls ahead->step().
  static constexpr int64_t kPrefetchSteps = kStepTile32x32 * kTile32Rows / 2;

  // first: the first key of the first step.
  UnmaskedSteps(const Tile32Step& tile32, int64_t first, const AmxStepBuffers& b)
      : u_(tile32), b_(b), first_(first), by_(set1(tile32.scale)) {}

  // Gives how many of the steps were done, in order: one that has a score far above the others of
  // its row is not, nor are those after it.
  int64_t run(int64_t steps, SoftmaxState* state) {
    scores(0, Nothing{});
    if (!begin(state)) return 0;
    int64_t done = 0;
    while (done < steps) {
      const int64_t square = done * kStepTile32x32, past = steps * kStepTile32x32;
      if (done == 0) {
        exponentials_beside<0>(0, [&](const auto& work) NSA_INLINE { scores(1, work); });
      } else {
        scores(square + 1, Nothing{});
      }
      exponentials_beside<1>(done, [&](const auto& work) NSA_INLINE { scores(square + 2, work); });
      exponentials_beside<2>(done, [&](const auto& work) NSA_INLINE { scores(square + 3, work); });
      exponentials_beside<3>(done, [&](const auto& work) NSA_INLINE {
        if (square + kStepTile32x32 < past) scores(square + kStepTile32x32, work);
      });
      if (!fits()) break;
      take_step_sum();
      if (square + kStepTile32x32 < past) {
        exponentials_beside<0>(done + 1, [&](const auto& work) NSA_INLINE {
          values(done, [&](int n) NSA_INLINE {
            if (n == 3) work(n);
          });
        });
      } else {
        values(done, Nothing{});
      }
      ++done;
    }
    finish(state);
    return done;
  }

 private:
  float* tile_scores(int64_t n) const { return b_.scores + n % 2 * kTile32Rows * kTile32x32Keys; }
  float* step_words(int64_t step) const { return b_.p + step % 2 * kTile32Rows * kTile32Words; }

  // Exponents are taken against a row's maximum, or, where it has none yet, that of its first
  // 32 x 32 tile of scores. False: one of them is not in the range of exp.
  bool begin(const SoftmaxState* state) {
    fill(b_.sum, kTile32Rows * W, 0.0f);
    fill(b_.top, kTile32Rows * W, -kInfinity);
    for (int64_t r0 = 0; r0 < kTile32Rows; r0 += W) {
      V each[W];
      for (int64_t r = 0; r < W; ++r) {
        const float* row = tile_scores(0) + (r0 + r) * kTile32x32Keys;
        each[r] = max(load(row), load(row + W));
      }
      float first[W];
      store(first, max_rows(each));
      for (int64_t r = 0; r < W; ++r) {
        const float old = state[r0 + r].max, from = old == -kInfinity ? first[r] * u_.scale : old;
        if (!in_exp_range(from)) return false;
        b_.base[r0 + r] = from;
      }
    }
    return true;
  }

  template <class Between>
  [[gnu::always_inline]] void scores(int64_t n, const Between& between) {
    const int64_t key = first_ + n * kTile32x32Keys, kv_block = key / kKvBlockKeys;
    const float* keys = u_.keys + kv_block * u_.depth * kKvBlockKeys + key % kKvBlockKeys;
    amx_tiles<2, 2, true>(u_.depth,
                          AmxRows::together(u_.q, u_.depth, tile_scores(n), kTile32x32Keys), keys,
                          kKvBlockKeys, false, between);
  }

  template <class Between>
  [[gnu::always_inline]] void values(int64_t step, const Between& between) {
    constexpr int64_t words = kTileKeys / 2;
    const float* v = u_.values + (first_ + step * kTileKeys) / 2 * u_.ldv;
    const auto at = [&](int64_t n) {
      return AmxRows::together(step_words(step), kTile32Words, u_.o + n, u_.ldv);
    };
    int64_t n = 0;
    for (; n + 2 * kAmxTile <= u_.lanes_v; n += 2 * kAmxTile)
      amx_tiles<2, 2, true>(words, at(n), v + n, u_.ldv, true, between);
    if (n < u_.lanes_v) amx_tiles<2, 1, true>(words, at(n), v + n, u_.ldv, true, between);
  }

  // Calls beside(work), whose products call work(n), and does what they left of a 32 x 32 tile of a
  // step.
  template <int kTile, class Beside>
  [[gnu::always_inline]] void exponentials_beside(int64_t step, const Beside& beside) {
    const float* row = tile_scores(kTile);
    const float* const past = row + kTile32Rows * kTile32x32Keys;
    float* p = step_words(step) + kTile * (kTile32x32Keys / 2);
    float *sums = b_.step_sum, *top = b_.top;
    const float* base = b_.base;
    const auto next = [&]() NSA_INLINE {
      exponentials<kTile == 0>(row, *base++, p, sums, top);
      row += kTile32x32Keys;
      p += kTile32Words;
      sums += W;
      top += W;
    };
    const auto work = [&](int) NSA_INLINE {
      if (row == past) return;
      u_.prefetch->step();
      next();
      next();
    };
    beside(work);
    while (row != past) next();
  }

  // Exponentials of one row of a 32 x 32 tile.
  template <bool kFirst>
  [[gnu::always_inline]] void exponentials(const float* row, float base, float* p, float* sum,
                                           float* top) const {
    const V low = load(row), high = load(row + W), from = set1(base);
    // The second operand is what max() gives where one of both is NaN.
    store(top, max(low, max(high, load(top))));
    const V x = exp_beside(mul(low, by_), from), y = exp_beside(mul(high, by_), from);
    store(sum, kFirst ? add(x, y) : add(load(sum), add(x, y)));
    store_joined_bf16(p, x, y);
  }

  // Whether no row has met a score too far above its base.
  bool fits() const {
    V above = set1(-kInfinity);
    for (int64_t r = 0; r < kTile32Rows; ++r)
      above = max(sub(mul(load(b_.top + r * W), by_), set1(b_.base[r])), above);
    return hmax(above) <= kSlack;
  }

  void take_step_sum() {
    for (int64_t j = 0; j < kTile32Rows * W; j += W)
      store(b_.sum + j, add(load(b_.sum + j), load(b_.step_sum + j)));
  }

  // Sums and output of rows whose maximum grew are brought to it.
  void finish(SoftmaxState* state) {
    for (int64_t r0 = 0; r0 < kTile32Rows; r0 += W) {
      V each[W];
      float top[W], sum[W];
      for (int r = 0; r < W; ++r) each[r] = load(b_.top + (r0 + r) * W);
      const V here = max_rows(each);
      for (int r = 0; r < W; ++r) each[r] = load(b_.sum + (r0 + r) * W);
      store(sum, sum_rows(each));
      store(top, mul(here, by_));
      store(b_.factor, exp_beside(load(b_.base + r0), mul(here, by_)));
      for (int64_t r = 0; r < W; ++r) {
        SoftmaxState& s = state[r0 + r];
        s.sum += sum[r];
        if (!(top[r] > s.max) || !in_exp_range(top[r])) continue;
        s.max = top[r];
        s.sum *= b_.factor[r];
        scale_row(u_.o + (r0 + r) * u_.ldv, u_.lanes_v, b_.factor[r]);
      }
    }
  }

  Tile32Step u_;
  const AmxStepBuffers& b_;
  int64_t first_;
  V by_;
};

}  // namespace
}  // namespace nsa::cpu
