// Plain types shared by every CPU kernel. Nothing here needs the standard library, because the
// translation units of one instruction set must not emit functions another one could link to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/declare.h"

namespace nsa::cpu {

// Values are MindSpore's type ids.
enum class ElemType : int { kFloat16 = 42, kFloat32 = 43, kBFloat16 = 45 };

// How the tensors of an attention lie: packed sequences, TND, or a batch.
using Layout = InputLayout;

constexpr int64_t elem_size(ElemType t) { return t == ElemType::kFloat32 ? 4 : 2; }

// FLT_MAX is the sentinel of softmax_max (negative) and softmax_sum (positive) of a row without
// keys.
constexpr float kFloatMax = 3.402823466e+38F;
constexpr float kFloatMin = 1.175494351e-38F;  // the smallest normal number

// The last axis of softmax_max and softmax_sum: one value, repeated.
constexpr int64_t kSoftmaxLanes = 8;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
constexpr int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// Rows in scratch are padded to a multiple of this, whatever the instruction set, so that the sizes
// of scratch are known outside the translation units of one instruction set.
constexpr int64_t kLanePad = 16;

constexpr int64_t kAmxTile = 16;     // rows of a tile of AMX, and words or floats of a row
constexpr int64_t kBf16x3Terms = 3;  // bf16 whose sum is a float

// How a matmul consumes its contraction: in words of one float or of two neighbouring bf16, a
// multiple of `align` words. Of a number that is a sum of several bf16, its terms, `align` words
// of the first terms come before those of the second, and so on.
struct WordForm {
  int64_t per_word, align, terms = 1;

  constexpr int64_t words(int64_t n) const {
    return terms * round_up(ceil_div(n, per_word), align);
  }
  // Where word n of the first terms is.
  constexpr int64_t word(int64_t n) const { return n / align * align * terms + n % align; }
  // Keys are padded to whole vectors of any instruction set and to whole multiples of `align`
  // words.
  constexpr int64_t key_step() const { return max64(16, per_word * align); }
};

namespace {

// Conversions of single fp16 and bf16 numbers in integer arithmetic, for machines and tails without
// conversion instructions. Rounding is to nearest even.
inline uint32_t bits_of(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  return u;
}
inline float float_of(uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, 4);
  return x;
}

inline float f16_to_float(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 31) return float_of(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in float
    float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return float_of(sign | bits_of(magnitude));
  }
  return float_of(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t float_to_f16(float x) {
  uint32_t u = bits_of(x), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | ((a >> 13) & 0x3ff));
  if (a >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds past 65504
  if (a < 0x38800000) {
    // Below 2^-14 the last place is 2^-24: adding 0.5 puts it at the end of the float's mantissa,
    // where the addition itself rounds to nearest even.
    return static_cast<uint16_t>(sign | (bits_of(float_of(a) + 0.5f) - 0x3f000000u));
  }
  uint32_t r = a + 0xfff + ((a >> 13) & 1);
  return static_cast<uint16_t>(sign | ((r - 0x38000000u) >> 13));
}

inline float bf16_to_float(uint16_t h) { return float_of(static_cast<uint32_t>(h) << 16); }

inline uint16_t float_to_bf16(float x) {
  uint32_t u = bits_of(x);
  if ((u & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((u | 0x00400000) >> 16);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

}  // namespace
}  // namespace nsa::cpu
