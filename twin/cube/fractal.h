// Sizes that the layouts of the cube's memories are made of.
#pragma once

#include <cstdint>

#include "twin/device/instr.h"

namespace twin {

constexpr uint64_t kFractalRows = 16;
constexpr uint64_t kFractalBytes = 512;         // 16 rows of 32 bytes, in L0A and L0B
constexpr uint64_t kResultFractalBytes = 1024;  // 16 x 16 float or int32_t, in L0C
constexpr uint64_t kResultRowBytes = 64;

}  // namespace twin
