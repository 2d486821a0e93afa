// An integer argument that the device narrows: the twin keeps what the caller passed, so that an
// instruction can refuse what does not fit instead of running on what is left of it.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace twin {

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

}  // namespace twin

namespace AscendC {

// Fields and arguments as the device has them, but able to tell that a value did not fit.
using Narrow8 = twin::Narrowed<uint8_t>;
using Narrow16 = twin::Narrowed<uint16_t>;

}  // namespace AscendC
