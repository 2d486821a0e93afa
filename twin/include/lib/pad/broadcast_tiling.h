// Host side of Broadcast: temporary space in bytes; what makes no sense is logged and gives 0.
#pragma once

#include "graph/tensor.h"
#include "tiling/platform/platform_ascendc.h"
#include "twin/device/where.h"

namespace AscendC {

using TensorShape = ge::Shape;

// Shapes of one or two dimensions; `typeSize`: bytes of an element.
TWIN_API void GetBroadCastMaxMinTmpSize(const platform_ascendc::PlatformAscendC& ascendcPlatform,
                                        const TensorShape& srcShape, const TensorShape& dstShape,
                                        uint32_t typeSize, const bool isReuseSource,
                                        uint32_t& maxValue, uint32_t& minValue);

}  // namespace AscendC
