// OP_ADD: makes a definition known.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "register/op_def.h"

namespace ops {

class TWIN_API OpDefFactory {
 public:
  using Creator = OpDef (*)(const char* type);
  static int OpDefRegister(const char* type, Creator creator);
};

}  // namespace ops

#define OP_ADD(op_type, ...)                                                                  \
  [[maybe_unused]] static const int g_##op_type##_added = ::ops::OpDefFactory::OpDefRegister( \
      #op_type, [](const char* type) -> ::ops::OpDef { return op_type(type); })

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
