// CANN's interface for running a kernel on the host: ICPU_RUN_KF and what belongs to it.
#pragma once

#include <cstddef>
#include <optional>

#include "twin/device/launch.h"

enum class KernelMode { MIX_MODE = 0, AIC_MODE, AIV_MODE };

namespace AscendC {

// Global memory for a kernel. Its bytes hold no value until the host or a kernel writes them.
TWIN_API void* GmAlloc(size_t size);
TWIN_API void GmFree(void* address);
TWIN_API void SetKernelMode(KernelMode mode);

}  // namespace AscendC

namespace twin {

TWIN_API void SetTilingKey(uint64_t key);
// Launches with all memory of GmAlloc and of the memory source. An error is printed and ends the
// process with status 1. `mode`: another one than that of SetKernelMode.
TWIN_API void RunOnHost(const char* name, uint32_t block_dim,
                        const std::vector<const void*>& pointers,
                        const std::function<void()>& entry,
                        std::optional<KernelMode> mode = std::nullopt);
// A function that adds the memory of another allocator, which rooms above this one have.
using MemorySource = void (*)(std::vector<GlobalArgument>* buffers);
void SetMemorySource(MemorySource source);

template <typename T>
const void* PointerOf(const T& argument) {
  if constexpr (std::is_pointer<T>::value) return argument;
  return nullptr;
}

template <typename... P, typename... A>
void RunKernel(const char* name, void (*kernel)(P...), uint32_t block_dim, A... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "ICPU_RUN_KF: as many arguments as the kernel takes");
  RunOnHost(name, block_dim, {PointerOf(arguments)...}, [=] { kernel((P)arguments...); });
}

}  // namespace twin

#define ICPU_SET_TILING_KEY(tilingKey) ::twin::SetTilingKey(tilingKey)
#define ICPU_RUN_KF(func, numBlocks, ...) ::twin::RunKernel(#func, func, numBlocks, ##__VA_ARGS__)
