// Host side of SoftMax, SimpleSoftMax, SoftmaxFlashV2 and SoftmaxGradFront: temporary space in
// bytes, and tiling. Shapes are those of the source, whose last axis is the columns; it fills whole
// blocks of 32 bytes. Sizes of data types are in bytes, 2 or 4. What makes no sense is logged and
// gives 0, or tiling that the kernel refuses.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "graph/tensor.h"
#include "kernel_tiling/kernel_tiling.h"
#include "register/tilingdata_base.h"
#include "twin/device/where.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(SoftMaxTiling)
TWIN_SOFTMAX_TILING(TILING_DATA_FIELD_DEF)
END_TILING_DATA_DEF;

}  // namespace optiling

namespace AscendC {

using TensorShape = ge::Shape;

// `dataTypeSize`: of the sums and maxima.
TWIN_API uint32_t GetSoftMaxMinTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                       const bool isReuseSource);
TWIN_API uint32_t GetSoftMaxMaxTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                       const bool isReuseSource);
TWIN_API void SoftMaxTilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                const uint32_t localWorkSpaceSize,
                                optiling::SoftMaxTiling& softmaxTiling);
TWIN_API void SoftMaxTilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                const uint32_t localWorkSpaceSize,
                                tiling::SoftMaxTiling& softmaxTiling);

// `dataTypeSize1`: of the data, `dataTypeSize2`: of the sums and maxima. isFlashOutputBrc: these
// are not broadcast to blocks, (m, 1).
TWIN_API uint32_t GetSoftMaxFlashV2MinTmpSize(const TensorShape& srcShape,
                                              const uint32_t dataTypeSize1,
                                              const uint32_t dataTypeSize2, const bool isUpdate,
                                              const bool isBasicBlock = false,
                                              const bool isFlashOutputBrc = false);
TWIN_API uint32_t GetSoftMaxFlashV2MaxTmpSize(const TensorShape& srcShape,
                                              const uint32_t dataTypeSize1,
                                              const uint32_t dataTypeSize2, const bool isUpdate,
                                              const bool isBasicBlock = false,
                                              const bool isFlashOutputBrc = false);
TWIN_API void SoftMaxFlashV2TilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize1,
                                       const uint32_t dataTypeSize2,
                                       const uint32_t localWorkSpaceSize,
                                       optiling::SoftMaxTiling& softmaxFlashTiling,
                                       const bool isUpdate, const bool isBasicBlock = false,
                                       const bool isFlashOutputBrc = false);
TWIN_API void SoftMaxFlashV2TilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize1,
                                       const uint32_t dataTypeSize2,
                                       const uint32_t localWorkSpaceSize,
                                       tiling::SoftMaxTiling& softmaxFlashTiling,
                                       const bool isUpdate, const bool isBasicBlock = false,
                                       const bool isFlashOutputBrc = false);

// `dataTypeSize`: of the data. isFront: for SoftmaxGradFront.
TWIN_API uint32_t GetSoftMaxGradMinTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                           const bool isFront, const bool isReuseSource);
TWIN_API uint32_t GetSoftMaxGradMaxTmpSize(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                           const bool isFront, const bool isReuseSource);
TWIN_API void SoftMaxGradTilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                    const uint32_t localWorkSpaceSize,
                                    optiling::SoftMaxTiling& softmaxGradTiling,
                                    const bool isFront = false);
TWIN_API void SoftMaxGradTilingFunc(const TensorShape& srcShape, const uint32_t dataTypeSize,
                                    const uint32_t localWorkSpaceSize,
                                    tiling::SoftMaxTiling& softmaxGradTiling,
                                    const bool isFront = false);

// Whether kernels may be told isBasicBlock. `dataTypeSize`: of the data.
TWIN_API bool IsBasicBlockInSoftMax(optiling::SoftMaxTiling& tiling,
                                    const uint32_t dataTypeSize = 2);
TWIN_API bool IsBasicBlockInSoftMax(tiling::SoftMaxTiling& tiling, const uint32_t dataTypeSize = 2);

}  // namespace AscendC

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
