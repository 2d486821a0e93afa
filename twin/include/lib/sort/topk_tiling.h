// Host side of TopK by merge sort: temporary space in bytes, and tiling. They return false, and log
// why, for what no kernel can be called with.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "kernel_tiling/kernel_tiling.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"
#include "twin/adv/topk_space.h"
#include "twin/device/where.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(TopkTiling)
TWIN_TOPK_TILING(TILING_DATA_FIELD_DEF)
END_TILING_DATA_DEF;

}  // namespace optiling

namespace AscendC {

// `inner`: length of a row, a multiple of 32; `outter`: rows. `dataTypeSize` in bytes: 2 or 4.
TWIN_API bool GetTopKMaxMinTmpSize(const platform_ascendc::PlatformAscendC& ascendcPlatform,
                                   const int32_t inner, const int32_t outter,
                                   const bool isReuseSource, const bool isInitIndex,
                                   enum TopKMode mode, const bool isLargest,
                                   const uint32_t dataTypeSize, uint32_t& maxValue,
                                   uint32_t& minValue);
TWIN_API bool TopKTilingFunc(const platform_ascendc::PlatformAscendC& ascendcPlatform,
                             const int32_t inner, const int32_t outter, const int32_t k,
                             const uint32_t dataTypeSize, const bool isInitIndex,
                             enum TopKMode mode, const bool isLargest,
                             optiling::TopkTiling& topKTiling);
TWIN_API bool TopKTilingFunc(const platform_ascendc::PlatformAscendC& ascendcPlatform,
                             const int32_t inner, const int32_t outter, const int32_t k,
                             const uint32_t dataTypeSize, const bool isInitIndex,
                             enum TopKMode mode, const bool isLargest,
                             tiling::TopkTiling& topKTiling);

}  // namespace AscendC

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
