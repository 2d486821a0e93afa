// ConfusionTranspose, and Transpose with its tiling: of the arrangements that CANN has, a matrix of
// rows and columns that are multiples of 16.
#pragma once

#include "twin/adv/tiling_data.h"
#include "twin/device/instr.h"
#include "twin/device/tensor.h"
#include "twin/vector/params.h"

namespace twin {

TWIN_API void RunConfusionTranspose(const char* name, AscendC::TransposeType type,
                                    const AscendC::tiling::ConfusionTransposeTiling& tiling,
                                    const Operand& dst, const Operand& src, const Where& where);

}  // namespace twin

namespace AscendC {

#define TWIN_CONFUSION_TRANSPOSE(Name)                                                            \
  template <typename T>                                                                           \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&,    \
            TransposeType transposeType, ConfusionTransposeTiling& tiling,                        \
            twin::Where where = twin::Here()) {                                                   \
    TWIN_DTYPES(#Name, T, int16_t, uint16_t, half, int32_t, uint32_t, float);                     \
    twin::RunConfusionTranspose(#Name, transposeType, tiling, {"dst", dst}, {"src", src}, where); \
  }                                                                                               \
  template <typename T>                                                                           \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, TransposeType transposeType,    \
            ConfusionTransposeTiling& tiling, twin::Where where = twin::Here()) {                 \
    TWIN_DTYPES(#Name, T, int16_t, uint16_t, half, int32_t, uint32_t, float);                     \
    twin::RunConfusionTranspose(#Name, transposeType, tiling, {"dst", dst}, {"src", src}, where); \
  }
TWIN_CONFUSION_TRANSPOSE(ConfusionTranspose)
TWIN_CONFUSION_TRANSPOSE(Transpose)
#undef TWIN_CONFUSION_TRANSPOSE

}  // namespace AscendC
