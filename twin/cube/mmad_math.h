// The arithmetic of Mmad on plain arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "twin/cube/mmad.h"

namespace twin {

constexpr uint64_t ElementBits(MmadType type) {
  switch (type) {
    case MmadType::kFloat:
      return 32;
    case MmadType::kInt8:
    case MmadType::kSparse:
      return 8;
    case MmadType::kInt4:
      return 4;
    default:
      return 16;
  }
}

// A [m, k] and B [n / 16, k, 16], the columns beyond n zero; of floats or of int32_t.
struct MmadArrays {
  uint64_t m = 0, n = 0, k = 0;
  uint64_t c_rows = 0;  // of a column block of C
  uint64_t c0 = 0;      // elements of K that the cube adds up before it adds them to C
  std::vector<float> a, b;
  std::vector<int32_t> a_whole, b_whole;
  bool nan = false;
};

// C starts from one of these: zero, itself, or one row for all.
struct MmadStart {
  const uint8_t* data;
  bool one_row;
};

inline float FloatAt(MmadType type, const uint8_t* data, uint64_t bit) {
  if (type == MmadType::kFloat) {
    float value;
    std::memcpy(&value, data + bit / 8, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, data + bit / 8, 2);
  return type == MmadType::kHalf ? HalfBitsToFloat(bits) : Bfloat16BitsToFloat(bits);
}

inline int32_t WholeAt(MmadType type, const uint8_t* data, uint64_t bit) {
  const uint8_t byte = data[bit / 8];
  if (type != MmadType::kInt4) return static_cast<int8_t>(byte);
  const int32_t nibble = byte >> (bit % 8) & 15;
  return nibble >= 8 ? nibble - 16 : nibble;
}

// `a_at` and `b_at` give the bit of an element from the start of its operand.
template <typename AtA, typename AtB>
void LoadOperands(MmadArrays* arrays, MmadType type, const uint8_t* a, const uint8_t* b, AtA a_at,
                  AtB b_at) {
  MmadArrays& r = *arrays;
  const uint64_t a_count = r.m * r.k, b_count = (r.n + 15) / 16 * 16 * r.k;
  const bool sparse = type == MmadType::kSparse;
  const bool whole = type == MmadType::kInt8 || type == MmadType::kInt4 || sparse;
  if (whole) {
    r.a_whole.resize(a_count);
    r.b_whole.resize(b_count);
  } else {
    r.a.resize(a_count);
    r.b.resize(b_count);
  }
  for (uint64_t row = 0; row < r.m; ++row) {
    for (uint64_t k = 0; k < r.k; ++k) {
      const uint64_t i = row * r.k + k;
      if (whole) {
        r.a_whole[i] = WholeAt(type, a, a_at(row, k));
      } else {
        r.a[i] = FloatAt(type, a, a_at(row, k));
        r.nan |= r.a[i] != r.a[i];
      }
    }
  }
  for (uint64_t column = 0; column < r.n && !sparse; ++column) {
    for (uint64_t k = 0; k < r.k; ++k) {
      const uint64_t i = (column / 16 * r.k + k) * 16 + column % 16;
      if (whole) {
        r.b_whole[i] = WholeAt(type, b, b_at(k, column));
      } else {
        r.b[i] = FloatAt(type, b, b_at(k, column));
        r.nan |= r.b[i] != r.b[i];
      }
    }
  }
}

// Writes C [n / 16, c_rows, 16]. K runs upwards in steps of c0 elements: the products
// of a step are added up in single precision, then their sum is added to C. `saturate` turns an
// infinite result into the largest float and a NaN into 0.
void Multiply(const MmadArrays& arrays, const MmadStart& start, bool saturate, uint8_t* c);

}  // namespace twin
