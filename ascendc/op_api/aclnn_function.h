// The aclnn functions of this project's Ascend operators as data, for callers that find them when
// they run. The build writes the list, aclnn_functions.inc, from the operators' definitions; the
// names of the types and of their values are those that the generator puts into it.
#pragma once

#include <cstdint>
#include <vector>

#include "aclnn/aclnn_base.h"

namespace nsa {

enum class AclnnRole { kInput, kAttr, kOutput };
enum class AclnnKind { kTensor, kIntArray, kFloatArray, kBoolArray, kBool, kFloat, kInt, kString };

// An argument of a caller; the parameter's kind tells which member counts.
union AclnnValue {
  const aclTensor* tensor;
  const aclIntArray* int_array;
  const aclFloatArray* float_array;
  const aclBoolArray* bool_array;
  bool boolean;
  double number;
  int64_t integer;
  char* string;
};

struct AclnnParameter {
  const char* name;     // "actSeqLenOptional"
  const char* comment;  // of the definition, or else the definition's name as snake_case
  AclnnRole role;
  AclnnKind kind;
  bool optional;                    // a tensor or an array that may be null, a value with a default
  std::vector<aclDataType> dtypes;  // of a tensor, [combinations]
  // The default of an optional value; a default array is one that the caller leaves null.
  int64_t default_integer = 0;  // or a bool
  double default_number = 0;
  const char* default_string = "";
  bool written = false;  // an input tensor that is also an output
};

// An operator's first phase, whose arguments are the parameters in their order.
struct AclnnFunction {
  const char* op_type;  // "MsnsaCompress"
  std::vector<AclnnParameter> parameters;
  // `function`: the address of aclnn<op>GetWorkspaceSize.
  aclnnStatus (*first_phase)(void* function, const AclnnValue* values, uint64_t* workspace_size,
                             aclOpExecutor** executor);
};

const std::vector<AclnnFunction>& aclnn_functions();

}  // namespace nsa
