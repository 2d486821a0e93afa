// Kernel variants of a step: floats on vectors, and the operand forms that all variants share: rows
// converted to float (or kept as words of bf16), keys transposed block by block, everything padded
// with zeros. The end includes the other variants that the translation unit being compiled has, and
// which of them an operand's type takes. Nothing outside the engine asks for an instruction set.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/step/tile_matmul.h"

namespace nsa::cpu {
namespace {

// For a lambda that runs between the products of a kernel variant: it must be inlined.
#define NSA_INLINE __attribute__((always_inline))

// n rows of a tensor, `row` elements apart, the first at `offset`.
struct TensorRows {
  ElemType t;
  const void* src;
  int64_t offset, row, n;

  int64_t at(int64_t j) const { return offset + j * row; }
};

// Rows whose products are added up side by side.
constexpr int kDots = 8;

// A kernel variant: the number format of its products, and all that depends on it. A "word" is what
// one step of a contraction consumes: one float, or two neighbouring bf16. This is
// the variant of floats on vectors; the others have files of their own, and the end of this one
// says which a translation unit has.
struct FloatVariant {
  using Step = FloatStep;
  static constexpr WordForm kForm = {1, 1};
  // Variant of a gradient's scores.
  using Scores = FloatVariant;
  // Values of this exponent and above, as its bits stand in bf16, take the slow path that
  // handles NaN and infinity.
  static constexpr uint32_t kLargeExponent = 0x7f80;

  static float dot_in_order(const float* a, const float* b, int64_t n) {
    return nsa::cpu::dot_in_order(a, b, n);
  }
  // kDots of them, of rows that are `row` apart.
  static void dots_in_order(const float* a, const float* b, int64_t row, int64_t n, float* sums) {
    nsa::cpu::dots_in_order<kDots>(a, b, row, n, sums);
  }
  // Elements j.. of a row of probabilities, W of them or twice as many, as words at p.
  static void put(float* p, int64_t j, V x) { store(p + j, x); }
  static void put(float* p, int64_t j, V x, V y) {
    store(p + j, x);
    store(p + j + W, y);
  }
  // Packs as many of some rows of D elements as lanes as can be transposed at once. Gives how many.
  static int64_t transpose_rows(const TensorRows&, int64_t, int64_t, float*) { return 0; }
  // Called by a thread before its first step and after its last one.
  static void begin() {}
  static void end() {}
};

// Whether a product reads A along its rows only. dV and dK, sums over rows of P and dS, are then
// computed transposed: dV^T = dO^T P, with P on the right.
template <class Variant>
constexpr bool kRowsOnly = Variant::kForm.align > 1;

// Whether a gradient on floats has scores of split operands.
template <class Variant>
constexpr bool kScoresSplit = Variant::Scores::kForm.terms > 1;

template <class Variant>
constexpr int64_t words(int64_t n) {
  return Variant::kForm.words(n);
}

// Keys that go together: whole padding lanes, and whole words along a contraction.
template <class Variant>
constexpr int64_t key_step() {
  return Variant::kForm.key_step();
}

// Words of a KV block's values.
template <class Form>
constexpr int64_t words_of_values(int64_t Dv) {
  return Form::kForm.words(kKvBlockKeys) * padded_row(Dv);
}

// Whether rows of queries are words that end with a row of a tile, and tiles with a query. Where
// they begin does not count: results may not depend on it.
inline bool heads_are_tiles(const AttentionPlan& plan) {
  return plan.G % kAmxTile == 0 && plan.D % (2 * kAmxTile) == 0 && plan.q.row % 2 == 0 &&
         plan.q.head % 2 == 0;
}

// One row of n elements as words, padded with zeros.
template <class Variant>
inline void pack_row(ElemType t, const void* src, int64_t offset, int64_t n, float* dst) {
  if (Variant::kForm.per_word == 1) {
    to_float(t, src, offset, n, dst);
  } else {
    fill(dst + n / 2, words<Variant>(n) - n / 2, 0.0f);
    __builtin_memcpy(dst, static_cast<const char*>(src) + 2 * offset, static_cast<size_t>(n) * 2);
  }
}

// Where words of `count` columns go, 16 of them next to each other and `tile` words from those to
// the next 16; `row` words from one of the contraction to the next.
struct WordsAt {
  float* data;
  int64_t count, row, tile = 16;
};

// Prefetches a row of n elements that will be packed soon: the hardware prefetcher stops at the end
// of a page.
inline void prefetch_row(ElemType t, const void* src, int64_t offset, int64_t n) {
  const char* row = static_cast<const char*>(src) + offset * elem_size(t);
  for (int64_t at = 0; at < n * elem_size(t); at += 64) __builtin_prefetch(row + at, 0, 3);
}
constexpr int64_t kPrefetchDistance = 8;  // enough to be there in time, few enough to stay

// Whether rows of n elements are words where they are, whatever the offset of a head.
template <class Variant>
inline bool rows_are_words(ElemType t, const void* src, int64_t n, RowStrides strides) {
  constexpr int64_t per_word = Variant::kForm.per_word;
  if (Variant::kForm.align > 1 || t != (per_word == 1 ? ElemType::kFloat32 : ElemType::kBFloat16))
    return false;
  return n % per_word == 0 && strides.row % per_word == 0 && strides.head % per_word == 0 &&
         reinterpret_cast<uintptr_t>(src) % sizeof(float) == 0;
}

// Lanes of a KV block that stand next to each other, [words(D), panel], before the next ones. Where
// a product reads 16 at a time, one line of each row, rows of 64 would put the lines of a panel
// into a quarter of the sets of the first-level cache, and those of 128 rows would fill them.
template <class Variant>
constexpr int64_t panel_lanes(int64_t lanes) {
  return !kRowsOnly<Variant> && kNR * W == kLanePad ? kLanePad : lanes;
}

// Neighbouring keys of a head, n of them, and their values: where the first ones begin.
struct KeyRows {
  int64_t k, v, n;
};

inline TensorRows keys_of(const AttentionPlan& plan, KeyRows from) {
  return {plan.dtype, plan.key, from.k, plan.k.row, from.n};
}
inline TensorRows values_of(const AttentionPlan& plan, KeyRows from) {
  return {plan.dtype, plan.value, from.v, plan.v.row, from.n};
}

// dst[lanes / panel][words(D)][panel] = transpose of rows of D elements, panel = panel_lanes();
// lanes past the rows are zero. row_words holds words(D) floats.
template <class Variant>
inline void pack_transposed(const TensorRows& rows, int64_t D, int64_t lanes, float* dst,
                            float* row_words) {
  const int64_t depth = words<Variant>(D), panel = panel_lanes<Variant>(lanes);
  const auto lane = [&](int64_t j) { return dst + j / panel * panel * depth + j % panel; };
  const int64_t done = Variant::transpose_rows(rows, D, lanes, dst);
  for (int64_t j = done; j < rows.n; ++j) {
    prefetch_row(rows.t, rows.src, rows.at(j + kPrefetchDistance), D);
    pack_row<Variant>(rows.t, rows.src, rows.at(j), D, row_words);
    for (int64_t d = 0; d < depth; ++d) lane(j)[d * panel] = row_words[d];
  }
  for (int64_t j = rows.n; j < lanes; ++j)
    for (int64_t d = 0; d < depth; ++d) lane(j)[d * panel] = 0.0f;
}

// Lanes of pack_transposed() as the right side of a product.
template <class Variant>
inline Lanes packed_lanes(const float* packed, int64_t depth, int64_t lanes) {
  const int64_t panel = panel_lanes<Variant>(lanes);
  return {packed, panel, panel < lanes ? depth : 1};
}

// Neighbouring KV blocks, [depth, lanes] each.
struct KvBlocks {
  const float* data;
  int64_t depth, lanes;
};

// c = A B for lanes [n0, n1) of KV blocks. A: Operand, or RowList where the variant takes it.
template <class Variant, class A>
inline void key_products(A a, int64_t rows, KvBlocks keys, int64_t n0, int64_t n1, Output c,
                         PrefetchQueue* prefetch = nullptr) {
  using Step = typename Variant::Step;
  const auto [kv_blocks, depth, lanes] = keys;
  for (int64_t n = n0; n < n1;) {
    const int64_t lane = n % lanes, count = min64(lanes - lane, n1 - n);
    const Lanes b = packed_lanes<Variant>(kv_blocks + (n - lane) * depth, depth, lanes).from(lane);
    const Output to = c.from(0, n - n0);
    const Sizes of = {rows, count, depth};
    const Sum sum = {Into::kReplace, nullptr, prefetch};
    if constexpr (kRowsOnly<Variant>) {
      matmul<Step>(of, a, b, to, sum);
    } else {
      matmul_rows<Step>(of, a, b, to, sum);
    }
    n += count;
  }
}

// dst[d] = the word of even[d] and odd[d], d < n; the rest of ld words is zero. A row that is
// nullptr is zero.
inline void word_elements(const uint16_t* even, const uint16_t* odd, int64_t n, int64_t ld,
                          float* dst) {
  if (even == nullptr) n = 0;
  for (int64_t d = 0; d < n; ++d) {
    const uint32_t word = even[d] | (odd ? static_cast<uint32_t>(odd[d]) << 16 : 0);
    __builtin_memcpy(dst + d, &word, 4);
  }
  fill(dst + n, ld - n, 0.0f);
}

// dst[words(rows_padded)][ld]: rows of Dv elements along the contraction, ld a padded Dv. The bf16
// form interleaves rows 2 j and 2 j + 1. Rows past them and columns Dv.. are zero.
template <class Variant>
inline void pack_rows(const TensorRows& rows, int64_t Dv, int64_t rows_padded, float* dst) {
  const int64_t ld = padded_row(Dv), n = rows.n;
  if (Variant::kForm.per_word == 1) {
    for (int64_t j = 0; j < n; ++j) {
      prefetch_row(rows.t, rows.src, rows.at(j + kPrefetchDistance), Dv);
      to_float(rows.t, rows.src, rows.at(j), Dv, dst + j * ld);
      fill(dst + j * ld + Dv, ld - Dv, 0.0f);
    }
    fill(dst + n * ld, (rows_padded - n) * ld, 0.0f);
    return;
  }
  const uint16_t* base = static_cast<const uint16_t*>(rows.src);
  for (int64_t j = 0; j < rows_padded; j += 2) {
    word_elements(j < n ? base + rows.at(j) : nullptr, j + 1 < n ? base + rows.at(j + 1) : nullptr,
                  Dv, ld, dst + j / 2 * ld);
  }
}

// Whether `count` packed words are all finite; of bf16, those of a smaller exponent than the one
// given, as its bits stand in a number.
template <class Variant>
inline bool packed_finite(const float* packed, int64_t count, uint32_t exponent = 0x7f80) {
  if (Variant::kForm.per_word == 1) return all_finite(packed, count);
  // Adding 0x8000 - exponent carries a greater exponent into the sign bit.
  const uint32_t rest = (0x8000 - exponent) * 0x10001u;
  uint32_t carries = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t word;
    __builtin_memcpy(&word, packed + i, 4);
    carries |= (word & 0x7f807f80u) + rest;
  }
  return (carries & 0x80008000u) == 0;
}

// A product with P or dS on the left; without finite_only the right side holds NaN or infinity
// somewhere, and some score may be masked.
template <class Variant>
inline void multiply_values(bool finite_only, Sizes of, Operand p, Lanes v, Output o,
                            Sum sum = {}) {
  if (finite_only) return matmul<typename Variant::Step>(of, p, v, o, sum);
  matmul_visible(Variant::kForm.per_word, of, p, v, o, sum);
}

}  // namespace
}  // namespace nsa::cpu

#ifdef NSA_HAS_BF16_DOT
#include "cpu/engine/step/bf16_dot.h"
#endif
#ifdef NSA_ISA_AMX
#include "cpu/engine/step/amx.h"
#include "cpu/engine/step/bf16x3.h"
#endif

namespace nsa::cpu {
namespace {

// VariantOfBFloat16: for bfloat16, forward and backward. SplitFloatVariant: what
// float32 and float16 run on where operands are split, which fits where
// SplitFloatVariant::kForm.terms > 1. GradVariantOfFloat: what gradients of both run on.
#if defined(NSA_ISA_AMX)
using VariantOfBFloat16 = AmxVariant;
using SplitFloatVariant = Bf16x3Variant;
using GradVariantOfFloat = Bf16x3ScoresVariant;
#elif defined(NSA_HAS_BF16_DOT)
using VariantOfBFloat16 = DotVariant;
using SplitFloatVariant = FloatVariant;
using GradVariantOfFloat = FloatVariant;
#else
using VariantOfBFloat16 = FloatVariant;
using SplitFloatVariant = FloatVariant;
using GradVariantOfFloat = FloatVariant;
#endif

}  // namespace
}  // namespace nsa::cpu
