// The machine that the twin stands for, and how it is chosen.
#pragma once

#include <cstdint>

#include "tiling/platform/platform_ascendc.h"

namespace twin {

inline constexpr uint64_t kHbmBytes = 64ull << 30;
// CANN's libraries take this part of every workspace; the kernel's part comes after it.
inline constexpr uint32_t kLibraryWorkspaceBytes = 16u << 20;

struct Machine {
  fe::PlatFormInfos info;
  uint64_t seed = 0;  // of the interleaving of the cores
};

// From ASCENDC_TWIN_AIC, ASCENDC_TWIN_AIV and ASCENDC_TWIN_SEED, unless
// TwinSetCores or TwinSetSeed has been called, and from ASCENDC_TWIN_SOC. Throws
// std::invalid_argument for a value that is no number in its range, or no product.
Machine CurrentMachine();

}  // namespace twin

extern "C" {

// For tests: numbers of cube and vector cores from now on; 0, 0: as the environment says. False if
// there cannot be such a machine.
TWIN_API bool TwinSetCores(uint32_t cube_cores, uint32_t vector_cores);
TWIN_API void TwinSetSeed(uint64_t seed);
// Takes what the environment says again.
TWIN_API void TwinResetSeed();
// Names of the operators that are linked in, with spaces between them.
TWIN_API const char* TwinOperators();
}
