// The arithmetic of one step: the scores of some keys for all heads of a group, and the sum of
// their values. Heads are the lanes, so keys are read as they stand in the cache: a word of a key
// meets a vector that holds the same word of every head.
#pragma once

#include "cpu/attention/tile_matmul.h"
#include "cpu/decode/plan.h"
#ifdef NSA_HAS_BF16_DOT
#include <immintrin.h>
#endif

namespace nsa::cpu {
namespace {

// Accumulators of the scores: enough to cover the latency of the multiplication.
constexpr int kScoreKeys = kMR * kNR < 16 ? kMR * kNR : 16;

inline V broadcast_word(const char* p) {
  float x;
  __builtin_memcpy(&x, p, 4);
  return set1(x);
}

// How the elements of a cache become operands. kDirect: keys and fitting values need no copy.
template <class T>
struct DecodeFloat {
  using Step = FloatStep;
  static constexpr int64_t kPerWord = 1;
  static constexpr int64_t kSize = sizeof(T);
  static constexpr bool kDirect = kSize == 4;
  static V add(V acc, V q, V key) { return fma(q, key, acc); }
};
#ifdef NSA_HAS_BF16_DOT
struct DecodePairs {
  using Step = BFloat16Step;
  static constexpr int64_t kPerWord = 2;
  static constexpr int64_t kSize = 2;
  static constexpr bool kDirect = true;
  static V add(V acc, V q, V key) { return dot_bf16(acc, q, key); }
};
#endif

// Lines of memory that a later step reads. They are asked for one at a time, between the
// multiplications: in a burst they would fill the few places that a processor has for lines on
// their way, and what is needed now would wait behind them.
struct Lines {
  const char* const* next;
  const char* const* end;

  [[gnu::always_inline]] void ask() { __builtin_prefetch(*next++, 0, 3); }
  void ask_rest() {
    while (next < end) ask();
  }
};

// Lines asked for with every word: those of a key and its value of the same size are then asked for
// when the scores of as many keys are done.
constexpr int kLinesPerWord = 2;

// s[j][0..W) = sum over words of key j's word times the heads' words, for KEYS keys. LINES: how
// many are asked for with every word.
template <class Path, int KEYS, int LINES>
[[gnu::always_inline]] inline void score_keys(int64_t words, const char* key, int64_t stride,
                                              const float* query, int64_t lanes, float* s,
                                              Lines& lines) {
  V acc[KEYS];
#pragma GCC unroll 16
  for (int j = 0; j < KEYS; ++j) acc[j] = zero();
  // Four rows from each of these: their addresses then need few registers.
  const char* rows[(KEYS + 3) / 4];
#pragma GCC unroll 4
  for (int j = 0; j < (KEYS + 3) / 4; ++j) rows[j] = key + 4 * j * stride;
  const int64_t stride3 = 3 * stride;
  const auto row = [&](int j, int64_t w) {
    return rows[j / 4] + 4 * w + (j % 4 == 3 ? stride3 : j % 4 * stride);
  };
  int64_t w = 0;
#ifdef NSA_HAS_SPREAD
  // Of the instructions, loads are the scarce ones: four words come with one.
  for (; w + 4 <= words; w += 4) {
    V q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) q[i] = load(query + (w + i) * lanes);
#pragma GCC unroll 16
    for (int j = 0; j < KEYS; ++j) {
#pragma GCC unroll 8
      for (int i = j * 4 * LINES / KEYS; i < (j + 1) * 4 * LINES / KEYS; ++i) lines.ask();
      const V four = load_repeated(row(j, w));
      acc[j] = Path::add(acc[j], q[0], spread<0>(four));
      acc[j] = Path::add(acc[j], q[1], spread<1>(four));
      acc[j] = Path::add(acc[j], q[2], spread<2>(four));
      acc[j] = Path::add(acc[j], q[3], spread<3>(four));
    }
  }
#endif
  for (; w < words; ++w) {
    const V q = load(query + w * lanes);
#pragma GCC unroll 2
    for (int j = 0; j < LINES; ++j) lines.ask();
#pragma GCC unroll 16
    for (int j = 0; j < KEYS; ++j) acc[j] = Path::add(acc[j], q, broadcast_word(row(j, w)));
  }
#pragma GCC unroll 16
  for (int j = 0; j < KEYS; ++j) store(s + j * lanes, acc[j]);
}

struct Rows {
  const char* data;
  int64_t stride;  // bytes
};

// s[n][lanes]
template <class Path>
inline void score_step(int64_t n, int64_t words, Rows keys, const float* query, int64_t lanes,
                       int64_t heads, float* s, Lines lines) {
  for (int64_t j = 0; j < n; j += kScoreKeys) {
    const char* key = keys.data + j * keys.stride;
    for (int64_t g = 0; g < heads; g += W) {
      float* at = s + j * lanes + g;
      if (n - j >= kScoreKeys) {
        if (lines.end - lines.next >= kLinesPerWord * words) {
          score_keys<Path, kScoreKeys, kLinesPerWord>(words, key, keys.stride, query + g, lanes, at,
                                                      lines);
        } else {
          score_keys<Path, kScoreKeys, 0>(words, key, keys.stride, query + g, lanes, at, lines);
        }
        continue;
      }
      int64_t k = 0;
      for (; j + k + 4 <= n; k += 4)
        score_keys<Path, 4, 0>(words, key + k * keys.stride, keys.stride, query + g, lanes,
                               at + k * lanes, lines);
      for (; j + k < n; ++k)
        score_keys<Path, 1, 0>(words, key + k * keys.stride, keys.stride, query + g, lanes,
                               at + k * lanes, lines);
    }
  }
  lines.ask_rest();
}

#ifdef NSA_HAS_BF16_DOT
// dst[pair][row]: words of the values of two neighbouring keys; a last key alone is paired with
// zeros.
inline void interleave_values(Rows values, int64_t n, int64_t Dv, int64_t row, float* dst) {
  for (int64_t j = 0; j < n; j += 2) {
    const char* even = values.data + j * values.stride;
    const char* odd = even + values.stride;
    float* out = dst + j / 2 * row;
    int64_t d = 0;
    if (j + 1 < n) {
      for (; d + 16 <= Dv; d += 16) {
        const __m512i a = _mm512_cvtepu16_epi32(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(even + 2 * d)));
        const __m512i b = _mm512_cvtepu16_epi32(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(odd + 2 * d)));
        _mm512_storeu_si512(out + d, _mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
      }
    }
    for (; d < row; ++d) {
      uint16_t two[2] = {0, 0};
      if (d < Dv) __builtin_memcpy(&two[0], even + 2 * d, 2);
      if (d < Dv && j + 1 < n) __builtin_memcpy(&two[1], odd + 2 * d, 2);
      __builtin_memcpy(out + d, two, 4);
    }
  }
}

// dst[pair][lanes]: words of the probabilities of two neighbouring keys, rounded.
inline void pair_probabilities(const float* p, int64_t n, int64_t lanes, int64_t heads,
                               float* dst) {
  for (int64_t j = 0; j < n; j += 2) {
    for (int64_t g = 0; g < heads; g += 16) {
      const auto rounded = [](V x) {
        return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
      };
      const __m512i a = rounded(load(p + j * lanes + g));
      const __m512i b = rounded(j + 1 < n ? load(p + (j + 1) * lanes + g) : zero());
      _mm512_storeu_si512(dst + j / 2 * lanes + g, _mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
    }
  }
}
#endif

}  // namespace
}  // namespace nsa::cpu
