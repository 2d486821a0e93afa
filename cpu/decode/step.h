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
  static V add_word(V acc, V q, const char* word) { return fma(q, broadcast_word(word), acc); }
};
#ifdef NSA_HAS_BF16_DOT
struct DecodePairs {
  using Step = BFloat16Step;
  static constexpr int64_t kPerWord = 2;
  static constexpr int64_t kSize = 2;
  static constexpr bool kDirect = true;
  static V add_word(V acc, V q, const char* word) {
    // The compiler loads a word into a register of its own first, which takes an eighth more time.
    struct [[gnu::packed, gnu::may_alias]] Word {
      uint32_t bits;
    };
    asm("vdpbf16ps %2%{1to16%}, %1, %0"
        : "+v"(acc)
        : "v"(q), "m"(*reinterpret_cast<const Word*>(word)));
    return acc;
  }
};
#endif

// s[j][0..W) = sum over words of key j's word times the heads' words, for KEYS keys.
template <class Path, int KEYS>
[[gnu::always_inline]] inline void score_keys(int64_t words, const char* key, int64_t stride,
                                              const float* query, int64_t lanes, float* s) {
  V acc[KEYS];
#pragma GCC unroll 16
  for (int j = 0; j < KEYS; ++j) acc[j] = zero();
  // Four rows from each of these: their addresses then need few registers.
  const char* rows[(KEYS + 3) / 4];
#pragma GCC unroll 4
  for (int j = 0; j < (KEYS + 3) / 4; ++j) rows[j] = key + 4 * j * stride;
  const int64_t stride3 = 3 * stride;
  for (int64_t w = 0; w < words; ++w) {
    const V q = load(query + w * lanes);
    const int64_t at = 4 * w;
#pragma GCC unroll 16
    for (int j = 0; j < KEYS; ++j) {
      const char* p = rows[j / 4] + at + (j % 4 == 3 ? stride3 : j % 4 * stride);
      acc[j] = Path::add_word(acc[j], q, p);
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < KEYS; ++j) store(s + j * lanes, acc[j]);
}

// All lines of n rows, which the processor would not see coming where rows are apart.
inline void prefetch_rows(const char* p, int64_t bytes, int64_t stride, int64_t n) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(p + j * stride + at, 0, 3);
}

struct Rows {
  const char* data;
  int64_t stride;  // bytes
};

// s[n][lanes]; `next` are rows that the following step reads.
template <class Path>
inline void score_step(int64_t n, int64_t words, Rows keys, const float* query, int64_t lanes,
                       int64_t heads, float* s, Rows next, int64_t next_rows, int64_t bytes) {
  for (int64_t j = 0; j < n; j += kScoreKeys) {
    const char* key = keys.data + j * keys.stride;
    if (j < next_rows) {
      prefetch_rows(next.data + j * next.stride, bytes, next.stride,
                    min64(kScoreKeys, next_rows - j));
    }
    for (int64_t g = 0; g < heads; g += W) {
      float* at = s + j * lanes + g;
      if (n - j >= kScoreKeys) {
        score_keys<Path, kScoreKeys>(words, key, keys.stride, query + g, lanes, at);
        continue;
      }
      int64_t k = 0;
      for (; j + k + 4 <= n; k += 4)
        score_keys<Path, 4>(words, key + k * keys.stride, keys.stride, query + g, lanes,
                            at + k * lanes);
      for (; j + k < n; ++k)
        score_keys<Path, 1>(words, key + k * keys.stride, keys.stride, query + g, lanes,
                            at + k * lanes);
    }
  }
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
