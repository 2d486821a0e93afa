// The last launch of this process did this, for tests and for the performance model.
#pragma once

#include <cstdint>

#include "twin/device/launch.h"

namespace twin {

void RememberLaunch(LaunchReport report);

}  // namespace twin

extern "C" {

// Instructions and bytes of one pipe, summed over the cores.
struct TwinPipe {
  uint64_t instructions, repeats, read_bytes, written_bytes, gm_read_bytes, gm_written_bytes;
  uint64_t most_instructions, most_gm_bytes;  // of one core
};

// Pipes in the order S, V, M, MTE1, MTE2, MTE3, FIX.
struct TwinLaunch {
  uint64_t launches;  // of the process so far
  uint64_t cores;
  uint64_t warnings;         // of the last launch, all kinds together
  uint64_t unwritten_bytes;  // of its outputs
  TwinPipe pipes[7];
};

TWIN_API void TwinLastLaunch(TwinLaunch* launch);
// Kinds of warning of the last launch, one a line: "kind: count: first message". The text holds
// until the next launch.
TWIN_API const char* TwinLastWarnings();
}
