// Host side of Select with a mask of whole elements: temporary space in bytes; what makes no sense
// is logged and gives 0. One of the two sources is a scalar, of shape {1}. The names with
// WithBytesMask are the older ones.
#pragma once

#include "graph/tensor.h"
#include "twin/device/where.h"

namespace AscendC {

using TensorShape = ge::Shape;

#define TWIN_SELECT_SPACE(Name)                                                               \
  TWIN_API uint32_t Get##Name##MinTmpSize(                                                    \
      const TensorShape& src0Shape, const TensorShape& src1Shape, const uint32_t srcTypeSize, \
      const TensorShape& maskShape, const uint32_t maskTypeSize, const bool isReuseMask);     \
  TWIN_API uint32_t Get##Name##MaxTmpSize(                                                    \
      const TensorShape& src0Shape, const TensorShape& src1Shape, const uint32_t srcTypeSize, \
      const TensorShape& maskShape, const uint32_t maskTypeSize, const bool isReuseMask);     \
  TWIN_API void Get##Name##MaxMinTmpSize(                                                     \
      const TensorShape& src0Shape, const TensorShape& src1Shape, const uint32_t srcTypeSize, \
      const TensorShape& maskShape, const uint32_t maskTypeSize, const bool isReuseMask,      \
      uint32_t& maxValue, uint32_t& minValue);
TWIN_SELECT_SPACE(Select)
TWIN_SELECT_SPACE(SelectWithBytesMask)
#undef TWIN_SELECT_SPACE

}  // namespace AscendC
