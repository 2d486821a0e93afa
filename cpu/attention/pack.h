// Copies into the forms the tile matmul reads: rows converted to float (or kept as pairs of bf16),
// keys transposed block by block, everything padded with zeros.
#pragma once

#include "cpu/attention/tile_matmul.h"

namespace nsa::cpu {
namespace {

// The two number formats a forward matmul can run in. A "word" is what one K step consumes: one
// float, or two neighbouring bf16.
struct FloatPath {
  using Step = FloatStep;
  static constexpr WordForm kForm = {1, 1};
  static void begin() {}
  static void end() {}
};
#if defined(NSA_ISA_AMX)
struct BFloat16Path {
  using Step = AmxStep;
  static constexpr WordForm kForm = {2, kAmxTile};
  static void begin() { amx_begin(); }
  static void end() { amx_end(); }
};
#elif defined(NSA_HAS_BF16_DOT)
struct BFloat16Path {
  using Step = BFloat16Step;
  static constexpr WordForm kForm = {2, 1};
  static void begin() {}
  static void end() {}
};
#endif

// What the bf16 type runs on in a forward call of this unit.
#ifdef NSA_HAS_BF16_DOT
using PathOfBFloat16 = BFloat16Path;
#else
using PathOfBFloat16 = FloatPath;
#endif

template <class Path>
constexpr int64_t words(int64_t n) {
  return Path::kForm.words(n);
}

// Keys that go together: whole padding lanes, and whole words along a contraction.
template <class Path>
constexpr int64_t key_step() {
  return Path::kForm.key_step();
}

// One row of n elements as words, padded with zeros.
template <class Path>
inline void pack_row(ElemType t, const void* src, int64_t offset, int64_t n, float* dst) {
  if (Path::kForm.per_word == 1) {
    to_float(t, src, offset, n, dst);
  } else {
    fill(dst + n / 2, words<Path>(n) - n / 2, 0.0f);
    __builtin_memcpy(dst, static_cast<const char*>(src) + 2 * offset, static_cast<size_t>(n) * 2);
  }
}

// dst[words(D)][lanes] = transpose of n rows; lanes n.. are zero. row_words holds words(D) floats.
template <class Path>
inline void pack_transposed(ElemType t, const void* src, int64_t offset, int64_t row_stride,
                            int64_t n, int64_t D, int64_t lanes, float* dst, float* row_words) {
  int64_t depth = words<Path>(D);
  for (int64_t j = 0; j < n; ++j) {
    pack_row<Path>(t, src, offset + j * row_stride, D, row_words);
    for (int64_t d = 0; d < depth; ++d) dst[d * lanes + j] = row_words[d];
  }
  for (int64_t d = 0; d < depth; ++d)
    for (int64_t j = n; j < lanes; ++j) dst[d * lanes + j] = 0.0f;
}

// dst[words(rows_padded)][ld]: n rows of Dv elements along the contraction, ld a padded Dv. The
// bf16 form interleaves rows 2 j and 2 j + 1. Rows n.. and columns Dv.. are zero.
template <class Path>
inline void pack_rows(ElemType t, const void* src, int64_t offset, int64_t row_stride, int64_t n,
                      int64_t Dv, int64_t rows_padded, int64_t ld, float* dst) {
  if (Path::kForm.per_word == 1) {
    for (int64_t j = 0; j < n; ++j) {
      to_float(t, src, offset + j * row_stride, Dv, dst + j * ld);
      fill(dst + j * ld + Dv, ld - Dv, 0.0f);
    }
    fill(dst + n * ld, (rows_padded - n) * ld, 0.0f);
    return;
  }
  const char* base = static_cast<const char*>(src);
  for (int64_t j = 0; j < rows_padded; j += 2) {
    char* pair = reinterpret_cast<char*>(dst + j / 2 * ld);
    const char* even = base + 2 * (offset + j * row_stride);
    const char* odd = base + 2 * (offset + (j + 1) * row_stride);
    for (int64_t d = 0; d < ld; ++d) {
      uint16_t two[2] = {0, 0};
      if (d < Dv && j < n) __builtin_memcpy(&two[0], even + 2 * d, 2);
      if (d < Dv && j + 1 < n) __builtin_memcpy(&two[1], odd + 2 * d, 2);
      __builtin_memcpy(pair + 4 * d, two, 4);
    }
  }
}

// Whether a packed block of `count` words holds numbers only.
template <class Path>
inline bool packed_finite(const float* packed, int64_t count) {
  if (Path::kForm.per_word == 1) return all_finite(packed, count);
  // The largest exponent is that of NaN and infinity.
  bool finite = true;
  for (int64_t i = 0; i < 2 * count; ++i) {
    uint16_t h;
    __builtin_memcpy(&h, reinterpret_cast<const char*>(packed) + 2 * i, 2);
    finite &= (h & 0x7f80) != 0x7f80;
  }
  return finite;
}

// A product with P or dS on the left; without numbers_only the right side holds NaN or infinity
// somewhere, and some pair may be masked.
template <class Path>
inline void multiply_values(bool numbers_only, int64_t M, int64_t N, int64_t K, Operand p,
                            const float* v, int64_t ldv, float* o, int64_t ldo, Into into,
                            const float* row_scale = nullptr) {
  if (numbers_only) return matmul<typename Path::Step>(M, N, K, p, v, ldv, o, ldo, into, row_scale);
  matmul_visible(Path::kForm.per_word, M, N, K, p, v, ldv, o, ldo, into, row_scale);
}

// Probabilities in place as words: the bf16 form rounds them and uses the front half of the row.
template <class Path>
inline void pack_probabilities(float* p, int64_t n) {
  if (Path::kForm.per_word == 2) from_float(ElemType::kBFloat16, p, n, p, 0);
}

}  // namespace
}  // namespace nsa::cpu
