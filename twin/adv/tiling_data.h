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

namespace AscendC {
namespace tiling {

#define TWIN_MEMBER(type, name) type name = 0;
struct SoftMaxTiling {
  TWIN_SOFTMAX_TILING(TWIN_MEMBER)
};
struct TopkTiling {
  TWIN_TOPK_TILING(TWIN_MEMBER)
};
#undef TWIN_MEMBER

}  // namespace tiling

using tiling::SoftMaxTiling;
using tiling::TopkTiling;

}  // namespace AscendC

using AscendC::tiling::SoftMaxTiling;
using AscendC::tiling::TopkTiling;
