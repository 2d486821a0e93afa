// Lane-by-lane instructions: the untyped part.
#pragma once

#include "twin/vector/lanes.h"

namespace twin {

struct Elementwise {
  const char* name;
  Where where;
  MaskArgument mask;
  LaneFunction function;
  uint64_t scalar = 0;
  bool reads_dst = false;
  // dst may run over the last source when one of their repeat strides is 0 (accumulation).
  bool accumulates = false;
  bool narrows = false;  // a Cast to a narrower type may overwrite its source
  bool reads_ctrl = false;
  bool four_bits = false;  // one operand is int4b_t: the loops count pairs of elements
};

// operands and strides: dst, then one or two sources.
TWIN_API void RunElementwise(const Elementwise& call, std::initializer_list<Operand> operands,
                             std::initializer_list<Strides> strides);

// The loops over consecutive elements.
template <typename Lane, typename T>
void BinaryLoop(uint8_t* dst, const uint8_t* a, const uint8_t* b, uint64_t, size_t n) {
  T* d = reinterpret_cast<T*>(dst);
  const T* x = reinterpret_cast<const T*>(a);
  const T* y = reinterpret_cast<const T*>(b);
  for (size_t i = 0; i < n; ++i) d[i] = Lane::Do(x[i], y[i]);
}
template <typename Lane, typename T>
void ScalarLoop(uint8_t* dst, const uint8_t* a, const uint8_t*, uint64_t scalar, size_t n) {
  T* d = reinterpret_cast<T*>(dst);
  const T* x = reinterpret_cast<const T*>(a);
  const T y = FromScalarBits<T>(scalar);
  for (size_t i = 0; i < n; ++i) d[i] = Lane::Do(x[i], y);
}
template <typename Lane, typename T>
void UnaryLoop(uint8_t* dst, const uint8_t* a, const uint8_t*, uint64_t, size_t n) {
  T* d = reinterpret_cast<T*>(dst);
  const T* x = reinterpret_cast<const T*>(a);
  for (size_t i = 0; i < n; ++i) d[i] = Lane::Do(x[i]);
}
// dst = f(a, b, dst)
template <typename Lane, typename D, typename S>
void TernaryLoop(uint8_t* dst, const uint8_t* a, const uint8_t* b, uint64_t, size_t n) {
  D* d = reinterpret_cast<D*>(dst);
  const S* x = reinterpret_cast<const S*>(a);
  const S* y = reinterpret_cast<const S*>(b);
  for (size_t i = 0; i < n; ++i) d[i] = Lane::Do(x[i], y[i], d[i]);
}
template <typename Lane, typename D, typename S>
void TernaryScalarLoop(uint8_t* dst, const uint8_t* a, const uint8_t*, uint64_t scalar, size_t n) {
  D* d = reinterpret_cast<D*>(dst);
  const S* x = reinterpret_cast<const S*>(a);
  const S y = FromScalarBits<S>(scalar);
  for (size_t i = 0; i < n; ++i) d[i] = Lane::Do(x[i], y, d[i]);
}

}  // namespace twin
