// Select with a mask of whole elements, and its older name SelectWithBytesMask: 0 takes src0,
// anything else src1, one of which is a scalar.
#pragma once

#include <cstring>

#include "twin/device/instr.h"
#include "twin/device/tensor.h"

namespace AscendC {

struct SelectWithBytesMaskShapeInfo {
  SelectWithBytesMaskShapeInfo() {}
  uint32_t firstAxis = 0;
  uint32_t srcLastAxis = 0;
  uint32_t maskLastAxis = 0;
};

}  // namespace AscendC

namespace twin {

struct SelectBytesCall {
  const char* name;
  Where where;
  AscendC::SelectWithBytesMaskShapeInfo info;
  bool scalar_first;
  bool reuse_mask;
  uint32_t scalar;  // its bits
};
TWIN_API void RunSelectBytes(const SelectBytesCall& call, const Operand& dst, const Operand& src,
                             const Operand& mask, const Operand& tmp);

// Bytes of temporary space, the least or as much as helps, for `elements` of the source.
TWIN_API uint32_t SelectBytesSpace(uint32_t elements, bool same_axis, uint32_t mask_width,
                                   bool reuse_mask, bool most);

template <typename T>
uint32_t ScalarBitsOf(T value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

}  // namespace twin

namespace AscendC {

#define TWIN_SELECT_BYTES(Name, First, Second, tensor, scalar, scalar_first)                       \
  template <typename T, typename U, bool isReuseMask = true>                                       \
  void Name(const LocalTensor<T>& dst, First src0, Second src1, const LocalTensor<U>& mask,        \
            const LocalTensor<uint8_t>& sharedTmpBuffer, const SelectWithBytesMaskShapeInfo& info, \
            twin::Where where = twin::Here()) {                                                    \
    TWIN_DTYPES(#Name, T, half, float);                                                            \
    TWIN_DTYPES(#Name, U, bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t);            \
    twin::RunSelectBytes(                                                                          \
        {#Name, where, info, scalar_first, isReuseMask, twin::ScalarBitsOf(scalar)}, {"dst", dst}, \
        {#tensor, tensor}, {"mask", mask}, {"sharedTmpBuffer", sharedTmpBuffer});                  \
  }
TWIN_SELECT_BYTES(Select, const LocalTensor<T>&, T, src0, src1, false)
TWIN_SELECT_BYTES(Select, T, const LocalTensor<T>&, src1, src0, true)
TWIN_SELECT_BYTES(SelectWithBytesMask, const LocalTensor<T>&, T, src0, src1, false)
TWIN_SELECT_BYTES(SelectWithBytesMask, T, const LocalTensor<T>&, src1, src0, true)
#undef TWIN_SELECT_BYTES

}  // namespace AscendC
