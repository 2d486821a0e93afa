// The kernel variant of the bf16 dot: an instruction takes two k at once. Operands are words of two
// bf16, so K and the strides of A count words.
#pragma once

#include "cpu/engine/step/kernel_variant.h"

namespace nsa::cpu {
namespace {

struct BFloat16Step {
  static V broadcast(const float* a) { return set1(*a); }  // copies the 32 bits of a word
  static V step(V acc, V a, V b) { return dot_bf16(acc, a, b); }
};

// Two rows of n bf16, even and odd: words of both as word_elements() makes them at dst, and the
// rows as words of their own. odd: nullptr for a row of zeros, which is not copied. Gives the
// largest magnitudes, `top` among them.
inline V words_and_copy(const char* even, const char* odd, int64_t n, int64_t ld, float* dst,
                        float* even_copy, float* odd_copy, V top) {
  int64_t j = 0;
  for (; j < n; j += 2 * W) {
    const bool whole = j + 2 * W <= n;
    const V x =
        whole ? load_words<true>(even + 2 * j, 2 * W) : load_words<false>(even + 2 * j, n - j);
    V y = zero(), first, second;
    store(even_copy + j / 2, x);
    if (odd) {
      y = whole ? load_words<true>(odd + 2 * j, 2 * W) : load_words<false>(odd + 2 * j, n - j);
      store(odd_copy + j / 2, y);
    }
    top = largest_bf16(largest_bf16(top, x), y);
    word_columns(x, y, first, second);
    store(dst + j, first);
    if (j + W < ld) store(dst + j + W, second);
  }
  if (j < ld) fill(dst + j, ld - j, 0.0f);
  return top;
}

struct DotVariant {
  using Step = BFloat16Step;
  static constexpr WordForm kForm = {2, 1};
  using Scores = DotVariant;
  static constexpr uint32_t kLargeExponent = FloatVariant::kLargeExponent;

  static float dot_in_order(const float* a, const float* b, int64_t n) {
    return dot_words_in_order(a, b, n);
  }
  static void dots_in_order(const float* a, const float* b, int64_t row, int64_t n, float* sums) {
    dots_words_in_order<kDots>(a, b, row, n, sums);
  }
  static void put(float* p, int64_t j, V x) { store_words(p + j / 2, x); }
  static void put(float* p, int64_t j, V x, V y) { store_joined_bf16(p + j / 2, x, y); }
  // Words of two rows.
  static V word(V even, V odd) { return word_bf16(even, odd); }
  // Rows as words, ld apart at copy, and as words along a contraction over rows: rows 2 n and
  // 2 n + 1 in row n of dst. Row r begins at element at[r] of src. Whether they are all finite.
  static bool load_row_words(const void* src, int64_t rows, int64_t n, int64_t ld,
                             const int64_t* at, float* copy, float* dst) {
    const char* base = static_cast<const char*>(src);
    V top = zero();
    for (int64_t r = 0; r < rows; r += 2) {
      const char* odd = r + 1 < rows ? base + 2 * at[r + 1] : nullptr;
      top = words_and_copy(base + 2 * at[r], odd, n, ld, dst + r / 2 * ld, copy + r * ld,
                           copy + (r + 1) * ld, top);
    }
    return finite_bf16(top);
  }
  static int64_t transpose_rows(const TensorRows&, int64_t, int64_t, float*) { return 0; }
  static void begin() {}
  static void end() {}
};

}  // namespace
}  // namespace nsa::cpu
