// Sizes that the layouts of the cube's memories are made of.
#pragma once

#include <cstdint>

#include "ascendc/cpu_twin/device/instr.h"

namespace twin {

constexpr uint64_t kFractalRows = 16;
constexpr uint64_t kFractalBytes = 512;         // 16 rows of 32 bytes, in L0A and L0B
constexpr uint64_t kResultFractalBytes = 1024;  // 16 x 16 float or int32_t, in L0C
constexpr uint64_t kResultRowBytes = 64;

constexpr uint64_t CeilDivide(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }

// A field against its documented range; `value` as the kernel wrote it, before narrowing.
inline void CheckField(const Instr& instr, const char* name, int64_t value, int64_t least,
                       int64_t most) {
  instr.Check(value >= least && value <= most, "%s is %lld, expected %lld to %lld", name,
              static_cast<long long>(value), static_cast<long long>(least),
              static_cast<long long>(most));
}

}  // namespace twin
