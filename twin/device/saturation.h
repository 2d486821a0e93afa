// The control register CTRL, of which one bit matters here: [48], whether results in half and
// bfloat16_t saturate.
#pragma once

#include "twin/device/core.h"

namespace AscendC {

enum class SaturationMode : uint8_t { FLOAT, FLOAT8, INT, CAST };

}  // namespace AscendC

namespace twin {

constexpr int kFloatSaturationBit = 48;
// Bits of other modes, which are set so that a kernel that does not keep them is found.
constexpr uint64_t kOtherCtrlBits = uint64_t{1} << 60 | uint64_t{1} << 5;

// Instructions on other pipes find the register as it is when their turn comes, so the scalar unit
// may change it only after all those that depend on it are complete.
TWIN_API void WriteCtrl(const char* name, uint64_t bits, const Where& where);
// Saturation with the value of all bits, of which no other one may change.
TWIN_API void WriteWholeCtrl(const char* name, uint64_t value, const Where& where);
TWIN_API uint64_t ReadCtrl(const char* name, const Where& where);
inline bool FloatSaturates(const Core& core) {
  return (core.registers.ctrl >> kFloatSaturationBit & 1) == 0;
}

}  // namespace twin

// The intrinsics of the whole register, of which only that bit may be changed here.
inline uint64_t get_ctrl(twin::Where where = twin::Here()) {
  return twin::kOtherCtrlBits | twin::ReadCtrl("get_ctrl", where) << twin::kFloatSaturationBit;
}
inline void set_ctrl(uint64_t value, twin::Where where = twin::Here()) {
  twin::WriteWholeCtrl("set_ctrl", value, where);
}
inline uint64_t sbitset0(uint64_t value, int bit) { return value & ~(uint64_t{1} << bit); }
inline uint64_t sbitset1(uint64_t value, int bit) { return value | uint64_t{1} << bit; }

namespace AscendC {

// With saturation an infinity becomes the largest value and a NaN 0.
template <SaturationMode mode>
void SetSaturationFlag(bool enableSat, twin::Where where = twin::Here()) {
  static_assert(mode == SaturationMode::FLOAT,
                "SetSaturationFlag: conversions to integers always saturate on the twin");
  twin::WriteCtrl("SetSaturationFlag", enableSat ? 0 : 1, where);
}

template <SaturationMode mode>
bool GetSaturationFlag(twin::Where where = twin::Here()) {
  static_assert(mode == SaturationMode::FLOAT,
                "GetSaturationFlag: conversions to integers always saturate on the twin");
  return twin::ReadCtrl("GetSaturationFlag", where) == 0;
}

template <int8_t startBit, int8_t endBit>
void SetCtrlSpr(int64_t value, twin::Where where = twin::Here()) {
  static_assert(startBit == twin::kFloatSaturationBit && endBit == twin::kFloatSaturationBit,
                "SetCtrlSpr: startBit and endBit are both 48 on this architecture");
  twin::WriteCtrl("SetCtrlSpr", static_cast<uint64_t>(value), where);
}

template <int8_t startBit, int8_t endBit>
int64_t GetCtrlSpr(twin::Where where = twin::Here()) {
  static_assert(startBit == twin::kFloatSaturationBit && endBit == twin::kFloatSaturationBit,
                "GetCtrlSpr: startBit and endBit are both 48 on this architecture");
  return static_cast<int64_t>(twin::ReadCtrl("GetCtrlSpr", where));
}

}  // namespace AscendC
