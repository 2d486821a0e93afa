// The mask register and its mode.
#pragma once

#include "twin/device/core.h"
#include "twin/device/saturation.h"
#include "twin/device/words.h"
#include "twin/vector/lanes.h"
#include "twin/vector/params.h"

namespace twin {

TWIN_API void SetMaskMode(bool counter, const Where& where);
// Two words: bits of a repeat, or (low) a number of elements. One number: lanes of `width` bytes.
TWIN_API void SetMaskWords(uint64_t high, uint64_t low, bool counter, const Where& where);
TWIN_API void SetMaskLanes(int64_t count, uint32_t width, bool counter, const Where& where);
TWIN_API void ResetMaskRegister(const Where& where);

}  // namespace twin

namespace AscendC {

inline void SetMaskCount(twin::Where where = twin::Here()) { twin::SetMaskMode(true, where); }
inline void SetMaskNorm(twin::Where where = twin::Here()) { twin::SetMaskMode(false, where); }
inline void ResetMask(twin::Where where = twin::Here()) { twin::ResetMaskRegister(where); }

template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow,
                   twin::Where where = twin::Here()) {
  twin::SetMaskWords(maskHigh, maskLow, mode == MaskMode::COUNTER, where);
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
void SetVectorMask(int32_t len, twin::Where where = twin::Here()) {
  twin::SetMaskLanes(len, sizeof(T), mode == MaskMode::COUNTER, where);
}

// Older names of the same, and numbers.
class AscendCUtils {
 public:
  static int32_t GetBitSize(int32_t byteSize) { return byteSize * ONE_BYTE_BIT_SIZE; }
  static int32_t GetC0Size() { return DEFAULT_C0_SIZE; }
  static int32_t GetC0Count(const int32_t dtypeSize) { return ONE_BLK_SIZE / dtypeSize; }
  // Whether results of floating point saturate: 0, or keep infinity and NaN: 1.
  static void SetOverflow(uint64_t ctrlValue) {
    ::set_ctrl(ctrlValue == 1 ? ::sbitset1(::get_ctrl(), 48) : ::sbitset0(::get_ctrl(), 48));
  }
  static int32_t GetDefaultBlockNum() { return DEFAULT_BLK_NUM; }
  template <typename T, bool isSetMask = true>
  static void SetMask(const uint64_t& maskHigh, const uint64_t& maskLow,
                      twin::Where where = twin::Here()) {
    if (isSetMask) twin::SetMaskWords(maskHigh, maskLow, false, where);
  }
  template <typename T, bool isSetMask = true>
  static void SetMask(int32_t len, twin::Where where = twin::Here()) {
    if (isSetMask) twin::SetMaskLanes(len, sizeof(T), false, where);
  }
  template <typename T>
  static void SetMaskCount(twin::Where where = twin::Here()) {
    twin::SetMaskMode(true, where);
  }
  template <typename T>
  static void SetMaskNorm(twin::Where where = twin::Here()) {
    twin::SetMaskMode(false, where);
  }
};

}  // namespace AscendC
