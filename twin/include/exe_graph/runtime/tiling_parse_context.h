// An operator finds this out once per platform, before its first tiling.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "exe_graph/runtime/extended_kernel_context.h"

namespace fe {
class PlatFormInfos;
}

namespace gert {

class TilingParseContext : public ExtendedKernelContext {
 public:
  // The twin's own.
  TilingParseContext(const ComputeNodeInfo* node, void* compiled, fe::PlatFormInfos* platform)
      : ExtendedKernelContext(node), compiled_(compiled), platform_(platform) {}

  template <typename T>
  T* GetCompiledInfo() {
    return static_cast<T*>(compiled_);
  }
  fe::PlatFormInfos* GetPlatformInfo() const { return platform_; }

 private:
  void* compiled_;
  fe::PlatFormInfos* platform_;
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
