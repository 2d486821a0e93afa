// The generated description of the operators' aclnn functions, as text.
#include <sstream>
#include <string>
#include <vector>

#include "aclnn/aclnn_base.h"

namespace {

// The generated list is made of these.
enum class AclnnRole { kInput, kAttr, kOutput };
enum class AclnnKind { kTensor, kIntArray, kFloatArray, kBoolArray, kBool, kFloat, kInt, kString };

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
  const char* name;
  const char* comment;
  AclnnRole role;
  AclnnKind kind;
  bool optional;
  std::vector<aclDataType> dtypes;
  int64_t default_integer = 0;
  double default_number = 0;
  const char* default_string = "";
  bool written = false;
};

struct AclnnFunction {
  const char* op_type;
  std::vector<AclnnParameter> parameters;
  aclnnStatus (*first_phase)(void* function, const AclnnValue* values, uint64_t* workspace_size,
                             aclOpExecutor** executor);
};

const std::vector<AclnnFunction> kFunctions = {
#include "aclnn_functions.inc"
};

}  // namespace

// A line for each parameter: name, comment, role, kind, optional, dtypes, defaults.
extern "C" __attribute__((visibility("default"))) const char* described(const char* op) {
  static std::string text;
  std::ostringstream out;
  for (const AclnnFunction& function : kFunctions) {
    if (function.op_type != std::string(op)) continue;
    for (const AclnnParameter& p : function.parameters) {
      out << p.name << "|" << p.comment << "|" << static_cast<int>(p.role)
          << static_cast<int>(p.kind) << p.optional << "|";
      for (aclDataType dtype : p.dtypes) out << dtype << ",";
      out << "|" << p.default_integer << "|" << p.default_number << "|" << p.default_string << "\n";
    }
  }
  text = out.str();
  return text.c_str();
}

// Calls the first phase of ScaleAdd through the description, for 1.5 x; all that is optional is
// left out or its default.
extern "C" __attribute__((visibility("default"))) int call_described(
    void* function, const aclTensor* x, const aclTensor* y, const aclTensor* block_count,
    uint64_t* workspace_size, aclOpExecutor** executor) {
  const AclnnFunction& scale_add = kFunctions.at(0);
  std::vector<AclnnValue> values(scale_add.parameters.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const AclnnParameter& parameter = scale_add.parameters[i];
    const std::string name = parameter.name;
    if (name == "x") values[i].tensor = x;
    if (name == "yOut") values[i].tensor = y;
    if (name == "blockCountOut") values[i].tensor = block_count;
    if (name == "a") values[i].number = 1.5;
    if (name == "b") values[i].number = parameter.default_number;
    if (name == "way") values[i].integer = 1;
  }
  return scale_add.first_phase(function, values.data(), workspace_size, executor);
}
