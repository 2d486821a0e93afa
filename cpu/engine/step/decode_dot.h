// A step of decoding with the bf16 dot: words are two elements of a key, and the values of two
// neighbouring keys.
#pragma once

#include "cpu/engine/step/decode.h"

namespace nsa::cpu {
namespace {

struct DecodeWords : VectorSteps {
  static constexpr int64_t kPerWord = 2;
  static constexpr bool kDirect = true;
  static constexpr int kLast = 2;
  static V add(V acc, V a, V b) { return dot_bf16(acc, a, b); }
  static void restore_columns(float* x, int64_t n) {
    for (int64_t d = 0; d < n; d += 2 * W) nsa::cpu::restore_columns(x + d);
  }
  static void copy(ElemType, const void* data, int64_t from, int64_t n, int64_t words, char* to) {
    fill(reinterpret_cast<float*>(to) + n / 2, words - n / 2, 0.0f);
    __builtin_memcpy(to, static_cast<const char*>(data) + 2 * from, static_cast<size_t>(2 * n));
  }
  // Two vectors have the columns of 2 W in the order of interleave_bf16.
  template <int NR>
  static void values(const char* even, const char* odd, int64_t d, int64_t Dv, V* b) {
    constexpr bool kWhole = NR > kLast;
#pragma GCC unroll 2
    for (int i = 0; i < NR / 2; ++i) {
      const int64_t at = d + i * 2 * W, left = kWhole ? 2 * W : Dv - at;
      interleave_bf16(load_words<kWhole>(even + 2 * at, left),
                      load_words<kWhole>(odd + 2 * at, left), b[2 * i], b[2 * i + 1]);
    }
  }
  // dst[two keys][lanes]: words of the probabilities of two neighbouring keys, rounded; a last key
  // alone stands beside 0.
  static void word_probabilities(const float* p, int64_t n, int64_t lanes, int64_t heads,
                                 float* dst) {
    for (int64_t j = 0; j < n; j += 2) {
      for (int64_t g = 0; g < heads; g += W) {
        const V odd = j + 1 < n ? load(p + (j + 1) * lanes + g) : zero();
        store(dst + j / 2 * lanes + g, word_bf16(load(p + j * lanes + g), odd));
      }
    }
  }
};

}  // namespace
}  // namespace nsa::cpu
