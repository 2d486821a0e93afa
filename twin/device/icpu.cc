#include "twin/device/icpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "twin/device/environment.h"

namespace twin {
namespace {

struct Allocation {
  size_t bytes;
  int number;  // counts the calls of GmAlloc
};

struct Host {
  std::map<void*, Allocation> memory;
  int allocations = 0;
  KernelMode mode = KernelMode::MIX_MODE;
  bool mode_set = false;
  uint64_t tiling_key = 0;
  MemorySource source = nullptr;
};

Host& TheHost() {
  static auto* host = new Host;
  return *host;
}

KernelType TypeOf(const Host& host, std::optional<KernelMode> mode) {
  if (!mode.has_value() && !host.mode_set) return KernelType::kUnset;
  switch (mode.value_or(host.mode)) {
    case KernelMode::AIC_MODE:
      return KernelType::kAicOnly;
    case KernelMode::AIV_MODE:
      return KernelType::kAivOnly;
    default:
      return KernelType::kMixAic12;
  }
}

}  // namespace

void SetTilingKey(uint64_t key) { TheHost().tiling_key = key; }

void SetMemorySource(MemorySource source) { TheHost().source = source; }

void RunOnHost(const char* name, uint32_t block_dim, const std::vector<const void*>& pointers,
               const std::function<void()>& entry, std::optional<KernelMode> mode) {
  const Host& host = TheHost();
  LaunchOptions options;
  options.kernel = name;
  options.block_dim = block_dim;
  options.tiling_key = host.tiling_key;
  options.type = TypeOf(host, mode);
  options.default_type = KernelType::kMixAic12;
  // Flags between AIV cores work in every mode of CANN's host execution.
  options.pure_cross_core = true;
  // The last four are for kernels of others: what CANN's compiler does, and what they rely on.
  try {
    options.seed = EnvironmentNumber("ASCENDC_TWIN_SEED", 0, UINT64_MAX).value_or(0);
    const auto is_on = [](const char* name) { return EnvironmentNumber(name, 0, 1) == 1; };
    options.names_switches = true;
    options.auto_sync = is_on("ASCENDC_TWIN_AUTO_SYNC");
    options.carry_uninitialised = is_on("ASCENDC_TWIN_CARRY_UNINITIALISED");
    options.warn_uninitialised = is_on("ASCENDC_TWIN_WARN_UNINITIALISED");
    options.warn_beyond_tensor = is_on("ASCENDC_TWIN_WARN_BEYOND_TENSOR");
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "twin error: %s\n", error.what());
    std::exit(1);
  }
  for (const auto& [address, allocation] : host.memory) {
    GlobalArgument argument;
    argument.name = Format("GmAlloc %d", allocation.number);
    argument.address = address;
    argument.bytes = allocation.bytes;
    argument.filled_unwritten = true;
    options.buffers.push_back(argument);
  }
  if (host.source != nullptr) host.source(&options.buffers);
  for (GlobalArgument& argument : options.buffers) {
    argument.expect_written = argument.filled_unwritten &&
                              std::count(pointers.begin(), pointers.end(), argument.address) > 0;
  }
  const LaunchReport report = Launch(options, entry);
  if (report.ok) return;
  std::fprintf(stderr, "twin error: %s\n", report.error.c_str());
  std::exit(1);
}

}  // namespace twin

namespace AscendC {

void* GmAlloc(size_t size) {
  // Device memory begins every allocation at a multiple of 512 bytes.
  const size_t rounded = (size + 511) / 512 * 512;
  void* address = std::aligned_alloc(512, rounded == 0 ? 512 : rounded);
  if (address == nullptr) return nullptr;
  twin::FillUnwritten(address, rounded);
  twin::TheHost().memory[address] = {size, ++twin::TheHost().allocations};
  return address;
}

void GmFree(void* address) {
  if (address == nullptr) return;
  if (twin::TheHost().memory.erase(address) == 0) {
    std::fprintf(stderr, "twin error: GmFree: %p is not from GmAlloc\n", address);
    std::exit(1);
  }
  std::free(address);
}

void SetKernelMode(KernelMode mode) {
  twin::TheHost().mode = mode;
  twin::TheHost().mode_set = true;
}

}  // namespace AscendC
