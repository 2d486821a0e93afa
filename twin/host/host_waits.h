// How often the host has waited for the device, for tests of programs that must not.
#pragma once

#include <cstdint>

#include "twin/device/launch.h"

namespace twin {

void CountRead();
void CountSynchronisation();

}  // namespace twin

extern "C" {

// Counts of the process so far.
struct TwinHostWaits {
  uint64_t reads;             // copies from the device to the host
  uint64_t synchronisations;  // calls that wait for a stream, an event or the device
};

TWIN_API void TwinCountHostWaits(TwinHostWaits* waits);
}
