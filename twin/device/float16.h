// half and bfloat16_t: storage and scalar arithmetic. A result is rounded to the nearest value,
// ties to even; single precision in between gives the same bits as one rounding, because its 24
// bits are at least twice the 11 bits of half plus two.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace twin {

inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float BitsFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline float HalfBitsToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t rest = half & 0x7fffu;
  if (rest >= 0x7c00u) return BitsFloat(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  if (rest >= 0x0400u) return BitsFloat(sign | ((rest << 13) + (112u << 23)));
  // A subnormal counts units of 2^-24.
  return BitsFloat(sign | FloatBits(static_cast<float>(rest) * 5.9604644775390625e-8f));
}

// To nearest, ties to even. Beyond 65504 infinity; a NaN stays a NaN.
inline uint16_t FloatToHalfBits(float value) {
  const uint32_t bits = FloatBits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the unit is 2^-24: adding 0.5 leaves it as the last bit of the sum.
    const float sum = BitsFloat(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (FloatBits(sum) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + 0xfffu + odd) >> 13));
}

inline float Bfloat16BitsToFloat(uint16_t bits) {
  return BitsFloat(static_cast<uint32_t>(bits) << 16);
}
inline uint16_t FloatToBfloat16Bits(float value) {
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace twin

struct half {
  uint16_t bits;

  half() = default;
  template <typename U, std::enable_if_t<std::is_arithmetic<U>::value, int> = 0>
  half(U value) : bits(twin::FloatToHalfBits(static_cast<float>(value))) {}
  operator float() const { return twin::HalfBitsToFloat(bits); }
  static half FromBits(uint16_t bits) {
    half result;
    result.bits = bits;
    return result;
  }
};

// Storage: the vector unit has no bfloat16 arithmetic on this architecture, and no scalar
// arithmetic exists either, so conversions are explicit, but for those of integers.
struct bfloat16_t {
  uint16_t bits;

  bfloat16_t() = default;
  template <typename U, std::enable_if_t<std::is_integral<U>::value, int> = 0>
  bfloat16_t(U value) : bits(twin::FloatToBfloat16Bits(static_cast<float>(value))) {}
  template <typename U, std::enable_if_t<std::is_floating_point<U>::value, int> = 0>
  explicit bfloat16_t(U value) : bits(twin::FloatToBfloat16Bits(static_cast<float>(value))) {}
  explicit operator float() const { return twin::Bfloat16BitsToFloat(bits); }
  static bfloat16_t FromBits(uint16_t bits) {
    bfloat16_t result;
    result.bits = bits;
    return result;
  }
};

// Names of the same two types. `__bf16` is a word of some host compilers, for a type of theirs.
using float16_t = half;
#define __bf16 bfloat16_t

static_assert(std::is_trivially_copyable<half>::value && sizeof(half) == 2, "");
static_assert(std::is_trivially_copyable<bfloat16_t>::value && sizeof(bfloat16_t) == 2, "");

namespace twin {

// half with an integer is half, half with a floating-point number is that number's type.
template <typename U>
using HalfWith = std::enable_if_t<std::is_arithmetic<U>::value,
                                  std::conditional_t<std::is_floating_point<U>::value, U, half>>;

}  // namespace twin

#define TWIN_HALF_OPERATOR(op)                                                         \
  inline half operator op(half a, half b) {                                            \
    return half(static_cast<float>(a) op static_cast<float>(b));                       \
  }                                                                                    \
  template <typename U>                                                                \
  inline twin::HalfWith<U> operator op(half a, U b) {                                  \
    using R = twin::HalfWith<U>;                                                       \
    using C = std::conditional_t<std::is_floating_point<U>::value, U, float>;          \
    return static_cast<R>(static_cast<C>(static_cast<float>(a)) op static_cast<C>(b)); \
  }                                                                                    \
  template <typename U>                                                                \
  inline twin::HalfWith<U> operator op(U a, half b) {                                  \
    using R = twin::HalfWith<U>;                                                       \
    using C = std::conditional_t<std::is_floating_point<U>::value, U, float>;          \
    return static_cast<R>(static_cast<C>(a) op static_cast<C>(static_cast<float>(b))); \
  }                                                                                    \
  template <typename U>                                                                \
  inline half& operator op## = (half & a, U b) {                                       \
    return a = half(static_cast<float>(a op b));                                       \
  }
TWIN_HALF_OPERATOR(+)
TWIN_HALF_OPERATOR(-)
TWIN_HALF_OPERATOR(*)
TWIN_HALF_OPERATOR(/)
#undef TWIN_HALF_OPERATOR

inline half operator-(half a) { return half::FromBits(static_cast<uint16_t>(a.bits ^ 0x8000u)); }

#define TWIN_HALF_COMPARE(op)                                                    \
  inline bool operator op(half a, half b) {                                      \
    return static_cast<float>(a) op static_cast<float>(b);                       \
  }                                                                              \
  template <typename U, std::enable_if_t<std::is_arithmetic<U>::value, int> = 0> \
  inline bool operator op(half a, U b) {                                         \
    return static_cast<float>(a) op b;                                           \
  }                                                                              \
  template <typename U, std::enable_if_t<std::is_arithmetic<U>::value, int> = 0> \
  inline bool operator op(U a, half b) {                                         \
    return a op static_cast<float>(b);                                           \
  }
TWIN_HALF_COMPARE(<)
TWIN_HALF_COMPARE(>)
TWIN_HALF_COMPARE(<=)
TWIN_HALF_COMPARE(>=)
TWIN_HALF_COMPARE(==)
TWIN_HALF_COMPARE(!=)
#undef TWIN_HALF_COMPARE
