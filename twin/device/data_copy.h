// DMA: DataCopy and DataCopyPad, atomic stores, the data cache.
#pragma once

#include <cstring>

#include "twin/device/core.h"
#include "twin/device/narrowed.h"
#include "twin/device/tensor.h"

enum class pad_t {
  PAD_NONE = 0,
  PAD_MODE1,
  PAD_MODE2,
  PAD_MODE3,
  PAD_MODE4,
  PAD_MODE5,
  PAD_MODE6,
  PAD_MODE7,
  PAD_MODE8,
};

namespace AscendC {

struct DataCopyParams {
  DataCopyParams() {}
  DataCopyParams(const Narrow16 count, const Narrow16 len, const Narrow16 srcStrideIn,
                 const Narrow16 dstStrideIn)
      : blockCount(count), blockLen(len), srcStride(srcStrideIn), dstStride(dstStrideIn) {}

  Narrow16 blockCount = 1;
  Narrow16 blockLen = 0;  // data blocks of 32 bytes, like the gaps
  union {
    Narrow16 srcGap = 0;
    Narrow16 srcStride;
  };
  union {
    Narrow16 dstGap = 0;
    Narrow16 dstStride;
  };
};

struct DataCopyPadParams {
  DataCopyPadParams() {}
  DataCopyPadParams(const bool isPadValue, const Narrow8 leftPadValue, const Narrow8 rightPadValue,
                    const uint64_t padValue)
      : isPad(isPadValue),
        leftPadding(leftPadValue),
        rightPadding(rightPadValue),
        paddingValue(padValue) {}

  bool isPad = false;
  Narrow8 leftPadding = 0;
  Narrow8 rightPadding = 0;
  uint64_t paddingValue = 0;
};

enum class BlockMode : uint8_t {
  BLOCK_MODE_NORMAL = 0,
  BLOCK_MODE_MATRIX,
  BLOCK_MODE_VECTOR,
  BLOCK_MODE_SMALL_CHANNEL,
  BLOCK_MODE_DEPTHWISE,
};

enum class DeqScale : uint8_t { DEQ_NONE = 0, DEQ, VDEQ, DEQ8, VDEQ8, DEQ16, VDEQ16 };

// Older architectures convert on the way from L0C by these; here a copy only copies.
struct DataCopyEnhancedParams {
  DataCopyEnhancedParams() {}
  DataCopyEnhancedParams(const BlockMode blockModeIn, const DeqScale deqScaleIn,
                         const uint64_t deqValueIn, const Narrow8 sidStoreModeIn,
                         const bool isReluIn, const pad_t padModeIn, const uint64_t padValueIn)
      : blockMode(blockModeIn),
        deqScale(deqScaleIn),
        deqValue(deqValueIn),
        sidStoreMode(sidStoreModeIn),
        isRelu(isReluIn),
        padMode(padModeIn),
        padValue(padValueIn) {}

  BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
  DeqScale deqScale = DeqScale::DEQ_NONE;
  uint64_t deqValue = 0;
  Narrow8 sidStoreMode = 0;
  bool isRelu = false;
  pad_t padMode = pad_t::PAD_NONE;
  uint64_t padValue = 0;
  uint64_t deqTensorAddr = 0;
};

struct DataCopyExtParams {
  DataCopyExtParams() {}
  DataCopyExtParams(const Narrow16 count, const Narrow32 len, const Narrow32 srcStrideIn,
                    const Narrow32 dstStrideIn, const uint32_t rsvIn)
      : blockCount(count),
        blockLen(len),
        srcStride(srcStrideIn),
        dstStride(dstStrideIn),
        rsv(rsvIn) {}

  Narrow16 blockCount = 1;
  Narrow32 blockLen = 0;   // bytes
  Narrow32 srcStride = 0;  // from end to start: bytes in GM, data blocks in UB
  Narrow32 dstStride = 0;
  uint32_t rsv = 0;
};

template <typename T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() {}
  DataCopyPadExtParams(const bool isPadValue, const Narrow8 leftPadValue,
                       const Narrow8 rightPadValue, T padValue)
      : isPad(isPadValue),
        leftPadding(leftPadValue),
        rightPadding(rightPadValue),
        paddingValue(padValue) {}

  bool isPad = false;
  Narrow8 leftPadding = 0;  // elements
  Narrow8 rightPadding = 0;
  T paddingValue{};
};

enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

}  // namespace AscendC

namespace twin {

struct PadSpec {
  bool pad;
  int64_t left;  // elements
  int64_t right;
  uint64_t value;  // bits of one element
};

// The blocks of DataCopyPad in either of its structures.
struct PadBlocks {
  PadBlocks(const AscendC::DataCopyExtParams& p)
      : count(twin::Wide(p.blockCount)),
        length(twin::Wide(p.blockLen)),
        src_stride(twin::Wide(p.srcStride)),
        dst_stride(twin::Wide(p.dstStride)),
        most_length(2097151),
        most_stride(0xffffffff) {}
  PadBlocks(const AscendC::DataCopyParams& p)
      : count(twin::Wide(p.blockCount)),
        length(twin::Wide(p.blockLen)),
        src_stride(twin::Wide(p.srcStride)),
        dst_stride(twin::Wide(p.dstStride)),
        most_length(0xffff),
        most_stride(0xffff) {}

  int64_t count, length, src_stride, dst_stride;
  int64_t most_length, most_stride;
};

TWIN_API void CheckBlocks(const Instr& instr, const AscendC::DataCopyParams& params);
TWIN_API void CopyCount(const Operand& dst, const Operand& src, uint32_t count, const Where& where);
TWIN_API void CopyBlocks(const Operand& dst, const Operand& src,
                         const AscendC::DataCopyParams& params, const Where& where);
// From L1 to the bias table or the fixpipe buffer, whose units `params` counts.
// Fails for a conversion, a ReLU or padding on the way, which this architecture does in Fixpipe.
TWIN_API void CheckPlainCopy(const AscendC::DataCopyEnhancedParams& params, const Where& where);
TWIN_API void CopyToTable(const Operand& dst, const Operand& src,
                          const AscendC::DataCopyParams& params, const Where& where);
// Fails for a conversion, a ReLU or padding on the way, which this architecture does in Fixpipe.
TWIN_API void CheckPlainCopy(const AscendC::DataCopyEnhancedParams& params, const Where& where);
TWIN_API void CopyToTable(const Operand& dst, const Operand& src, uint32_t count,
                          const Where& where);
TWIN_API void CopyPadIn(const Operand& dst, const Operand& src, const PadBlocks& blocks,
                        const PadSpec& pad, const Where& where);
TWIN_API void CopyPadOut(const char* name, const Operand& dst, const Operand& src,
                         const PadBlocks& blocks, const Where& where);
// Stores `rows` of operand `operand`, which is in GM, combining where atomic stores are on.
TWIN_API void StoreGlobal(Instr* instr, int operand, const Rows& rows, const uint8_t* src,
                          uint64_t src_pitch);
TWIN_API void SetPadValueBits(uint64_t bits, const Where& where);
TWIN_API void SetAtomic(AtomicOperation operation, const char* dtype, const Where& where);
TWIN_API void SetAtomicDtype(const char* dtype, const Where& where);
TWIN_API void CleanCache(const Operand& tensor, bool entire, const Where& where);

template <typename T>
uint64_t BitsOf(const T& value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

}  // namespace twin

#define TWIN_DMA_TYPES                                                                     \
  int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, \
      uint64_t, double
#define TWIN_ATOMIC_TYPES int8_t, int16_t, half, bfloat16_t, int32_t, float

namespace AscendC {

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const uint32_t count,
              twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopy", T, TWIN_DMA_TYPES);
  twin::CopyCount({"dst", dst}, {"src", src}, count, where);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
              twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopy", T, TWIN_DMA_TYPES);
  twin::CopyCount({"dst", dst}, {"src", src}, count, where);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count,
              twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopy", T, TWIN_DMA_TYPES);
  twin::CopyCount({"dst", dst}, {"src", src}, count, where);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
              const DataCopyParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopy", T, TWIN_DMA_TYPES);
  twin::CopyBlocks({"dst", dst}, {"src", src}, repeatParams, where);
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
              const DataCopyParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopy", T, TWIN_DMA_TYPES);
  twin::CopyBlocks({"dst", dst}, {"src", src}, repeatParams, where);
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src,
              const DataCopyParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopy", T, TWIN_DMA_TYPES);
  twin::CopyBlocks({"dst", dst}, {"src", src}, repeatParams, where);
}

#define TWIN_ENHANCED_COPY(Dst, Src)                                                              \
  template <typename T>                                                                           \
  void DataCopy(const Dst<T>& dst, const Src<T>& src, const DataCopyParams& intriParams,          \
                const DataCopyEnhancedParams& enhancedParams, twin::Where where = twin::Here()) { \
    twin::CheckPlainCopy(enhancedParams, where);                                                  \
    DataCopy(dst, src, intriParams, where);                                                       \
  }
TWIN_ENHANCED_COPY(LocalTensor, GlobalTensor)
TWIN_ENHANCED_COPY(GlobalTensor, LocalTensor)
TWIN_ENHANCED_COPY(LocalTensor, LocalTensor)
#undef TWIN_ENHANCED_COPY

template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                 const DataCopyExtParams& dataCopyParams, const DataCopyPadExtParams<T>& padParams,
                 twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopyPad", T, TWIN_DMA_TYPES);
  twin::CopyPadIn({"dst", dst}, {"src", src}, dataCopyParams,
                  {padParams.isPad, twin::Wide(padParams.leftPadding),
                   twin::Wide(padParams.rightPadding), twin::BitsOf(padParams.paddingValue)},
                  where);
}
template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                 const DataCopyParams& dataCopyParams, const DataCopyPadParams& padParams,
                 twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopyPad", T, TWIN_DMA_TYPES);
  twin::CopyPadIn({"dst", dst}, {"src", src}, dataCopyParams,
                  {padParams.isPad, twin::Wide(padParams.leftPadding),
                   twin::Wide(padParams.rightPadding), padParams.paddingValue},
                  where);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                 const DataCopyExtParams& dataCopyParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopyPad", T, TWIN_DMA_TYPES);
  twin::CopyPadOut("DataCopyPad", {"dst", dst}, {"src", src}, dataCopyParams, where);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                 const DataCopyParams& dataCopyParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("DataCopyPad", T, TWIN_DMA_TYPES);
  twin::CopyPadOut("DataCopyPad", {"dst", dst}, {"src", src}, dataCopyParams, where);
}

// Fills what DataCopyPad adds when its isPad is off.
template <typename T, TPosition pos = TPosition::MAX>
void SetPadValue(T paddingValue, twin::Where where = twin::Here()) {
  TWIN_DTYPES("SetPadValue", T, TWIN_DMA_TYPES);
  twin::SetPadValueBits(twin::BitsOf(paddingValue), where);
}

template <typename T>
void SetAtomicAdd(twin::Where where = twin::Here()) {
  TWIN_DTYPES("SetAtomicAdd", T, TWIN_ATOMIC_TYPES);
  twin::SetAtomic(twin::kAtomicAdd, twin::TypeName<T>(), where);
}
template <typename T>
void SetAtomicMax(twin::Where where = twin::Here()) {
  TWIN_DTYPES("SetAtomicMax", T, TWIN_ATOMIC_TYPES);
  twin::SetAtomic(twin::kAtomicMax, twin::TypeName<T>(), where);
}
template <typename T>
void SetAtomicMin(twin::Where where = twin::Here()) {
  TWIN_DTYPES("SetAtomicMin", T, TWIN_ATOMIC_TYPES);
  twin::SetAtomic(twin::kAtomicMin, twin::TypeName<T>(), where);
}
template <typename T>
void SetAtomicType(twin::Where where = twin::Here()) {
  TWIN_DTYPES("SetAtomicType", T, TWIN_ATOMIC_TYPES);
  twin::SetAtomicDtype(twin::TypeName<T>(), where);
}
inline void DisableDmaAtomic(twin::Where where = twin::Here()) {
  twin::SetAtomic(twin::kAtomicNone, nullptr, where);
}
inline void SetAtomicNone(twin::Where where = twin::Here()) {
  twin::SetAtomic(twin::kAtomicNone, nullptr, where);
}

template <typename T, CacheLine entireType, DcciDst dcciDst = DcciDst::CACHELINE_ALL>
void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst, twin::Where where = twin::Here()) {
  twin::CleanCache({"dst", dst}, entireType == CacheLine::ENTIRE_DATA_CACHE, where);
}

}  // namespace AscendC
