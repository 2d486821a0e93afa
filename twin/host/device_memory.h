// Device memory: host memory whose every allocation is known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "twin/device/where.h"

namespace twin {

// Null if there is none.
void* AllocateDevice(size_t bytes);
// False if `address` is not the beginning of an allocation.
bool FreeDevice(void* address);
// Memory that somebody else has mapped; what is mapped side by side counts as one allocation.
void AddDevice(void* address, size_t bytes);
void RemoveDevice(void* address);
// Bytes from `address` to the end of the allocation that it lies in; -1 outside of all.
TWIN_API int64_t DeviceBytesFrom(const void* address);
// The whole of them together, and the number of allocations.
struct DeviceUse {
  uint64_t bytes, allocations;
};
DeviceUse DeviceMemoryInUse();

}  // namespace twin
