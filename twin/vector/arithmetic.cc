#include "twin/vector/arithmetic.h"

#include "twin/device/error.h"
#include "twin/vector/elementwise.h"

namespace twin {

float CoarseReciprocal(float value) {
  if (value == 0 || !std::isfinite(value)) return 1 / value;
  int exponent;
  const float mantissa = 2 * std::frexp(std::fabs(value), &exponent);  // [1, 2)
  const float middle = 1 + (std::floor((mantissa - 1) * 256) + 0.5f) / 256;
  const double entry = std::nearbyint(512.0 / middle) / 512;
  return std::copysign(static_cast<float>(std::ldexp(entry, 1 - exponent)), value);
}

float CoarseRsqrt(float value) {
  if (!(value > 0) || std::isinf(value)) return 1 / std::sqrt(value);
  int exponent;
  const float mantissa = 2 * std::frexp(value, &exponent);  // [1, 2)
  --exponent;
  const float middle = 1 + (std::floor((mantissa - 1) * 128) + 0.5f) / 128;
  const int odd = exponent & 1;
  const double entry =
      std::nearbyint(512 / std::sqrt(static_cast<double>(middle) * (1 + odd))) / 512;
  return static_cast<float>(std::ldexp(entry, -(exponent - odd) / 2));
}

void CheckShift(const char* name, const Where& where, int64_t positions, int bits) {
  if (positions < 0 || positions > bits) {
    Fail(name, where,
         Format("scalarValue is %lld, it has to be 0 to %d", static_cast<long long>(positions),
                bits));
  }
}

}  // namespace twin
