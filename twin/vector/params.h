// Enumerations and stride parameters of the vector APIs, with CANN's names, types and defaults.
#pragma once

#include <cstdint>

#include "twin/device/narrowed.h"

namespace AscendC {

constexpr uint64_t MASK_PLACEHOLDER = 0;
constexpr uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};

enum class MaskMode : uint8_t { NORMAL = 0, COUNTER };

enum class RoundMode : uint8_t {
  CAST_NONE = 0,
  CAST_RINT,   // to nearest, ties to even
  CAST_FLOOR,  // down
  CAST_CEIL,   // up
  CAST_ROUND,  // to nearest, ties away from zero
  CAST_TRUNC,  // towards zero
  CAST_ODD,    // an inexact value becomes the neighbour whose last bit is 1
};

enum class CMPMODE : uint8_t { LT = 0, GT, EQ, LE, GE, NE };

enum class SELMODE : uint8_t {
  VSEL_CMPMASK_SPR = 0,
  VSEL_TENSOR_SCALAR_MODE,
  VSEL_TENSOR_TENSOR_MODE,
};

enum class ReduceType : uint8_t { SUM = 0, MAX, MIN };

enum class ReduceOrder : uint8_t {
  ORDER_VALUE_INDEX = 0,
  ORDER_INDEX_VALUE,
  ORDER_ONLY_VALUE,
  ORDER_ONLY_INDEX,
};

enum class GatherMaskMode : uint8_t { VERSION_V1 = 0, VERSION_V2 = 1 };
constexpr GatherMaskMode defaultGatherMaskMode = GatherMaskMode::VERSION_V1;

enum class TransposeType : uint8_t {
  TRANSPOSE_TYPE_NONE,
  TRANSPOSE_NZ2ND_0213,
  TRANSPOSE_NZ2NZ_0213,
  TRANSPOSE_NZ2NZ_012_WITH_N,
  TRANSPOSE_NZ2ND_012_WITH_N,
  TRANSPOSE_NZ2ND_012_WITHOUT_N,
  TRANSPOSE_NZ2NZ_012_WITHOUT_N,
  TRANSPOSE_ND2ND_ONLY,
  TRANSPOSE_ND_UB_GM,
  TRANSPOSE_GRAD_ND_UB_GM,
  TRANSPOSE_ND2ND_B16,
  TRANSPOSE_NCHW2NHWC,
  TRANSPOSE_NHWC2NCHW,
};

// Strides count data blocks of 32 bytes: *BlkStride between the eight blocks of a repeat,
// *RepStride between repeats.
constexpr uint8_t DEFAULT_BLK_NUM = 8;
constexpr uint8_t DEFAULT_BLK_STRIDE = 1;
constexpr uint8_t DEFAULT_REPEAT_STRIDE = 8;

struct BinaryRepeatParams {
  BinaryRepeatParams() {}
  BinaryRepeatParams(std::initializer_list<uint8_t> list)
      : BinaryRepeatParams(twin::Braces<uint8_t>(list, 6, 6)) {}
  explicit BinaryRepeatParams(const twin::Braces<uint8_t>& b)
      : BinaryRepeatParams(b[0], b[1], b[2], b[3], b[4], b[5]) {}
  BinaryRepeatParams(const Narrow8 dstBlkStrideIn, const Narrow8 src0BlkStrideIn,
                     const Narrow8 src1BlkStrideIn, const Narrow8 dstRepStrideIn,
                     const Narrow8 src0RepStrideIn, const Narrow8 src1RepStrideIn)
      : dstBlkStride(dstBlkStrideIn),
        src0BlkStride(src0BlkStrideIn),
        src1BlkStride(src1BlkStrideIn),
        dstRepStride(dstRepStrideIn),
        src0RepStride(src0RepStrideIn),
        src1RepStride(src1RepStrideIn) {}

  uint32_t blockNumber = DEFAULT_BLK_NUM;
  Narrow8 dstBlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 src0BlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 src1BlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 dstRepStride = DEFAULT_REPEAT_STRIDE;
  Narrow8 src0RepStride = DEFAULT_REPEAT_STRIDE;
  Narrow8 src1RepStride = DEFAULT_REPEAT_STRIDE;
  bool repeatStrideMode = false;
  bool strideSizeMode = false;
};

struct UnaryRepeatParams {
  UnaryRepeatParams() {}
  UnaryRepeatParams(std::initializer_list<uint16_t> list)
      : UnaryRepeatParams(twin::Braces<uint16_t>(list, 4, 5)) {}
  explicit UnaryRepeatParams(const twin::Braces<uint16_t>& b)
      : UnaryRepeatParams(b[0], b[1], b[2], b[3], b[4] != 0) {}
  UnaryRepeatParams(const Narrow16 dstBlkStrideIn, const Narrow16 srcBlkStrideIn,
                    const Narrow8 dstRepStrideIn, const Narrow8 srcRepStrideIn)
      : dstBlkStride(dstBlkStrideIn),
        srcBlkStride(srcBlkStrideIn),
        dstRepStride(dstRepStrideIn),
        srcRepStride(srcRepStrideIn) {}
  UnaryRepeatParams(const Narrow16 dstBlkStrideIn, const Narrow16 srcBlkStrideIn,
                    const Narrow8 dstRepStrideIn, const Narrow8 srcRepStrideIn,
                    const bool halfBlockIn)
      : UnaryRepeatParams(dstBlkStrideIn, srcBlkStrideIn, dstRepStrideIn, srcRepStrideIn) {
    halfBlock = halfBlockIn;
  }

  uint32_t blockNumber = DEFAULT_BLK_NUM;
  Narrow16 dstBlkStride = DEFAULT_BLK_STRIDE;
  Narrow16 srcBlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 dstRepStride = DEFAULT_REPEAT_STRIDE;
  Narrow8 srcRepStride = DEFAULT_REPEAT_STRIDE;
  bool repeatStrideMode = false;
  bool strideSizeMode = false;
  bool halfBlock = false;
};

struct CopyRepeatParams {
  CopyRepeatParams() {}
  CopyRepeatParams(std::initializer_list<uint16_t> list)
      : CopyRepeatParams(twin::Braces<uint16_t>(list, 4, 4)) {}
  explicit CopyRepeatParams(const twin::Braces<uint16_t>& b)
      : CopyRepeatParams(b[0], b[1], b[2], b[3]) {}
  CopyRepeatParams(const Narrow16 dstStrideIn, const Narrow16 srcStrideIn,
                   const Narrow16 dstRepeatSizeIn, const Narrow16 srcRepeatSizeIn)
      : dstStride(dstStrideIn),
        srcStride(srcStrideIn),
        dstRepeatSize(dstRepeatSizeIn),
        srcRepeatSize(srcRepeatSizeIn) {}

  Narrow16 dstStride = 0;
  Narrow16 srcStride = 0;
  Narrow16 dstRepeatSize = DEFAULT_REPEAT_STRIDE;
  Narrow16 srcRepeatSize = DEFAULT_REPEAT_STRIDE;
};

struct BrcbRepeatParams {
  BrcbRepeatParams() {}
  BrcbRepeatParams(std::initializer_list<uint16_t> list)
      : BrcbRepeatParams(twin::Braces<uint16_t>(list, 2, 2)) {}
  explicit BrcbRepeatParams(const twin::Braces<uint16_t>& b) : BrcbRepeatParams(b[0], b[1]) {}
  BrcbRepeatParams(const Narrow16 dstBlkStrideIn, const Narrow16 dstRepStrideIn)
      : dstRepStride(dstRepStrideIn), dstBlkStride(dstBlkStrideIn) {}

  uint32_t blockNumber = DEFAULT_BLK_NUM;
  Narrow16 dstRepStride = DEFAULT_REPEAT_STRIDE;
  Narrow16 dstBlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 src0BlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 src1BlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 src0RepStride = DEFAULT_REPEAT_STRIDE;
  Narrow8 src1RepStride = DEFAULT_REPEAT_STRIDE;
  bool repeatStrideMode = false;
  bool strideSizeMode = false;
};

struct GatherRepeatParams {
  GatherRepeatParams() {}
  GatherRepeatParams(const Narrow8 dstBlkStrideIn, const Narrow8 dstRepStrideIn)
      : dstRepStride(dstRepStrideIn), dstBlkStride(dstBlkStrideIn) {}

  uint32_t blockNumber = DEFAULT_BLK_NUM;
  Narrow16 dstRepStride = DEFAULT_REPEAT_STRIDE;
  Narrow8 dstBlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 src0BlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 src1BlkStride = DEFAULT_BLK_STRIDE;
  Narrow8 src0RepStride = DEFAULT_REPEAT_STRIDE;
  Narrow8 src1RepStride = DEFAULT_REPEAT_STRIDE;
  bool repeatStrideMode = false;
  bool strideSizeMode = false;
};

struct GatherMaskParams {
  GatherMaskParams() {}
  GatherMaskParams(const Narrow8 src0BlockStrideIn, const Narrow16 repeatTimesIn,
                   const Narrow16 src0RepeatStrideIn, const Narrow8 src1RepeatStrideIn)
      : src0BlockStride(src0BlockStrideIn),
        repeatTimes(repeatTimesIn),
        src0RepeatStride(src0RepeatStrideIn),
        src1RepeatStride(src1RepeatStrideIn) {}

  Narrow8 src0BlockStride = DEFAULT_BLK_STRIDE;
  Narrow16 repeatTimes = 0;
  Narrow16 src0RepeatStride = DEFAULT_REPEAT_STRIDE;
  Narrow8 src1RepeatStride = DEFAULT_REPEAT_STRIDE;
};

struct TransDataTo5HDParams {
  constexpr TransDataTo5HDParams() = default;
  constexpr TransDataTo5HDParams(const bool dstHighHalfIn, const bool srcHighHalfIn,
                                 const Narrow8 repeatTimesIn, const Narrow16 dstRepStrideIn,
                                 const Narrow16 srcRepStrideIn)
      : dstHighHalf(dstHighHalfIn),
        srcHighHalf(srcHighHalfIn),
        repeatTimes(repeatTimesIn),
        dstRepStride(dstRepStrideIn),
        srcRepStride(srcRepStrideIn) {}

  bool dstHighHalf = false;
  bool srcHighHalf = false;
  Narrow8 repeatTimes = 1;
  Narrow16 dstRepStride = 0;
  Narrow16 srcRepStride = 0;
};

struct TransposeParamsExt {
  constexpr TransposeParamsExt() = default;
  constexpr TransposeParamsExt(const uint16_t nSizeIn, const uint16_t cSizeIn,
                               const uint16_t hSizeIn, const uint16_t wSizeIn,
                               const TransposeType transposeTypeIn)
      : nSize(nSizeIn),
        cSize(cSizeIn),
        hSize(hSizeIn),
        wSize(wSizeIn),
        transposeType(transposeTypeIn) {}

  uint16_t nSize = 0;
  uint16_t cSize = 0;
  uint16_t hSize = 0;
  uint16_t wSize = 0;
  TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;
};

constexpr int MRG_SORT_ELEMENT_LEN = 4;
constexpr int NCHW_CONV_ADDR_LIST_SIZE = 16;

struct MrgSort4Info {
  MrgSort4Info() {}
  MrgSort4Info(const uint16_t elementLengthsIn[MRG_SORT_ELEMENT_LEN],
               const bool ifExhaustedSuspensionIn, const uint16_t validBitIn,
               const Narrow16 repeatTimesIn)
      : ifExhaustedSuspension(ifExhaustedSuspensionIn),
        validBit(validBitIn),
        repeatTimes(repeatTimesIn) {
    for (int i = 0; i < MRG_SORT_ELEMENT_LEN; ++i) elementLengths[i] = elementLengthsIn[i];
  }

  uint16_t elementLengths[MRG_SORT_ELEMENT_LEN] = {0};
  bool ifExhaustedSuspension = false;
  uint16_t validBit = 0;
  Narrow8 repeatTimes = 1;
};

}  // namespace AscendC
