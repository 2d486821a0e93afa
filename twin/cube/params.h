// Parameters of the cube APIs, with CANN's names, types and defaults. A Narrow field behaves as the
// integer that CANN has, and keeps what did not fit for the check.
#pragma once

#include <cstdint>

#include "twin/vector/params.h"

enum QuantMode_t {
  NoQuant,
  F322F16,       // float to half, nearest even
  F322BF16,      // float to bfloat16_t, nearest even
  DEQF16,        // int32_t to half, one factor
  VDEQF16,       // int32_t to half, one factor a column
  QF322B8_PRE,   // float to 8 bits, one factor
  VQF322B8_PRE,  // float to 8 bits, one factor a column
  REQ8,          // int32_t to 8 bits, one factor
  VREQ8,         // int32_t to 8 bits, one factor a column
};

namespace AscendC {

struct Nd2NzParams {
  Nd2NzParams() {}
  Nd2NzParams(const Narrow16 ndNumIn, const Narrow16 nValueIn, const Narrow16 dValueIn,
              const Narrow16 srcNdMatrixStrideIn, const Narrow16 srcDValueIn,
              const Narrow16 dstNzC0StrideIn, const Narrow16 dstNzNStrideIn,
              const Narrow16 dstNzMatrixStrideIn)
      : ndNum(ndNumIn),
        nValue(nValueIn),
        dValue(dValueIn),
        srcNdMatrixStride(srcNdMatrixStrideIn),
        srcDValue(srcDValueIn),
        dstNzC0Stride(dstNzC0StrideIn),
        dstNzNStride(dstNzNStrideIn),
        dstNzMatrixStride(dstNzMatrixStrideIn) {}

  Narrow16 ndNum = 0;              // matrices
  Narrow16 nValue = 0;             // rows
  Narrow16 dValue = 0;             // columns
  Narrow16 srcNdMatrixStride = 0;  // elements between matrices
  Narrow16 srcDValue = 0;          // elements between rows
  Narrow16 dstNzC0Stride = 0;      // blocks of 32 bytes between column blocks
  Narrow16 dstNzNStride = 0;       // blocks of 32 bytes between rows
  Narrow16 dstNzMatrixStride = 0;  // elements between matrices
};

// Strides count fractals of 512 bytes.
struct LoadData2DParams {
  LoadData2DParams() {}
  LoadData2DParams(const Narrow16 startIndexIn, const Narrow8 repeatTimesIn,
                   const Narrow16 srcStrideIn, const Narrow8 sidIn, const Narrow16 dstGapIn,
                   const bool ifTransposeIn, const Narrow8 addrModeIn)
      : startIndex(startIndexIn),
        dstGap(dstGapIn),
        srcStride(srcStrideIn),
        ifTranspose(ifTransposeIn),
        repeatTimes(repeatTimesIn),
        sid(sidIn),
        addrMode(addrModeIn) {}

  Narrow16 startIndex = 0;
  Narrow16 dstGap = 0;
  Narrow16 srcStride = 0;
  bool ifTranspose = false;
  Narrow8 repeatTimes = 0;
  Narrow8 sid = 0;
  Narrow8 addrMode = 0;
};
using LoadData2dParams = LoadData2DParams;

// Source strides count squares (16 x 16, of 8-bit types 32 x 32), gaps fractals of 512 bytes.
struct LoadData2dTransposeParams {
  LoadData2dTransposeParams() {}
  LoadData2dTransposeParams(const Narrow16 startIndexIn, const Narrow8 repeatTimesIn,
                            const Narrow16 srcStrideIn, const Narrow16 dstGapIn,
                            const Narrow16 dstfracGapIn, const Narrow8 addrModeIn = 0)
      : startIndex(startIndexIn),
        repeatTimes(repeatTimesIn),
        srcStride(srcStrideIn),
        dstGap(dstGapIn),
        dstFracGap(dstfracGapIn),
        addrMode(addrModeIn) {}

  Narrow16 startIndex = 0;
  Narrow8 repeatTimes = 0;
  Narrow16 srcStride = 0;
  Narrow16 dstGap = 0;
  Narrow16 dstFracGap = 0;
  Narrow8 addrMode = 0;
};

constexpr uint32_t PAD_SIZE = 4;

template <typename T>
struct LoadData3DParamsV2 {
  LoadData3DParamsV2() {}
  LoadData3DParamsV2(const uint8_t padListIn[PAD_SIZE], const Narrow16 l1HIn, const Narrow16 l1WIn,
                     const Narrow16 channelSizeIn, const Narrow16 kExtensionIn,
                     const Narrow16 mExtensionIn, const Narrow16 kStartPtIn,
                     const Narrow16 mStartPtIn, const Narrow8 strideWIn, const Narrow8 strideHIn,
                     const Narrow8 filterWIn, const Narrow8 filterHIn,
                     const Narrow8 dilationFilterWIn, const Narrow8 dilationFilterHIn,
                     const bool enTransposeIn, const bool enSmallKIn, const T padValueIn,
                     const bool filterSizeWIn = false, const bool filterSizeHIn = false,
                     const bool fMatrixCtrlIn = false)
      : l1H(l1HIn),
        l1W(l1WIn),
        channelSize(channelSizeIn),
        kExtension(kExtensionIn),
        mExtension(mExtensionIn),
        kStartPt(kStartPtIn),
        mStartPt(mStartPtIn),
        strideW(strideWIn),
        strideH(strideHIn),
        filterW(filterWIn),
        filterH(filterHIn),
        dilationFilterW(dilationFilterWIn),
        dilationFilterH(dilationFilterHIn),
        enTranspose(enTransposeIn),
        enSmallK(enSmallKIn),
        padValue(padValueIn),
        filterSizeW(filterSizeWIn),
        filterSizeH(filterSizeHIn),
        fMatrixCtrl(fMatrixCtrlIn) {
    for (uint32_t i = 0; i < PAD_SIZE; ++i) padList[i] = padListIn[i];
  }

  uint8_t padList[PAD_SIZE] = {0, 0, 0, 0};  // left, right, top, bottom
  Narrow16 l1H = 0;
  Narrow16 l1W = 0;
  Narrow16 channelSize = 0;
  Narrow16 kExtension = 0;
  Narrow16 mExtension = 0;
  Narrow16 kStartPt = 0;
  Narrow16 mStartPt = 0;
  Narrow8 strideW = 1;
  Narrow8 strideH = 1;
  Narrow8 filterW = 1;
  Narrow8 filterH = 1;
  Narrow8 dilationFilterW = 1;
  Narrow8 dilationFilterH = 1;
  bool enTranspose = false;
  bool enSmallK = false;
  T padValue{};
  bool filterSizeW = false;
  bool filterSizeH = false;
  bool fMatrixCtrl = false;
};

// LoadData3DParamsV2 in words: extConfig has kExtension, mExtension, kStartPt and mStartPt in 16
// bits each from the lowest on, filterConfig strideW, strideH, filterW, filterH and the dilations
// of W and H in 8 bits each.
struct LoadData3DParamsV2Pro {
  LoadData3DParamsV2Pro() {}
  LoadData3DParamsV2Pro(const Narrow16 channelSizeIn, const bool enTransposeIn,
                        const bool enSmallKIn, const bool filterSizeWIn, const bool filterSizeHIn,
                        const bool fMatrixCtrlIn, const uint64_t extConfigIn,
                        const uint64_t filterConfigIn)
      : channelSize(channelSizeIn),
        enTranspose(enTransposeIn),
        enSmallK(enSmallKIn),
        filterSizeW(filterSizeWIn),
        filterSizeH(filterSizeHIn),
        fMatrixCtrl(fMatrixCtrlIn),
        extConfig(extConfigIn),
        filterConfig(filterConfigIn) {}

  Narrow16 channelSize = 0;
  bool enTranspose = false;
  bool enSmallK = false;
  bool filterSizeW = false;
  bool filterSizeH = false;
  bool fMatrixCtrl = false;
  uint64_t extConfig = 0;
  uint64_t filterConfig = 0x10101010101;
};

// Another architecture has these; kernels for several name them in branches that are left out here.
struct LoadData2DParamsV2 {
  LoadData2DParamsV2() {}
  LoadData2DParamsV2(const uint32_t mStartPositionIn, const uint32_t kStartPositionIn,
                     const Narrow16 mStepIn, const Narrow16 kStepIn, const int32_t srcStrideIn,
                     const Narrow16 dstStrideIn, const bool ifTransposeIn, const Narrow8 sidIn)
      : mStartPosition(mStartPositionIn),
        kStartPosition(kStartPositionIn),
        mStep(mStepIn),
        kStep(kStepIn),
        srcStride(srcStrideIn),
        dstStride(dstStrideIn),
        ifTranspose(ifTransposeIn),
        sid(sidIn) {}

  uint32_t mStartPosition = 0;
  uint32_t kStartPosition = 0;
  Narrow16 mStep = 0;
  Narrow16 kStep = 0;
  int32_t srcStride = 0;
  Narrow16 dstStride = 0;
  bool ifTranspose = false;
  Narrow8 sid = 0;
};

struct IsResetLoad3dConfig {
  constexpr IsResetLoad3dConfig(const bool isSetFMatrixIn, const bool isSetPaddingIn)
      : isSetFMatrix(isSetFMatrixIn), isSetPadding(isSetPaddingIn) {}
  bool isSetFMatrix = true;
  bool isSetPadding = true;
};
constexpr IsResetLoad3dConfig IS_RESER_LOAD3D_DEFAULT_CONFIG = {true, true};

enum class FmatrixMode : uint8_t { FMATRIX_LEFT = 0, FMATRIX_RIGHT = 1 };

struct LoadDataRepeatParam {
  LoadDataRepeatParam() {}
  LoadDataRepeatParam(const Narrow16 repeatStrideIn, const Narrow8 repeatTimeIn,
                      const Narrow8 repeatModeIn)
      : repeatStride(repeatStrideIn), repeatTime(repeatTimeIn), repeatMode(repeatModeIn) {}

  Narrow16 repeatStride = 0;  // 16 rows of the unfolded matrix, or one block of 32 bytes along K
  Narrow8 repeatTime = 1;
  Narrow8 repeatMode = 0;  // 0 along M, 1 along K
  uint8_t reserved = 0;
};

template <typename T>
struct InitConstValueParams {
  InitConstValueParams() {}
  InitConstValueParams(const Narrow16 repeatTimesIn, const Narrow16 blockNumIn,
                       const Narrow16 dstGapIn, const T initValueIn)
      : repeatTimes(repeatTimesIn),
        blockNum(blockNumIn),
        dstGap(dstGapIn),
        initValue(initValueIn) {}
  InitConstValueParams(const Narrow16 repeatTimesIn, const T initValueIn)
      : repeatTimes(repeatTimesIn), initValue(initValueIn) {}

  Narrow16 repeatTimes = 0;
  Narrow16 blockNum = 0;  // blocks of 32 bytes in L1, of 512 bytes in L0A and L0B
  Narrow16 dstGap = 0;    // the same blocks, from the end of a repeat to the next
  T initValue{};
};

struct MmadParams {
  MmadParams() {}
  MmadParams(const Narrow16 mIn, const Narrow16 nIn, const Narrow16 kIn, const bool isBiasIn,
             const int32_t fmOffsetIn, const bool enSsparseIn, const bool enWinogradAIn,
             const bool enWinogradBIn)
      : m(mIn),
        n(nIn),
        k(kIn),
        isBias(isBiasIn),
        fmOffset(fmOffsetIn),
        enSsparse(enSsparseIn),
        enWinogradA(enWinogradAIn),
        enWinogradB(enWinogradBIn) {}
  MmadParams(const Narrow16 mIn, const Narrow16 nIn, const Narrow16 kIn, const Narrow8 unitFlagIn,
             const bool cmatrixSourceIn, const bool cmatrixInitValIn)
      : m(mIn),
        n(nIn),
        k(kIn),
        unitFlag(unitFlagIn),
        cmatrixSource(cmatrixSourceIn),
        cmatrixInitVal(cmatrixInitValIn) {}

  Narrow16 m = 0;
  Narrow16 n = 0;
  Narrow16 k = 0;
  bool isBias = false;  // accumulate; cmatrixInitVal takes its place
  int32_t fmOffset = 0;
  bool enSsparse = false;
  bool enWinogradA = false;
  bool enWinogradB = false;
  Narrow8 unitFlag = 0;
  bool kDirectionAlign = false;
  bool cmatrixSource = false;  // start from the bias table instead of L0C
  bool cmatrixInitVal = true;  // start from zero
};

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };

struct FixpipeConfig {
  constexpr FixpipeConfig(CO2Layout format_) : format(format_) {}
  constexpr FixpipeConfig(CO2Layout format_, bool) : format(format_) {}
  CO2Layout format;
};
constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ};
constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};

struct FixpipeParamsV220 {
  FixpipeParamsV220() {}
  FixpipeParamsV220(const Narrow16 nSizeIn, const Narrow16 mSizeIn, const Narrow16 srcStrideIn,
                    const Narrow32 dstStrideIn, const bool reluEnIn)
      : nSize(nSizeIn),
        mSize(mSizeIn),
        srcStride(srcStrideIn),
        dstStride(dstStrideIn),
        reluEn(reluEnIn) {}
  FixpipeParamsV220(const Narrow16 nSizeIn, const Narrow16 mSizeIn, const Narrow16 srcStrideIn,
                    const Narrow32 dstStrideIn, const bool reluEnIn, const QuantMode_t quantPreIn,
                    const int64_t deqScalarIn, const Narrow16 ndNumIn, const Narrow16 srcNdStrideIn,
                    const Narrow16 dstNdStrideIn, const Narrow8 unitFlagIn,
                    const bool isChannelSplitIn = false)
      : nSize(nSizeIn),
        mSize(mSizeIn),
        srcStride(srcStrideIn),
        dstStride(dstStrideIn),
        quantPre(quantPreIn),
        deqScalar(static_cast<uint64_t>(deqScalarIn)),
        ndNum(ndNumIn),
        srcNdStride(srcNdStrideIn),
        dstNdStride(dstNdStrideIn),
        reluEn(reluEnIn),
        unitFlag(unitFlagIn),
        isChannelSplit(isChannelSplitIn) {}

  Narrow16 nSize = 0;
  Narrow16 mSize = 0;
  Narrow16 srcStride = 0;  // rows of 16 elements between column blocks of L0C
  Narrow32 dstStride =
      0;  // ND: elements between rows; NZ: blocks of 32 bytes between column blocks
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0xeeeeeeeeeeeeeeee;  // holds nothing until it is set
  Narrow16 ndNum = 1;
  Narrow16 srcNdStride = 0;  // fractals of 1024 bytes between matrices of L0C
  Narrow16 dstNdStride = 0;  // elements between matrices
  bool reluEn = false;
  Narrow8 unitFlag = 0;
  bool isChannelSplit = false;
};

struct QuantParams {
  QuantParams() {}
  QuantParams(const QuantMode_t quantPreIn) : quantPre(quantPreIn) {}
  QuantParams(const QuantMode_t quantPreIn, const uint64_t deqScalarIn)
      : quantPre(quantPreIn), deqScalar(deqScalarIn) {}

  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0xeeeeeeeeeeeeeeee;  // holds nothing until it is set
};

struct Nz2NdParams {
  Nz2NdParams() {}
  Nz2NdParams(const bool nz2ndEnIn, const Narrow16 ndNumIn, const Narrow16 srcNdStrideIn,
              const Narrow16 dstNdStrideIn, const Narrow16 originalNSizeIn)
      : nz2ndEn(nz2ndEnIn),
        ndNum(ndNumIn),
        srcNdStride(srcNdStrideIn),
        dstNdStride(dstNdStrideIn),
        originalNSize(originalNSizeIn) {}

  bool nz2ndEn = false;
  Narrow16 ndNum = 1;
  Narrow16 srcNdStride = 0;
  Narrow16 dstNdStride = 0;
  Narrow16 originalNSize = 0;  // columns, with nz2ndEn
};

// The older parameters of Fixpipe, in bursts: column blocks of 16 of the result in L0C.
template <typename T = int32_t>
struct FixpipeParams {
  FixpipeParams() {}
  FixpipeParams(const Narrow16 count, const Narrow16 len, const Narrow16 srcStrideIn,
                const Narrow32 dstStrideIn)
      : cburstNum(count), burstLen(len), dstStride(dstStrideIn), srcStride(srcStrideIn) {}

  Narrow16 cburstNum = 1;  // column blocks
  Narrow16 burstLen = 1;   // blocks of 32 bytes of a column block: two for each row of 4-byte data
  Narrow32 dstStride = 0;  // NZ: gap in blocks of 32 bytes; ND: elements between rows
  Narrow16 srcStride = 0;  // gap in fractals of 16 x 16
  QuantParams quantParams;
  bool reluEn = false;
  Nz2NdParams nz2ndParams;
  Narrow8 unitFlag = 0;
};

struct DataCopyCO12DstParams {
  DataCopyCO12DstParams() {}
  DataCopyCO12DstParams(const Narrow16 nSizeIn, const Narrow16 mSizeIn, const Narrow32 dstStrideIn,
                        const Narrow16 srcStrideIn, const QuantMode_t quantPreIn,
                        const Narrow8 reluPreIn, const bool channelSplitIn, const bool nz2ndEnIn)
      : nSize(nSizeIn),
        mSize(mSizeIn),
        dstStride(dstStrideIn),
        srcStride(srcStrideIn),
        quantPre(quantPreIn),
        reluPre(reluPreIn),
        channelSplit(channelSplitIn),
        nz2ndEn(nz2ndEnIn) {}

  Narrow8 sid = 0;
  Narrow16 nSize = 0;
  Narrow16 mSize = 0;
  Narrow32 dstStride = 0;
  Narrow16 srcStride = 0;
  Narrow8 unitFlag = 0;
  Narrow8 clipReluPre = 0;
  Narrow8 eltWiseOp = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  Narrow8 reluPre = 0;
  bool channelSplit = false;
  bool nz2ndEn = false;
};

enum class HF32Mode { ENABLE, DISABLE };
enum class HF32TransMode { NEAREST_ZERO, NEAREST_EVEN };

}  // namespace AscendC
