// The products that an operator is built for.
#pragma once

#include "register/op_def_registry.h"

namespace nsa::ascend {

// `kernel_file`: name of the kernel's source; without it CANN looks for one that is named as the
// entry is, after the operator's type. The flags are those of a configuration that states nothing.
inline void add_products(ops::OpAICoreDef& core, const char* kernel_file) {
  ops::OpAICoreConfig config;
  config.DynamicCompileStaticFlag(true)
      .DynamicFormatFlag(true)
      .DynamicRankSupportFlag(true)
      .DynamicShapeSupportFlag(true)
      .NeedCheckSupportFlag(false)
      .PrecisionReduceFlag(true)
      .ExtendCfgInfo("opFile.value", kernel_file);
  // Atlas A2 and A3, whose cores are the same.
  core.AddConfig("ascend910b", config).AddConfig("ascend910_93", config);
}

}  // namespace nsa::ascend
