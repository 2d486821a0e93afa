// Plain types shared by every CPU kernel. Nothing here needs the standard library, because the
// translation units of one instruction set must not emit functions another unit could link to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nsa::cpu {

// Values are MindSpore's type ids.
enum class ElemType : int { kFloat16 = 42, kFloat32 = 43, kBFloat16 = 45 };

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

constexpr int64_t kAmxTile = 16;  // rows of a tile of AMX, and words or floats of a row
constexpr int64_t kPieces = 3;    // bf16 whose sum is a float

// How a matmul consumes its contraction: in words of one float or of two neighbouring bf16, a
// multiple of `align` words. Of a number that is a sum of several bf16, its pieces, `align` words
// of the first pieces come before those of the second, and so on.
struct WordForm {
  int64_t per_word, align, pieces = 1;

  constexpr int64_t words(int64_t n) const {
    return pieces * round_up(ceil_div(n, per_word), align);
  }
  // Where word n of the first pieces is.
  constexpr int64_t word(int64_t n) const { return n / align * align * pieces + n % align; }
  // Keys are padded to whole vectors of any instruction set and to whole multiples of `align`
  // words.
  constexpr int64_t key_step() const { return max64(16, per_word * align); }
};

}  // namespace nsa::cpu
