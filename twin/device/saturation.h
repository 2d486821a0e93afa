// Whether results in half and bfloat16_t saturate: CTRL[48].
#pragma once

#include "twin/device/core.h"

namespace AscendC {

enum class SaturationMode : uint8_t { FLOAT, CAST };

}  // namespace AscendC

namespace twin {

constexpr uint64_t kFloatNonSaturating = uint64_t{1} << 48;

}  // namespace twin

namespace AscendC {

// With saturation an infinity becomes the largest value and a NaN 0.
template <SaturationMode mode>
void SetSaturationFlag(bool enableSat, twin::Where where = twin::Here()) {
  static_assert(mode == SaturationMode::FLOAT,
                "SetSaturationFlag: conversions to integers always saturate on the twin");
  uint64_t& ctrl = twin::ThisCore("SetSaturationFlag", where).registers.ctrl;
  ctrl = enableSat ? ctrl & ~twin::kFloatNonSaturating : ctrl | twin::kFloatNonSaturating;
}

template <SaturationMode mode>
bool GetSaturationFlag(twin::Where where = twin::Here()) {
  static_assert(mode == SaturationMode::FLOAT,
                "GetSaturationFlag: conversions to integers always saturate on the twin");
  const uint64_t ctrl = twin::ThisCore("GetSaturationFlag", where).registers.ctrl;
  return (ctrl & twin::kFloatNonSaturating) == 0;
}

}  // namespace AscendC
