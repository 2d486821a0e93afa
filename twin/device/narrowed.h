// An integer argument that the device narrows: the twin keeps what the caller passed, so that an
// instruction can refuse what does not fit instead of running on what is left of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "twin/device/where.h"

// Narrowing in braces is an error in C++ and to CANN's compiler, to g++ by itself a warning.
#pragma GCC diagnostic error "-Wnarrowing"

namespace twin {

[[noreturn]] TWIN_API void WrongNumber(size_t given, size_t expected);

template <typename T>
class Narrowed {
 public:
  constexpr Narrowed() : value_(0) {}
  template <typename U, std::enable_if_t<std::is_integral<U>::value, int> = 0>
  constexpr Narrowed(U value) : value_(static_cast<int64_t>(value)) {}

  template <typename U>
  constexpr Narrowed(const Narrowed<U>& other) : value_(other.wide()) {}

  constexpr operator T() const { return static_cast<T>(value_); }
  template <typename U>
  constexpr Narrowed& operator+=(U other) {
    value_ += static_cast<int64_t>(other);
    return *this;
  }
  template <typename U>
  constexpr Narrowed& operator-=(U other) {
    value_ -= static_cast<int64_t>(other);
    return *this;
  }
  constexpr int64_t wide() const { return value_; }
  constexpr bool fits() const {
    return value_ >= 0 && value_ <= static_cast<int64_t>(std::numeric_limits<T>::max());
  }

 private:
  int64_t value_;
};

// The value that the caller passed.
template <typename T>
constexpr int64_t Wide(const Narrowed<T>& value) {
  return value.wide();
}
template <typename T, std::enable_if_t<std::is_integral<T>::value, int> = 0>
constexpr int64_t Wide(T value) {
  return static_cast<int64_t>(value);
}

// The arguments of a constructor in braces, where C++ refuses to narrow what is no constant, as it
// does on the device. The list is preferred to the constructor of Narrowed arguments, which only
// parentheses reach.
template <typename T>
class Braces {
 public:
  Braces(std::initializer_list<T> list, size_t least, size_t most) : list_(list) {
    if (list.size() < least || list.size() > most) WrongNumber(list.size(), least);
  }
  T operator[](size_t index) const { return index < list_.size() ? list_.begin()[index] : 0; }

 private:
  std::initializer_list<T> list_;
};

}  // namespace twin

namespace AscendC {

#ifdef TWIN_FIELDS_AS_CANN
// CANN declares them so: a compiler refuses to narrow in braces. For -fsyntax-only; the twin itself
// is compiled without.
using Narrow8 = uint8_t;
using Narrow16 = uint16_t;
using Narrow32 = uint32_t;
#else
// Fields and arguments as the device has them, but able to tell that a value did not fit.
using Narrow8 = twin::Narrowed<uint8_t>;
using Narrow16 = twin::Narrowed<uint16_t>;
using Narrow32 = twin::Narrowed<uint32_t>;
#endif

}  // namespace AscendC
