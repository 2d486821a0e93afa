// Tiling data of the high-level APIs, as host and kernel share it: structs here, and on the host
// also classes of macro-style tiling data.
#pragma once

#include <cstdint>

// FIELD(type, name) for every member.
#define TWIN_SOFTMAX_TILING(FIELD) \
  FIELD(uint32_t, srcM)            \
  FIELD(uint32_t, srcK)            \
  FIELD(uint32_t, srcSize)         \
  FIELD(uint32_t, outMaxM)         \
  FIELD(uint32_t, outMaxK)         \
  FIELD(uint32_t, outMaxSize)      \
  FIELD(uint32_t, splitM)          \
  FIELD(uint32_t, splitK)          \
  FIELD(uint32_t, splitSize)       \
  FIELD(uint32_t, reduceM)         \
  FIELD(uint32_t, reduceK)         \
  FIELD(uint32_t, reduceSize)      \
  FIELD(uint32_t, rangeM)          \
  FIELD(uint32_t, tailM)           \
  FIELD(uint32_t, tailSplitSize)   \
  FIELD(uint32_t, tailReduceSize)

#define TWIN_TOPK_TILING(FIELD)             \
  FIELD(int32_t, tmpLocalSize)              \
  FIELD(int32_t, allDataSize)               \
  FIELD(int32_t, innerDataSize)             \
  FIELD(uint32_t, sortRepeat)               \
  FIELD(int32_t, mrgSortRepeat)             \
  FIELD(int32_t, kAlignFourBytes)           \
  FIELD(int32_t, kAlignTwoBytes)            \
  FIELD(int32_t, maskOffset)                \
  FIELD(int32_t, maskVreducev2FourBytes)    \
  FIELD(int32_t, maskVreducev2TwoBytes)     \
  FIELD(int32_t, mrgSortSrc1offset)         \
  FIELD(int32_t, mrgSortSrc2offset)         \
  FIELD(int32_t, mrgSortSrc3offset)         \
  FIELD(int32_t, mrgSortTwoQueueSrc1Offset) \
  FIELD(int32_t, mrgFourQueueTailPara1)     \
  FIELD(int32_t, mrgFourQueueTailPara2)     \
  FIELD(int32_t, srcIndexOffset)            \
  FIELD(uint32_t, copyUbToUbBlockCount)     \
  FIELD(int32_t, topkMrgSrc1MaskSizeOffset) \
  FIELD(int32_t, topkNSmallSrcIndexOffset)  \
  FIELD(uint32_t, vreduceValMask0)          \
  FIELD(uint32_t, vreduceValMask1)          \
  FIELD(uint32_t, vreduceIdxMask0)          \
  FIELD(uint32_t, vreduceIdxMask1)          \
  FIELD(uint16_t, vreducehalfValMask0)      \
  FIELD(uint16_t, vreducehalfValMask1)      \
  FIELD(uint16_t, vreducehalfValMask2)      \
  FIELD(uint16_t, vreducehalfValMask3)      \
  FIELD(uint16_t, vreducehalfValMask4)      \
  FIELD(uint16_t, vreducehalfValMask5)      \
  FIELD(uint16_t, vreducehalfValMask6)      \
  FIELD(uint16_t, vreducehalfValMask7)

#define TWIN_CONFUSION_TRANSPOSE_TILING(FIELD) \
  FIELD(uint32_t, param0)                      \
  FIELD(uint32_t, param1)                      \
  FIELD(uint32_t, param2)                      \
  FIELD(uint32_t, param3)                      \
  FIELD(uint32_t, param4)                      \
  FIELD(uint32_t, param5)                      \
  FIELD(uint32_t, param6)                      \
  FIELD(uint32_t, param7)                      \
  FIELD(uint32_t, param8)                      \
  FIELD(uint32_t, param9)                      \
  FIELD(uint32_t, param10)                     \
  FIELD(uint32_t, param11)                     \
  FIELD(uint32_t, param12)                     \
  FIELD(uint32_t, param13)                     \
  FIELD(uint32_t, param14)                     \
  FIELD(uint32_t, param15)                     \
  FIELD(uint32_t, param16)                     \
  FIELD(uint32_t, param17)

#define TWIN_CUBE_TILING(FIELD)   \
  FIELD(int32_t, usedCoreNum)     \
  FIELD(int32_t, M)               \
  FIELD(int32_t, N)               \
  FIELD(int32_t, Ka)              \
  FIELD(int32_t, Kb)              \
  FIELD(int32_t, singleCoreM)     \
  FIELD(int32_t, singleCoreN)     \
  FIELD(int32_t, singleCoreK)     \
  FIELD(int32_t, baseM)           \
  FIELD(int32_t, baseN)           \
  FIELD(int32_t, baseK)           \
  FIELD(int32_t, depthA1)         \
  FIELD(int32_t, depthB1)         \
  FIELD(int32_t, stepM)           \
  FIELD(int32_t, stepN)           \
  FIELD(int32_t, isBias)          \
  FIELD(int32_t, transLength)     \
  FIELD(int32_t, iterateOrder)    \
  FIELD(int32_t, shareMode)       \
  FIELD(int32_t, shareL1Size)     \
  FIELD(int32_t, shareL0CSize)    \
  FIELD(int32_t, shareUbSize)     \
  FIELD(int32_t, batchM)          \
  FIELD(int32_t, batchN)          \
  FIELD(int32_t, singleBatchM)    \
  FIELD(int32_t, singleBatchN)    \
  FIELD(int32_t, stepKa)          \
  FIELD(int32_t, stepKb)          \
  FIELD(int32_t, depthAL1CacheUB) \
  FIELD(int32_t, depthBL1CacheUB) \
  FIELD(int32_t, dbL0A)           \
  FIELD(int32_t, dbL0B)           \
  FIELD(int32_t, dbL0C)           \
  FIELD(int32_t, ALayoutInfoB)    \
  FIELD(int32_t, ALayoutInfoS)    \
  FIELD(int32_t, ALayoutInfoN)    \
  FIELD(int32_t, ALayoutInfoG)    \
  FIELD(int32_t, ALayoutInfoD)    \
  FIELD(int32_t, BLayoutInfoB)    \
  FIELD(int32_t, BLayoutInfoS)    \
  FIELD(int32_t, BLayoutInfoN)    \
  FIELD(int32_t, BLayoutInfoG)    \
  FIELD(int32_t, BLayoutInfoD)    \
  FIELD(int32_t, CLayoutInfoB)    \
  FIELD(int32_t, CLayoutInfoS1)   \
  FIELD(int32_t, CLayoutInfoN)    \
  FIELD(int32_t, CLayoutInfoG)    \
  FIELD(int32_t, CLayoutInfoS2)   \
  FIELD(int32_t, BatchNum)        \
  FIELD(int32_t, mxTypePara)

namespace AscendC {
namespace tiling {

#define TWIN_MEMBER(type, name) type name = 0;
struct SoftMaxTiling {
  TWIN_SOFTMAX_TILING(TWIN_MEMBER)
};
struct TopkTiling {
  TWIN_TOPK_TILING(TWIN_MEMBER)
};
struct ConfusionTransposeTiling {
  TWIN_CONFUSION_TRANSPOSE_TILING(TWIN_MEMBER)
};
struct TCubeTiling {
  TWIN_CUBE_TILING(TWIN_MEMBER)
};
#undef TWIN_MEMBER

}  // namespace tiling

using tiling::ConfusionTransposeTiling;
using tiling::SoftMaxTiling;
using tiling::TCubeTiling;
using tiling::TopkTiling;

}  // namespace AscendC

using AscendC::tiling::ConfusionTransposeTiling;
using AscendC::tiling::SoftMaxTiling;
using AscendC::tiling::TCubeTiling;
using AscendC::tiling::TopkTiling;
