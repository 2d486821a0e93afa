// Operands of NsaProjection as words of bfloat16 or as floats, from whatever dtype they have in
// memory.
#pragma once

#include "cpu/attention/pack.h"
#include "cpu/nsa_projection_plan.h"

namespace nsa::cpu {
namespace {

// How operands become words: kRound to the values of bfloat16, which are floats where a word is
// one.
template <class Path, bool kRounds>
struct OperandPath : Path {
  static constexpr bool kRound = kRounds;
};
using RoundedOperands = OperandPath<PathOfBFloat16, true>;
using FloatOperands = OperandPath<FloatPath, false>;

// n elements of src from `offset` on, rounded.
inline void to_bf16(ElemType t, const void* src, int64_t offset, int64_t n, void* dst) {
  constexpr int64_t kPart = 256;
  if (t == ElemType::kBFloat16) {
    __builtin_memcpy(dst, static_cast<const char*>(src) + 2 * offset, static_cast<size_t>(2 * n));
    return;
  }
  alignas(64) float part[kPart];
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t count = min64(kPart, n - i);
    to_float(t, src, offset + i, count, part);
    from_float(ElemType::kBFloat16, part, count, dst, i);
  }
}

// The same as floats, or not rounded.
template <bool kRound>
inline void to_values(ElemType t, const void* src, int64_t offset, int64_t n, float* dst) {
  constexpr int64_t kPart = 256;
  if (!kRound) return to_float(t, src, offset, n, dst);
  alignas(64) uint16_t part[kPart];
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t count = min64(kPart, n - i);
    to_bf16(t, src, offset + i, count, part);
    to_float(ElemType::kBFloat16, part, 0, count, dst + i);
  }
}

// Neighbouring elements as words(n) words.
template <class Path>
inline void pack_words(ElemType t, const void* src, int64_t offset, int64_t n, float* dst) {
  constexpr int64_t per_word = Path::kForm.per_word;
  fill(dst + n / per_word, words<Path>(n) - n / per_word, 0.0f);
  if (per_word == 1) {
    to_values<Path::kRound>(t, src, offset, n, dst);
  } else {
    to_bf16(t, src, offset, n, dst);
  }
}

// Word w of columns [c0, c0 + n), n <= kProductRows, of a matrix of `rows` rows from first_row on:
// the elements of as many rows as a word holds. dst: ld words, those past n are zero.
template <class Path>
inline void pack_word_of_rows(const ConstMatrix& m, int64_t first_row, int64_t rows, int64_t w,
                              int64_t c0, int64_t n, int64_t ld, float* dst) {
  constexpr int64_t per_word = Path::kForm.per_word;
  const int64_t row = w * per_word, at = (first_row + row) * m.columns + c0;
  if (row >= rows) return fill(dst, ld, 0.0f);
  if (per_word == 1) {
    to_values<Path::kRound>(m.type, m.data, at, n, dst);
    return fill(dst + n, ld - n, 0.0f);
  }
  alignas(64) uint16_t even[kProductRows], odd[kProductRows];
  to_bf16(m.type, m.data, at, n, even);
  const bool both = row + 1 < rows;
  if (both) to_bf16(m.type, m.data, at + m.columns, n, odd);
  pair_elements(even, both ? odd : nullptr, n, ld, dst);
}

// dst[words(columns)][kPanel]: rows [n0, n0 + kPanel) of a weight as columns, zero past the last.
template <class Path>
inline void pack_panel_of_rows(const ConstMatrix& m, int64_t rows, int64_t n0, float* dst) {
  constexpr int64_t kWords = 64, per_word = Path::kForm.per_word;
  alignas(64) float lines[kPanel][kWords + 16];
  const int64_t depth = words<Path>(m.columns);
  for (int64_t w0 = 0; w0 < depth; w0 += kWords) {
    const int64_t count = min64(kWords, depth - w0), k0 = w0 * per_word;
    for (int64_t j = 0; j < kPanel; ++j) {
      if (n0 + j >= rows) {
        fill(lines[j], count, 0.0f);
      } else {
        pack_words<Path>(m.type, m.data, (n0 + j) * m.columns + k0,
                         min64(kWords * per_word, m.columns - k0), lines[j]);
      }
    }
    for (int64_t w = 0; w < count; ++w)
      for (int64_t j = 0; j < kPanel; ++j) dst[(w0 + w) * kPanel + j] = lines[j][w];
  }
}

}  // namespace
}  // namespace nsa::cpu
