// The mask register and its mode.
#pragma once

#include "twin/device/core.h"
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

}  // namespace AscendC
