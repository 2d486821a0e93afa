// Conversions of single fp16 and bf16 numbers in integer arithmetic, for machines and tails without
// conversion instructions. Rounding is to nearest even.
#pragma once

#include <cstdint>

namespace nsa::cpu {
namespace {

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
