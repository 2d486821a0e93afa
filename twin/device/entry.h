// A kernel function contains these beside instructions: kernel type, tiling key, tiling data,
// workspace.
#pragma once

#include <cstring>

#include "twin/device/launch.h"
#include "twin/device/sync.h"

// Values of KERNEL_TASK_TYPE.
#define KERNEL_TYPE_AIV_ONLY ::twin::KernelType::kAivOnly
#define KERNEL_TYPE_AIC_ONLY ::twin::KernelType::kAicOnly
#define KERNEL_TYPE_MIX_AIV_1_0 ::twin::KernelType::kMixAiv10
#define KERNEL_TYPE_MIX_AIC_1_0 ::twin::KernelType::kMixAic10
#define KERNEL_TYPE_MIX_AIC_1_1 ::twin::KernelType::kMixAic11
#define KERNEL_TYPE_MIX_AIC_1_2 ::twin::KernelType::kMixAic12

namespace twin {

TWIN_API uint64_t TilingKey(const Where& where = Here());
// True. Outside a kernel it counts for the kernels of its file; with a tiling key, for launches
// with that one.
TWIN_API bool DeclareType(KernelType type, const Where& where = Here());
TWIN_API bool DeclareKeyType(uint64_t key, uint64_t (*current)(), KernelType type,
                             const Where& where = Here());
// The tiling data must fit into the buffer that `address` belongs to.
TWIN_API const void* TilingData(const void* address, uint64_t bytes, const Where& where = Here());
TWIN_API void RegisterTiling(const char* condition, uint64_t key, const void* type,
                             const Where& where = Here());
TWIN_API void CheckDefaultTiling(const void* type, const Where& where = Here());

inline void DeclareKernelType(KernelType type, const Where& where = Here()) {
  DeclareType(type, where);
}

// Address that tells types apart.
template <typename T>
const void* TypeId() {
  static const char id = 0;
  return &id;
}

template <typename T>
T CopyTiling(const __gm__ void* address, const Where& where = Here()) {
  static_assert(std::is_trivially_copyable<T>::value, "tiling data is plain data");
  T data;
  std::memcpy(static_cast<void*>(&data), TilingData((const void*)address, sizeof(T), where),
              sizeof(T));
  return data;
}

}  // namespace twin

// A build may give it a value of its own, for one key.
#ifndef TILING_KEY_VAR
#define TILING_KEY_VAR (::twin::TilingKey())
#endif
#define TILING_KEY_IS(k) (TILING_KEY_VAR == (k))

// A declaration, as in CANN: at the scope of a file, too.
#define KERNEL_TASK_TYPE_DEFAULT(value) TWIN_DECLARE_TYPE(__COUNTER__, ::twin::DeclareType(value))
#define KERNEL_TASK_TYPE(key, value) \
  TWIN_DECLARE_TYPE(__COUNTER__,     \
                    ::twin::DeclareKeyType(key, +[] { return uint64_t{TILING_KEY_VAR}; }, value))
#define TWIN_DECLARE_TYPE(number, call) TWIN_DECLARE_TYPE_AS(number, call)
#define TWIN_DECLARE_TYPE_AS(number, call) \
  [[maybe_unused]] const bool twin_kernel_type_##number = call

// The name that GET_TILING_DATA looks up: a local one from REGISTER_TILING_DEFAULT, or the one that
// REGISTER_TILING_DATA_CLASS gives the file.
#define REGISTER_TILING_DEFAULT(tiling_struct) \
  using TwinDefaultTiling [[maybe_unused]] = tiling_struct
#define REGISTER_TILING_FOR_TILINGKEY(expression, tiling_struct) \
  ::twin::RegisterTiling(expression, TILING_KEY_VAR, ::twin::TypeId<tiling_struct>())

// The kernel's own copy, which it may change.
#define GET_TILING_DATA_WITH_STRUCT(tiling_struct, tiling_data, tiling_arg) \
  [[maybe_unused]] tiling_struct tiling_data = ::twin::CopyTiling<tiling_struct>(tiling_arg)
#define GET_TILING_DATA(tiling_data, tiling_arg)                   \
  ::twin::CheckDefaultTiling(::twin::TypeId<TwinDefaultTiling>()); \
  GET_TILING_DATA_WITH_STRUCT(TwinDefaultTiling, tiling_data, tiling_arg)
#define GET_TILING_DATA_MEMBER(tiling_type, member, var, tiling_arg) \
  [[maybe_unused]] decltype(tiling_type::member) var =               \
      ::twin::CopyTiling<tiling_type>(tiling_arg).member

namespace AscendC {

TWIN_API GM_ADDR GetUserWorkspace(GM_ADDR workspace);

}  // namespace AscendC

TWIN_API GM_ADDR GetSysWorkSpacePtr();
