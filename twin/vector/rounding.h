// Conversions between number formats under CANN's rounding modes.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "twin/device/float16.h"
#include "twin/vector/params.h"

namespace twin {

using AscendC::RoundMode;

// The properties of a floating-point format: significant bits and the exponent of its smallest
// normal number.
template <typename T>
struct FloatFormat;
template <>
struct FloatFormat<half> {
  static constexpr int kBits = 11;
  static constexpr int kSmallest = -14;
  static constexpr double kLargest = 65504.0;
};
template <>
struct FloatFormat<bfloat16_t> {
  static constexpr int kBits = 8;
  static constexpr int kSmallest = -126;
  static constexpr double kLargest = 3.38953138925153547590470800371487866880e38;
};
template <>
struct FloatFormat<float> {
  static constexpr int kBits = 24;
  static constexpr int kSmallest = -126;
  static constexpr double kLargest = 3.40282346638528859811704183484516925440e38;
};

// To an integral value.
inline double RoundToIntegral(double value, RoundMode mode) {
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return std::floor(value);
    case RoundMode::CAST_CEIL:
      return std::ceil(value);
    case RoundMode::CAST_ROUND:
      return std::round(value);
    case RoundMode::CAST_TRUNC:
      return std::trunc(value);
    case RoundMode::CAST_ODD: {
      const double whole = std::trunc(value);
      if (whole == value || std::fmod(whole, 2.0) != 0) return whole;
      return whole + std::copysign(1.0, value);
    }
    default:
      return std::nearbyint(value);
  }
}

// To the values of a format; infinite beyond its largest.
template <typename T>
double RoundToFormat(double value, RoundMode mode) {
  using F = FloatFormat<T>;
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent;
  std::frexp(value, &exponent);
  const int smallest = F::kSmallest - F::kBits + 1;
  const int unit = exponent - F::kBits > smallest ? exponent - F::kBits : smallest;
  const double rounded = std::ldexp(RoundToIntegral(std::ldexp(value, -unit), mode), unit);
  if (std::fabs(rounded) <= F::kLargest) return rounded;
  return std::copysign(std::numeric_limits<double>::infinity(), rounded);
}

// To nearest even, infinite on overflow.
inline half RoundToHalf(double value) {
  return half(RoundToFormat<half>(value, RoundMode::CAST_RINT));
}

// With saturation, the device's default for conversions: what is too large becomes the largest
// finite value, a NaN becomes 0.
template <typename T>
double Saturate(double value) {
  using F = FloatFormat<T>;
  if (std::isnan(value)) return 0;
  if (std::fabs(value) > F::kLargest) return std::copysign(F::kLargest, value);
  return value;
}

// To an integer type, saturating; a NaN becomes 0.
template <typename T>
T RoundToInteger(double value, RoundMode mode) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return 0;
  const double rounded = RoundToIntegral(value, mode);
  if (rounded <= static_cast<double>(Limits::min())) return Limits::min();
  // The largest value of a 64-bit type is not a double; the next power of two is.
  if (rounded >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  return static_cast<T>(rounded);
}

// An integer as float: more bits than a double can have are rounded here, once.
inline float RoundToFloat(int64_t value, RoundMode mode) {
  const bool negative = value < 0;
  const uint64_t magnitude =
      negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int spare = 0;
  while (spare < 40 && magnitude >> spare >= (uint64_t{1} << 24)) ++spare;
  if (spare == 0) return static_cast<float>(value);
  uint64_t whole = magnitude >> spare;
  const uint64_t rest = magnitude & ((uint64_t{1} << spare) - 1);
  const uint64_t half_way = uint64_t{1} << (spare - 1);
  bool up = false;
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      up = negative && rest != 0;
      break;
    case RoundMode::CAST_CEIL:
      up = !negative && rest != 0;
      break;
    case RoundMode::CAST_ROUND:
      up = rest >= half_way;
      break;
    case RoundMode::CAST_TRUNC:
      break;
    default:
      up = rest > half_way || (rest == half_way && (whole & 1) != 0);
  }
  whole += up;
  const float result = std::ldexp(static_cast<float>(whole), spare);
  return negative ? -result : result;
}

}  // namespace twin
