// Parameters of the aclnn function of an operator in terms of infer/: made from the description
// that the operator builder writes, which has the order of the definition.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ascendc/op_api/aclnn_function.h"
#include "infer/check.h"
#include "infer/op.h"

namespace nsa {

struct AscendArgument {
  // kNone: infer/ has nothing of that name. An input is absent then, a value is its default.
  enum Source { kInput, kAttr, kOutput, kNone };

  const AclnnParameter* parameter;
  Source source;
  size_t index;        // of the source, in the schema
  int64_t factor = 1;  // of a number
};

struct AscendSignature {
  const AclnnFunction* function;
  const OpSchema* schema;
  std::vector<AscendArgument> arguments;  // in aclnn order
  // Places in the schema of what no argument carries.
  std::vector<size_t> dropped_inputs, dropped_attrs;
};

// The type of an operator's Ascend kernel, after which its aclnn function is named: CANN has types
// of its own under the names of the operators. "NsaCompress" -> "MsnsaCompress".
std::string ascend_type(std::string_view op);

// Names of the operators that have an Ascend kernel.
std::vector<std::string> ascend_operators();

// The one place that refuses an operator without an Ascend kernel: throws OpError, which names the
// target and the function, which is the operator's if empty. `target`: "ascend" or "ascend_twin".
const AscendSignature& ascend_signature(std::string_view op, std::string_view target,
                                        std::string_view function = {});

// Refuses what a call with the rules of Ascend has beyond its aclnn function: an input that is
// given, an attribute with another value than its default. Without this they would be dropped in
// silence. A call with the rules of the CPU passes.
void refuse_dropped(const Context& context);

}  // namespace nsa
