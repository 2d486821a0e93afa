// Operands of NsaProjection as words of bfloat16 or as floats, from whatever dtype they have in
// memory.
#pragma once

#include "cpu/engine/step/kernel_variant.h"
#include "cpu/linear/nsa_projection_plan.h"

namespace nsa::cpu {
namespace {

// How operands become words: kRound to the values of bfloat16, which are floats where a word is
// one.
template <class Variant, bool kRounds>
struct OperandVariant : Variant {
  static constexpr bool kRound = kRounds;
};
using RoundedOperands = OperandVariant<VariantOfBFloat16, true>;
using FloatOperands = OperandVariant<FloatVariant, false>;
// Variant of float32 operands in this translation unit.
using ExactOperands = OperandVariant<SplitFloatVariant, false>;

// n elements of src from `offset` on, rounded.
inline void to_bf16(ElemType t, const void* src, int64_t offset, int64_t n, void* dst) {
  constexpr int64_t kAtOnce = 256;
  if (t == ElemType::kBFloat16) {
    __builtin_memcpy(dst, static_cast<const char*>(src) + 2 * offset, static_cast<size_t>(2 * n));
    return;
  }
  alignas(64) float some[kAtOnce];
  for (int64_t i = 0; i < n; i += kAtOnce) {
    const int64_t count = min64(kAtOnce, n - i);
    to_float(t, src, offset + i, count, some);
    from_float(ElemType::kBFloat16, some, count, dst, i);
  }
}

// Rounded elements as floats, or not rounded.
template <bool kRound>
inline void to_values(ElemType t, const void* src, int64_t offset, int64_t n, float* dst) {
  constexpr int64_t kAtOnce = 256;
  if (!kRound || t == ElemType::kBFloat16) return to_float(t, src, offset, n, dst);
  int64_t i = 0;
  if (kRoundsBFloat16 && t == ElemType::kFloat32) {
    const float* from = static_cast<const float*>(src) + offset;
    for (; i + W <= n; i += W) store(dst + i, round_bf16(load(from + i)));
  }
  alignas(64) uint16_t some[kAtOnce];
  for (; i < n; i += kAtOnce) {
    const int64_t count = min64(kAtOnce, n - i);
    to_bf16(t, src, offset + i, count, some);
    to_float(ElemType::kBFloat16, some, 0, count, dst + i);
  }
}

// Word w of a panel [depth, kPanel], which is in tiles of 16 columns where words are of bf16x3 or a
// product reads so many at a time.
template <class Variant>
inline WordsAt panel_word(float* panel, int64_t depth, int64_t w) {
  if (Variant::kForm.terms > 1)
    return {panel + Variant::kForm.word(w) * 16, kPanel, 16, depth * 16};
  constexpr int64_t row = panel_lanes<Variant>(kPanel);
  return {panel + w * row, kPanel, row, row < kPanel ? depth * row : 16};
}

// Neighbouring elements as words(n) words.
template <class Variant>
inline void pack_words(ElemType t, const void* src, int64_t offset, int64_t n, float* dst) {
  constexpr int64_t per_word = Variant::kForm.per_word;
  if constexpr (Variant::kForm.terms > 1) {
    Variant::split_row(t, src, offset, n, dst, zero());
  } else {
    fill(dst + n / per_word, words<Variant>(n) - n / per_word, 0.0f);
    if (per_word == 1) {
      to_values<Variant::kRound>(t, src, offset, n, dst);
    } else {
      to_bf16(t, src, offset, n, dst);
    }
  }
}

// Word w of columns [c0, c0 + n), n <= kProductRows, of a matrix of `rows` rows from first_row on:
// the elements of as many rows as a word holds, and zeros after them. Words of further terms are
// `align` of to's rows apart.
template <class Variant>
inline void pack_word_of_rows(const ConstMatrix& m, int64_t first_row, int64_t rows, int64_t w,
                              int64_t c0, int64_t n, const WordsAt& to) {
  constexpr int64_t per_word = Variant::kForm.per_word;
  const int64_t row = w * per_word, at = (first_row + row) * m.columns + c0;
  if constexpr (Variant::kForm.terms > 1) {
    const int64_t there = row < rows ? n : 0;
    Variant::split_two(m.type, m.data, at, row + 1 < rows ? at + m.columns : -1, there, to, zero());
    return;
  }
  if (row >= rows) n = 0;
  if (per_word == 1) {
    const int64_t run = to.tile == 16 ? to.count : 16;
    for (int64_t j = 0; j < to.count; j += run) {
      float* dst = to.data + j / 16 * to.tile;
      const int64_t here = min64(run, to.count - j), some = max64(0, min64(here, n - j));
      to_values<Variant::kRound>(m.type, m.data, at + j, some, dst);
      fill(dst + some, here - some, 0.0f);
    }
    return;
  }
  alignas(64) uint16_t even[kProductRows], odd[kProductRows];
  to_bf16(m.type, m.data, at, n, even);
  const bool both = row + 1 < rows;
  if (both) to_bf16(m.type, m.data, at + m.columns, n, odd);
  word_elements(even, both ? odd : nullptr, n, to.count, to.data);
}

// Columns [k0, k1) of rows [n0, n0 + kPanel) of a weight as columns, from word `first` of a panel
// [depth, kPanel] on; zero past the last row.
template <class Variant>
inline void pack_panel_of_rows(const ConstMatrix& m, int64_t rows, int64_t n0, int64_t k0,
                               int64_t k1, int64_t first, int64_t depth, float* panel) {
  constexpr WordForm form = Variant::kForm;
  constexpr int64_t kElements = 64, kWords = form.words(kElements);
  alignas(64) float lines[kPanel][kWords + 16];
  for (int64_t k = k0; k < k1; k += kElements, first += kWords) {
    const int64_t count = form.words(min64(kElements, k1 - k));
    for (int64_t j = 0; j < kPanel; ++j) {
      if (n0 + j >= rows) {
        fill(lines[j], count, 0.0f);
      } else {
        pack_words<Variant>(m.type, m.data, (n0 + j) * m.columns + k, min64(kElements, k1 - k),
                            lines[j]);
      }
    }
    const WordsAt to = panel_word<Variant>(panel, depth, 0);
    if constexpr (kRowsOnly<Variant>) {
      for (int64_t w = 0; w < count; w += W)
        for (int64_t j = 0; j < kPanel; j += W)
          Variant::transpose(lines[j] + w, kWords + 16,
                             to.data + (first + w) * to.row + j / W * to.tile, to.row);
      continue;
    }
    for (int64_t w = 0; w < count; ++w)
      for (int64_t j = 0; j < kPanel; ++j)
        to.data[(first + w) * to.row + j / 16 * to.tile + j % 16] = lines[j][w];
  }
}

}  // namespace
}  // namespace nsa::cpu
