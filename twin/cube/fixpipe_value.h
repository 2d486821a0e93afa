// Fixpipe makes this of one element.
#pragma once

#include <cmath>
#include <cstring>

#include "twin/cube/fixpipe.h"
#include "twin/device/saturation.h"

namespace twin {

// Bits of a factor: a float of 1 + 8 + 10 bits, its low 13 bits are ignored; bit 36 asks for a
// right shift first.
inline float FactorOf(const Instr& instr, uint64_t bits) {
  instr.Check((bits >> 36 & 1) == 0,
              "bit 36 of the factor asks for a shift of the integer; the twin has none");
  const float factor = BitsFloat(static_cast<uint32_t>(bits) & ~0x1fffu);
  instr.Check(std::isfinite(factor) && (factor == 0 || std::isnormal(factor)),
              "the factor is infinite, NaN or subnormal");
  return factor;
}

struct FixpipeValue {
  const Instr* instr = nullptr;
  QuantMode_t mode = QuantMode_t::NoQuant;
  bool relu = false;
  bool saturate = false;
  float factor = 0;                  // DEQF16
  const uint8_t* factors = nullptr;  // VDEQF16, 8 bytes a column

  void Convert(const uint8_t* from, uint64_t column, uint8_t* to) const {
    switch (mode) {
      case QuantMode_t::F322F16:
        Put(to, SaturatedHalf(Float(from)));
        return;
      case QuantMode_t::F322BF16:
        Put(to, SaturatedBfloat16(Float(from)));
        return;
      case QuantMode_t::DEQF16:
      case QuantMode_t::VDEQF16:
        Put(to, SaturatedHalf(Scaled(from, column)));
        return;
      default:
        Copy(from, to);
    }
  }

 private:
  static void Put(uint8_t* to, uint16_t bits) { std::memcpy(to, &bits, 2); }

  float Float(const uint8_t* from) const {
    float x;
    std::memcpy(&x, from, 4);
    return relu && x < 0 ? 0.0f : x;
  }
  float Scaled(const uint8_t* from, uint64_t column) const {
    int32_t x;
    std::memcpy(&x, from, 4);
    if (relu && x < 0) return 0.0f;
    float by = factor;
    if (mode == QuantMode_t::VDEQF16) {
      uint64_t bits;
      std::memcpy(&bits, factors + 8 * column, 8);
      by = FactorOf(*instr, bits);
    }
    return static_cast<float>(x) * by;
  }
  // The sign is the highest bit of both element types.
  void Copy(const uint8_t* from, uint8_t* to) const {
    std::memcpy(to, from, 4);
    if (!relu || (from[3] & 0x80) == 0) return;
    float x;
    std::memcpy(&x, from, 4);
    const bool integer = std::strcmp(instr->operand(0).dtype, "int32_t") == 0;
    if (integer || x < 0) std::memset(to, 0, 4);
  }
  // To nearest even; saturation turns what is too large into the largest value and a NaN into 0.
  uint16_t SaturatedHalf(float x) const {
    const uint16_t bits = FloatToHalfBits(x);
    if (!saturate || (bits & 0x7c00) != 0x7c00) return bits;
    return x != x ? 0 : static_cast<uint16_t>((bits & 0x8000) | 0x7bff);
  }
  uint16_t SaturatedBfloat16(float x) const {
    const uint16_t bits = FloatToBfloat16Bits(x);
    if (!saturate || (bits & 0x7f80) != 0x7f80) return bits;
    return x != x ? 0 : static_cast<uint16_t>((bits & 0x8000) | 0x7f7f);
  }
};

inline FixpipeValue MakeFixpipeValue(const Instr& instr, const AscendC::FixpipeParamsV220& params) {
  FixpipeValue value;
  value.instr = &instr;
  value.mode = params.quantPre;
  value.relu = params.reluEn;
  value.saturate = FloatSaturates(instr.core());
  if (params.quantPre == QuantMode_t::DEQF16) value.factor = FactorOf(instr, params.deqScalar);
  return value;
}

}  // namespace twin
