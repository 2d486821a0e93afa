// Products of float32 on AMX tiles: a number is the sum of three bf16, its terms. Included by the
// translation unit for AMX only.
#pragma once

#include <type_traits>

#include "cpu/engine/step/amx.h"

namespace nsa::cpu {
namespace {

// B in tiles of 16 lanes [K, 16], `next` words from one to the next.
struct LaneTiles {
  const float* data;
  int64_t next;

  LaneTiles from(int64_t lane) const { return {data + lane / kAmxTile * next, next}; }
};

// float32 as sums of bf16.
struct Bf16x3Variant {
  static constexpr WordForm kForm = {2, kAmxTile, kBf16x3Terms};

  static V split_row(ElemType t, const void* src, int64_t offset, int64_t n, float* dst, V top);
  static V split_two(ElemType t, const void* src, int64_t even, int64_t odd, int64_t n,
                     const WordsAt& to, V top);
  static void multiply(Sizes of, Operand a, LaneTiles b, Output c, bool add_to);
  // Rows that multiply() reads past the last one.
  static constexpr int64_t kRowsPast = 2 * kAmxTile;
  // Whether operands of these magnitudes stand for their numbers.
  static bool small(V top);
  static void scores(int64_t rows, int64_t n, int64_t D, const float* q, int64_t ldq,
                     const float* keys, float* s, int64_t lds);
  static bool pack_keys(const AttentionPlan& plan, KeyRows from, float* keys, float* values,
                        float* rows);
  // The keys alone, as columns.
  static bool pack_key_columns(const AttentionPlan& plan, KeyRows from, float* keys, float* tmp);
  static void transpose(const float* src, int64_t lds, float* dst, int64_t ldd) {
    AmxVariant::transpose(src, lds, dst, ldd);
  }
  static void begin() { AmxVariant::begin(); }
  static void end() { AmxVariant::end(); }
};

constexpr int64_t kRowsPast = Bf16x3Variant::kRowsPast;

// Operands of 1e9 and above, packed kBf16x3Scale times as large, do not go as bf16x3.
constexpr float kLargestPacked = 1e9f * kBf16x3Scale;

// W elements of which n are in memory, the others being 0, as packed: times kBf16x3Scale.
inline V load_scaled(ElemType t, const void* src, int64_t offset, int64_t n) {
  const V scale = set1(kBf16x3Scale);
  if (t == ElemType::kFloat32 && n >= W)
    return mul(load(static_cast<const float*>(src) + offset), scale);
  alignas(64) float some[W] = {};
  if (n > 0) to_float(t, src, offset, min64(n, W), some);
  return mul(load(some), scale);
}

// Floats, but for scores, which a gradient takes as bf16x3 where its forward does.
struct Bf16x3ScoresVariant : FloatVariant {
  using Scores = Bf16x3Variant;
};

// Neighbouring elements as words of bf16x3. Gives the larger magnitudes of `top` and what is
// packed.
inline V pack_bf16x3(ElemType t, const void* src, int64_t offset, int64_t n, float* dst, V top) {
  for (int64_t i = 0; i < n; i += 2 * W, dst += kBf16x3Step) {
    const V low = load_scaled(t, src, offset + i, n - i);
    const V high = load_scaled(t, src, offset + i + W, n - i - W);
    top = largest_magnitude(largest_magnitude(top, low), high);
    split_bf16x3(low, high, join_upper,
                 [&](int64_t term, V x) { store(dst + term * kAmxTile, x); });
  }
  return top;
}

// Words of n elements of two rows, which begin at elements even and odd of src; odd < 0: there is
// none. Gives the larger magnitudes as pack_bf16x3() does.
inline V word_bf16x3(ElemType t, const void* src, int64_t even, int64_t odd, int64_t n,
                     const WordsAt& to, V top) {
  for (int64_t j = 0; j < to.count; j += W) {
    const V x = load_scaled(t, src, even + j, n - j);
    const V y = load_scaled(t, src, odd + j, odd < 0 ? 0 : n - j);
    top = largest_magnitude(largest_magnitude(top, x), y);
    split_bf16x3(x, y, word_upper, [&](int64_t term, V words) {
      store(to.data + term * kAmxTile * to.row + j / W * to.tile, words);
    });
  }
  return top;
}

// Rows of a tensor of which a KV block of kKvBlockKeys is packed: those past n are zeros. Both
// forms give the larger magnitudes as pack_bf16x3() does.
struct Bf16x3Source : TensorRows {
  // Rows as lanes: four tiles [words(width), 16]. tmp: [16, words(width) + 16].
  V columns(int64_t width, float* dst, float* tmp, V top) const {
    const int64_t depth = Bf16x3Variant::kForm.words(width), ld = depth + kAmxTile;
    for (int64_t j = 0; j < kKvBlockKeys; ++j) {
      float* to = tmp + j % W * ld;
      if (j < n) {
        prefetch_row(t, src, at(j + kPrefetchDistance), width);
        top = pack_bf16x3(t, src, at(j), width, to, top);
      } else {
        fill(to, depth, 0.0f);
      }
      if (j % W < W - 1) continue;
      float* tile = dst + j / W * depth * W;
      for (int64_t w = 0; w < depth; w += W) transpose_16x16(tmp + w, ld, tile + w * W, W);
    }
    return top;
  }

  // Words of two rows: for every 16 columns a tile [words(kKvBlockKeys), 16].
  V rows(int64_t width, float* dst, V top) const {
    constexpr WordForm form = Bf16x3Variant::kForm;
    for (int64_t w = 0; w < kKvBlockKeys / 2; ++w) {
      const WordsAt to{dst + form.word(w) * kAmxTile, round_up(width, kAmxTile), kAmxTile,
                       form.words(kKvBlockKeys) * kAmxTile};
      top = word_bf16x3(t, src, at(2 * w), 2 * w + 1 < n ? at(2 * w + 1) : -1,
                        2 * w < n ? width : 0, to, top);
    }
    return top;
  }
};

// The product of so many tiles.
template <int Rows, int Lanes, bool kAsWide>
inline void bf16x3_tiles(Sizes of, Operand a, LaneTiles b, Output c, bool add_to) {
  constexpr int64_t ld = 2 * kAmxTile;
  alignas(64) float sums[ld * ld];
  amx_bf16x3<Rows, Lanes, kAsWide>(of.K, a.data, a.row_stride, b.data, b.next);
  tile_store<0>(sums, ld);
  if constexpr (Lanes > 1) tile_store<1>(sums + kAmxTile, ld);
  if constexpr (Rows > 1) tile_store<2>(sums + kAmxTile * ld, ld);
  if constexpr (Rows > 1 && Lanes > 1) tile_store<3>(sums + kAmxTile * ld + kAmxTile, ld);
  const V scale = set1(1.0f / (kBf16x3Scale * kBf16x3Scale));
  for (int64_t r = 0; r < of.M; ++r) {
    for (int64_t j = 0; j < of.N; j += W) {
      float* at = c.row(r) + j;
      const V x = load(sums + r * ld + j);
      store(at, add_to ? fma(x, scale, load(at)) : mul(x, scale));
    }
  }
}

// C[M, N] = or += A B for K words of bf16x3. A has neighbouring words; up to 31 rows after its last
// one are read. A sum of many calls is a sum of partial sums. One of 2^80 or more is NaN or
// infinite here.
template <bool kAsWide = false>
inline void multiply_bf16x3(Sizes of, Operand a, LaneTiles b, Output c, bool add_to) {
  const int64_t M = of.M, N = of.N, K = of.K;
  NSA_EXPECT(N % kAmxTile == 0 && K % kBf16x3Step == 0 && a.k_stride == 1);
  constexpr int64_t step = 2 * kAmxTile;
  for (int64_t n = 0; n < N; n += step) {
    const int64_t lanes = min64(step, N - n);
    for (int64_t m = 0; m < M; m += step) {
      const int64_t rows = min64(step, M - m);
      const auto multiply = [&](auto tiles, auto columns) {
        bf16x3_tiles<decltype(tiles)::value, decltype(columns)::value, kAsWide>(
            {rows, lanes, K}, a.from(m), b.from(n), c.from(m, n), add_to);
      };
      constexpr std::integral_constant<int, 1> one{};
      constexpr std::integral_constant<int, 2> two{};
      if (lanes > kAmxTile) {
        if (rows > kAmxTile)
          multiply(two, two);
        else
          multiply(one, two);
      } else {
        if (rows > kAmxTile)
          multiply(two, one);
        else
          multiply(one, one);
      }
    }
  }
}

// Raw products of rows of queries as bf16x3 with packed keys, n lanes of them from `keys` on. Every
// variant of a forward and the gradient add them in one order: then exp(S - max) / sum is the same
// P in both, however large the scores.
inline void bf16x3_scores(int64_t rows, int64_t n, int64_t D, const float* q, int64_t ldq,
                          const float* keys, float* s, int64_t lds) {
  const int64_t depth = Bf16x3Variant::kForm.words(D);
  multiply_bf16x3<true>({rows, n, depth}, {q, ldq, 1}, {keys, depth * kAmxTile}, {s, lds}, false);
}

inline V Bf16x3Variant::split_row(ElemType t, const void* src, int64_t offset, int64_t n,
                                  float* dst, V top) {
  return pack_bf16x3(t, src, offset, n, dst, top);
}
inline V Bf16x3Variant::split_two(ElemType t, const void* src, int64_t even, int64_t odd, int64_t n,
                                  const WordsAt& to, V top) {
  return word_bf16x3(t, src, even, odd, n, to, top);
}
inline void Bf16x3Variant::multiply(Sizes of, Operand a, LaneTiles b, Output c, bool add_to) {
  multiply_bf16x3(of, a, b, c, add_to);
}
inline bool Bf16x3Variant::pack_key_columns(const AttentionPlan& plan, KeyRows from, float* keys,
                                            float* tmp) {
  const Bf16x3Source source{keys_of(plan, from)};
  return all_below(source.columns(plan.D, keys, tmp, zero()), kLargestPacked);
}
inline bool Bf16x3Variant::small(V top) { return all_below(top, kLargestPacked); }
inline void Bf16x3Variant::scores(int64_t rows, int64_t n, int64_t D, const float* q, int64_t ldq,
                                  const float* keys, float* s, int64_t lds) {
  bf16x3_scores(rows, n, D, q, ldq, keys, s, lds);
}

// Keys and values of a KV block, in the form of Bf16x3Gathered. rows: [16, words(D)], a row and 16
// words apart. Gives whether its numbers are small enough.
[[gnu::noinline]] inline bool Bf16x3Variant::pack_keys(const AttentionPlan& plan, KeyRows from,
                                                       float* keys, float* values, float* rows) {
  const Bf16x3Source key{keys_of(plan, from)}, value{values_of(plan, from)};
  const V top = value.rows(plan.Dv, values, key.columns(plan.D, keys, rows, zero()));
  return all_below(top, kLargestPacked);
}

}  // namespace
}  // namespace nsa::cpu
