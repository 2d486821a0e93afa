// DropOut: elements that a mask of bytes or bits selects, divided by keepProb; 0 for the others.
#pragma once

#include "twin/device/instr.h"
#include "twin/device/tensor.h"

namespace AscendC {

constexpr uint32_t DROPOUT_MODE_BYTE_MISALIGN = 1;
constexpr uint32_t DROPOUT_MODE_BYTE_ALIGN = 2;
constexpr uint32_t DROPOUT_MODE_BIT_ALIGN = 3;
constexpr uint32_t DROPOUT_MODE_BIT_MISALIGN = 4;

struct DropOutShapeInfo {
  DropOutShapeInfo() {}
  uint32_t firstAxis = 0;
  uint32_t srcLastAxis = 0;
  uint32_t maskLastAxis = 0;
};

}  // namespace AscendC

namespace twin {

struct DropOutCall {
  Where where;
  AscendC::DropOutShapeInfo info;
  uint32_t mode;  // 0: by the lengths of source and mask
  float keep;
};
TWIN_API void RunDropOut(const DropOutCall& call, const Operand& dst, const Operand& src,
                         const Operand& mask, const Operand& tmp);

}  // namespace twin

namespace AscendC {

template <typename T, bool isInitBitMode = false, uint32_t dropOutMode = 0>
void DropOut(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal,
             const LocalTensor<uint8_t>& maskLocal, const LocalTensor<uint8_t>& sharedTmpBuffer,
             const float keepProb, const DropOutShapeInfo& info, twin::Where where = twin::Here()) {
  TWIN_DTYPES("DropOut", T, half, float);
  static_assert(dropOutMode <= DROPOUT_MODE_BIT_MISALIGN, "DropOut: dropOutMode is 0 to 4");
  twin::RunDropOut({where, info, dropOutMode, keepProb}, {"dstLocal", dstLocal},
                   {"srcLocal", srcLocal}, {"maskLocal", maskLocal},
                   {"sharedTmpBuffer", sharedTmpBuffer});
}
template <typename T, bool isInitBitMode = false, uint32_t dropOutMode = 0>
void DropOut(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal,
             const LocalTensor<uint8_t>& maskLocal, const float keepProb,
             const DropOutShapeInfo& info, twin::Where where = twin::Here()) {
  TWIN_DTYPES("DropOut", T, half, float);
  static_assert(dropOutMode <= DROPOUT_MODE_BIT_MISALIGN, "DropOut: dropOutMode is 0 to 4");
  twin::RunDropOut({where, info, dropOutMode, keepProb}, {"dstLocal", dstLocal},
                   {"srcLocal", srcLocal}, {"maskLocal", maskLocal}, {});
}

}  // namespace AscendC
