// CANN's services for the host side of every operator: the machine, the log, failure.
#pragma once

#include <algorithm>
#include <cstdio>

#include "ascendc/common/machine.h"
#include "infer/op.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#if __has_include("log/log.h")
#include "log/log.h"
#endif

namespace nsa::ascend {

// The vector cores of the machine and what a kernel may use of each.
struct VectorCores {
  explicit VectorCores(const gert::TilingContext& context) {
    const platform_ascendc::PlatformAscendC platform(context.GetPlatformInfo());
    count = static_cast<int32_t>(platform.GetCoreNumAiv());
    uint64_t bytes = 0;
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, bytes);
    ub_bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, kUbBytes));
    library_workspace = platform.GetLibApiWorkSpaceSize();
  }

  int32_t count = 0;
  uint32_t ub_bytes = 0;
  size_t library_workspace = 0;
};

// The cube cores of the machine; each has two vector cores.
struct CubeCores {
  explicit CubeCores(const gert::TilingContext& context) : vector(context) {
    const platform_ascendc::PlatformAscendC platform(context.GetPlatformInfo());
    count = static_cast<int32_t>(platform.GetCoreNumAic());
  }

  VectorCores vector;
  int32_t count = 0;
};

// 1: the cores of a launch begin together, because they wait for each other.
enum class Schedule : uint32_t { kAsTheyCome = 0, kAllCoresAtOnce = 1 };

// Completes CANN's tiling context. `workspace`: bytes of the operator itself.
inline void describe_launch(gert::TilingContext* context, const VectorCores& machine, int32_t cores,
                            int64_t workspace, Schedule schedule = Schedule::kAsTheyCome) {
  context->SetBlockDim(static_cast<uint32_t>(cores));
  context->SetTilingKey(0);
  if (schedule == Schedule::kAllCoresAtOnce)
    context->SetScheduleMode(static_cast<uint32_t>(schedule));
  context->GetWorkspaceSizes(1)[0] = machine.library_workspace + static_cast<size_t>(workspace);
}

inline void log_error(const char* node, const char* reason) {
#if __has_include("log/log.h")
  OP_LOGE(node, "%s", reason);
#else
  std::fprintf(stderr, "[ERROR] %s: %s\n", node, reason);
#endif
}

// Runs a step of the host side; an error of the rules is logged and becomes CANN's failure.
template <class Body>
ge::graphStatus guarded(const char* node, Body body) {
  try {
    body();
    return ge::GRAPH_SUCCESS;
  } catch (const OpError& error) {
    log_error(node, error.what());
    return error.aclnn_code == kAclnnLimit ? ge::GRAPH_FAILED : ge::GRAPH_PARAM_INVALID;
  }
}

}  // namespace nsa::ascend
