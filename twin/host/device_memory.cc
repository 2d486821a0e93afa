#include "twin/host/device_memory.h"

#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>

#include "twin/device/icpu.h"
#include "twin/device/launch.h"

namespace twin {

namespace {

constexpr size_t kAlignment = 512;

struct Allocation {
  size_t bytes;
  bool mapped;
  int number;  // counts the allocations
};

struct Memory {
  std::mutex mutex;
  std::map<const uint8_t*, Allocation> allocations;  // by address
  uint64_t bytes = 0;
  int count = 0;
};

Memory& TheMemory() {
  static Memory memory;
  return memory;
}

// For launches that are given addresses alone.
void AddBuffers(std::vector<GlobalArgument>* buffers) {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  for (const auto& [address, allocation] : memory.allocations) {
    GlobalArgument argument;
    argument.name = "aclrtMalloc " + std::to_string(allocation.number);
    argument.address = const_cast<uint8_t*>(address);
    argument.bytes = allocation.bytes;
    argument.filled_unwritten = !allocation.mapped;
    buffers->push_back(argument);
  }
}
[[maybe_unused]] const bool given = (SetMemorySource(&AddBuffers), true);

}  // namespace

void* AllocateDevice(size_t bytes) {
  if (bytes > SIZE_MAX - kAlignment) return nullptr;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* address = std::aligned_alloc(kAlignment, rounded);
  if (address == nullptr) return nullptr;
  FillUnwritten(address, rounded);
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  memory.allocations[static_cast<const uint8_t*>(address)] = {bytes, false, ++memory.count};
  memory.bytes += bytes;
  return address;
}

bool FreeDevice(void* address) {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.allocations.find(static_cast<const uint8_t*>(address));
  if (found == memory.allocations.end() || found->second.mapped) return false;
  memory.bytes -= found->second.bytes;
  memory.allocations.erase(found);
  std::free(address);
  return true;
}

void AddDevice(void* address, size_t bytes) {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  memory.allocations[static_cast<const uint8_t*>(address)] = {bytes, true, ++memory.count};
  memory.bytes += bytes;
}

void RemoveDevice(void* address) {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.allocations.find(static_cast<const uint8_t*>(address));
  if (found == memory.allocations.end()) return;
  memory.bytes -= found->second.bytes;
  memory.allocations.erase(found);
}

int64_t DeviceBytesFrom(const void* address) {
  const auto* byte = static_cast<const uint8_t*>(address);
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  auto after = memory.allocations.upper_bound(byte);
  if (after == memory.allocations.begin()) return -1;
  auto found = std::prev(after);
  const uint8_t* end = found->first + found->second.bytes;
  if (byte > end) return -1;
  while (found->second.mapped && after != memory.allocations.end() && after->first == end &&
         after->second.mapped) {
    end += after->second.bytes;
    found = after++;
  }
  return end - byte;
}

DeviceUse DeviceMemoryInUse() {
  Memory& memory = TheMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  return {memory.bytes, memory.allocations.size()};
}

}  // namespace twin
