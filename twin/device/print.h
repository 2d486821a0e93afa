// printf, DumpTensor and ascendc_assert of a kernel.
#pragma once

#include <cassert>

#include "twin/device/tensor.h"

namespace twin {

TWIN_API void Print(const char* format, ...);
// `number` gives element `index` behind an address as a number.
TWIN_API void Dump(const Operand& tensor, uint32_t desc, uint32_t count,
                   double (*number)(const uint8_t* from, uint64_t index), const Where& where);
[[noreturn]] TWIN_API void AssertFailed(const char* condition, const Where& where);

template <typename T>
auto Printable(const T& value) {
  if constexpr (std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return value;
  }
}

template <typename T>
double NumberAt(const uint8_t* from, uint64_t index) {
  if constexpr (std::is_same<T, int4b_t>::value) {
    const int nibble = from[index / 2] >> (index % 2 * 4) & 15;
    return nibble < 8 ? nibble : nibble - 16;
  } else {
    T value;
    std::memcpy(static_cast<void*>(&value), from + index * sizeof(T), sizeof(T));
    if constexpr (sizeof(T) == 2 && !std::is_integral<T>::value)
      return static_cast<float>(value);
    else
      return static_cast<double>(value);
  }
}

}  // namespace twin

namespace AscendC {

template <class... Args>
void printf(const char* fmt, Args&&... args) {
  twin::Print(fmt, twin::Printable(args)...);
}
template <class... Args>
void PRINTF(const char* fmt, Args&&... args) {
  twin::Print(fmt, twin::Printable(args)...);
}

template <typename T>
void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize,
                twin::Where where = twin::Here()) {
  twin::Dump({"tensor", tensor}, desc, dumpSize, twin::NumberAt<T>, where);
}
template <typename T>
void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize,
                twin::Where where = twin::Here()) {
  twin::Dump({"tensor", tensor}, desc, dumpSize, twin::NumberAt<T>, where);
}
template <typename T>
void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, const ShapeInfo&,
                twin::Where where = twin::Here()) {
  twin::Dump({"tensor", tensor}, desc, dumpSize, twin::NumberAt<T>, where);
}
template <typename T>
void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, const ShapeInfo&,
                twin::Where where = twin::Here()) {
  twin::Dump({"tensor", tensor}, desc, dumpSize, twin::NumberAt<T>, where);
}

}  // namespace AscendC

// The message of the device follows the condition, or what it does first; the twin names
// the condition.
#define ascendc_assert(condition, ...) \
  ((condition) ? static_cast<void>(0) : ::twin::AssertFailed(#condition, ::twin::Here()))
// CANN's takes a message, too, which is printf's; the twin names the condition.
#undef assert
#define assert(...) ascendc_assert(__VA_ARGS__)
#ifndef ASSERT_MSG
#define ASSERT_MSG(condition, ...) ascendc_assert(condition)
#endif
#ifndef ASSERT
#define ASSERT(...) ascendc_assert((__VA_ARGS__))
#endif
#ifndef ASCENDC_ASSERT
#define ASCENDC_ASSERT(condition, ...) ascendc_assert(condition)
#endif
