// Names of the data types, for errors, and the compile-time check of what an instruction takes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "twin/device/float16.h"

namespace AscendC {

// Two elements to a byte, the first in the low half.
struct int4b_t {
  uint8_t storage;
};

}  // namespace AscendC

namespace twin {

using AscendC::int4b_t;

template <typename T>
constexpr uint64_t ByteCount(uint64_t elements) {
  return elements * sizeof(T);
}
template <>
constexpr uint64_t ByteCount<int4b_t>(uint64_t elements) {
  return elements / 2;
}
template <typename T>
constexpr uint64_t ElementCount(uint64_t bytes) {
  return bytes / sizeof(T);
}
template <>
constexpr uint64_t ElementCount<int4b_t>(uint64_t bytes) {
  return bytes * 2;
}

template <typename T>
constexpr const char* TypeName() {
  return "?";
}
#define TWIN_TYPE_NAME(T)               \
  template <>                           \
  constexpr const char* TypeName<T>() { \
    return #T;                          \
  }
TWIN_TYPE_NAME(half)
TWIN_TYPE_NAME(bfloat16_t)
TWIN_TYPE_NAME(float)
TWIN_TYPE_NAME(double)
TWIN_TYPE_NAME(bool)
TWIN_TYPE_NAME(int8_t)
TWIN_TYPE_NAME(uint8_t)
TWIN_TYPE_NAME(int16_t)
TWIN_TYPE_NAME(uint16_t)
TWIN_TYPE_NAME(int32_t)
TWIN_TYPE_NAME(uint32_t)
TWIN_TYPE_NAME(int64_t)
TWIN_TYPE_NAME(uint64_t)
TWIN_TYPE_NAME(int4b_t)
#undef TWIN_TYPE_NAME

template <typename T, typename... Legal>
struct IsDtypeOf {
  static constexpr bool value = (std::is_same<T, Legal>::value || ...);
};

}  // namespace twin

// Refuses to compile `instruction` with a data type that dav-c220 has no such instruction for. The
// compiler's note on IsDtypeOf<T, ...> and its "with T = ..." name the data type.
#define TWIN_DTYPES(instruction, T, ...) TWIN_DTYPES_NAMED(instruction, T, __VA_ARGS__)
// One step later, so that the message has the types where `...` is a macro for them.
#define TWIN_DTYPES_NAMED(instruction, T, ...)            \
  static_assert(::twin::IsDtypeOf<T, __VA_ARGS__>::value, \
                instruction " does not take this data type on dav-c220; it takes " #__VA_ARGS__)
