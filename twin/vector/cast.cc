#include "twin/vector/cast.h"

#include "twin/device/saturation.h"

namespace twin {
namespace {

const char* ModeName(int mode) {
  static const char* const kNames[] = {"CAST_NONE",  "CAST_RINT",  "CAST_FLOOR", "CAST_CEIL",
                                       "CAST_ROUND", "CAST_TRUNC", "CAST_ODD"};
  return mode >= 0 && mode < 7 ? kNames[mode] : "an unknown round mode";
}

std::string LegalModes(uint32_t legal) {
  std::string text;
  for (int mode = 0; mode < 7; ++mode) {
    if ((legal >> mode & 1) == 0) continue;
    if (!text.empty()) text += ", ";
    text += ModeName(mode);
  }
  return text;
}

}  // namespace

void SetHalfDeqScale(half scale, const Where& where) {
  Registers& registers = ThisCore("SetDeqScale", where).registers;
  registers.deq_scale = scale.bits;
  registers.deq_scale_set = true;
}

void RunCast(const CastCall& call, const Operand& dst, const Operand& src,
             const AscendC::UnaryRepeatParams& params) {
  const Registers& registers = ThisCore("Cast", call.where).registers;
  const int mode = static_cast<int>(call.mode);
  if (mode < 0 || mode > 6 || (call.legal_modes >> mode & 1) == 0) {
    Fail("Cast", call.where,
         Format("roundMode is %s, %s to %s takes %s", ModeName(mode), src.dtype, dst.dtype,
                LegalModes(call.legal_modes).c_str()));
  }
  if (call.needs_scale && !registers.deq_scale_set) {
    Fail("Cast", call.where, "int32_t to half needs SetDeqScale(half) before it");
  }
  const bool saturates = FloatSaturates(ThisCore("Cast", call.where));
  const CastScalar how{call.mode, saturates, registers.deq_scale};
  Elementwise elementwise{"Cast", call.where, call.mask, call.function, ScalarBits(how)};
  elementwise.reads_ctrl = dst.dtype[0] == 'h' || dst.dtype[0] == 'b';
  elementwise.narrows = dst.element < src.element;
  elementwise.four_bits = call.four_bits;
  RunElementwise(
      elementwise, {dst, src},
      {{params.dstBlkStride.wide(), params.dstRepStride.wide(), "dstBlkStride", "dstRepStride"},
       {params.srcBlkStride.wide(), params.srcRepStride.wide(), "srcBlkStride", "srcRepStride"}});
}

}  // namespace twin
