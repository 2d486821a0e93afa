// One lane in plain C++: for machines without any of the other instruction sets, and the form
// every other one is tested against.
#pragma once

#include <cstdint>

#include "cpu/types.h"

namespace nsa::cpu {
namespace {

constexpr int W = 1;
constexpr int kMR = 4;
constexpr int kNR = 4;

using V = float;

inline V zero() { return 0.0f; }
inline V set1(float x) { return x; }
inline V load(const float* p) {
  float x;
  __builtin_memcpy(&x, p, 4);
  return x;
}
inline void store(float* p, V x) { __builtin_memcpy(p, &x, 4); }
inline V add(V a, V b) { return a + b; }
inline V sub(V a, V b) { return a - b; }
inline V mul(V a, V b) { return a * b; }
// Two roundings: the fused form is a slow library call where the machine has no instruction for it.
inline V fma(V a, V b, V c) { return a * b + c; }
// Does something only where loads are vectors.
template <class T>
inline V held(V x, const T*&) {
  return x;
}
// max and min give b where either operand is NaN, so a NaN in b goes through.
inline V max(V a, V b) { return a > b ? a : b; }
inline V min(V a, V b) { return a < b ? a : b; }
inline V where_lt(V a, V b, V x, V y) { return a < b ? x : y; }
inline V iota() { return 0.0f; }
// Adding 1.5 * 2^23 leaves no fraction bits; exact for the small arguments it is used with.
inline V round_even(V x) { return (x + 12582912.0f) - 12582912.0f; }
// 2^n for integral n in [-126, 127].
inline V pow2i(V n) {
  // NaN and infinity have no integer value; the factor then does not matter.
  int32_t e = n - n == 0.0f ? static_cast<int32_t>(n) : 0;
  return float_of(static_cast<uint32_t>(e + 127) << 23);
}
inline float hmax(V x) { return x; }
inline float hsum(V x) { return x; }

inline V load_f16(const uint16_t* p) {
  uint16_t h;
  __builtin_memcpy(&h, p, 2);
  return f16_to_float(h);
}
inline void store_f16(uint16_t* p, V x) {
  uint16_t h = float_to_f16(x);
  __builtin_memcpy(p, &h, 2);
}
inline V load_bf16(const uint16_t* p) {
  uint16_t h;
  __builtin_memcpy(&h, p, 2);
  return bf16_to_float(h);
}
inline void store_bf16(uint16_t* p, V x) {
  uint16_t h = float_to_bf16(x);
  __builtin_memcpy(p, &h, 2);
}

}  // namespace
}  // namespace nsa::cpu
