// For the kernels in tests: a static_cast from integer to integer that refuses a number which the
// other type does not hold. A kernel casts what a field of 8 or 16 bits takes, and the twin would
// see only what is left of it. Included behind everything but the kernel.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "kernel_operator.h"
#include "twin/device/error.h"

namespace runner {

template <typename To, typename From>
constexpr bool Holds(From value) {
  return static_cast<From>(static_cast<To>(value)) == value &&
         (static_cast<To>(value) < To{0}) == (value < From{0});
}

template <typename T>
constexpr bool kIsNumber = std::is_integral<T>::value && !std::is_same<T, bool>::value;

template <typename To, typename From>
constexpr To CheckedCast(From&& value, const char* file = __builtin_FILE(),
                         int line = __builtin_LINE()) {
  using Number = std::decay_t<From>;
  if constexpr (kIsNumber<To> && kIsNumber<Number>) {
    if (!Holds<To, Number>(value)) {
      twin::Fail("static_cast", {file, line},
                 std::to_string(value) + " does not fit in " + std::to_string(8 * sizeof(To)) +
                     (std::is_signed<To>::value ? " bits with a sign" : " bits"));
    }
  }
  return static_cast<To>(std::forward<From>(value));
}

}  // namespace runner

#define static_cast runner::CheckedCast
