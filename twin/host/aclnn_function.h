// The aclnn functions of operators as data, for callers that find them when they run: the generator
// writes the list (aclnn_functions.cc) for all operators that it is linked with.
#pragma once

#include <cstdint>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "graph/types.h"

namespace twin {

enum class AclnnRole { kInput, kAttr, kOutput };
enum class AclnnKind { kTensor, kIntArray, kFloatArray, kBoolArray, kBool, kFloat, kInt, kString };

// What a caller passes; which member counts says the parameter's kind.
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
  bool optional;  // a tensor or an array that may be null, a value with a default
  std::vector<ge::DataType> dtypes;  // of a tensor, [combinations]
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

// Defined by what the generator writes.
const std::vector<AclnnFunction>& AclnnFunctions();

}  // namespace twin
