// Calls of an operator's first phase by the names of its parameters.
#pragma once

#include <string>
#include <vector>

#include "ascendc/op_api/aclnn_function.h"

namespace nsa {

// A parameter's name, with or without "Optional" behind it, and its value.
struct NamedValue {
  // kMayBeNull: of an output, which nobody reads then.
  enum Null { kIsAnError, kMayBeNull };

  NamedValue(const char* n, const aclTensor* v, Null null = kIsAnError)
      : name(n), given(v != nullptr || null == kIsAnError) {
    value.tensor = v;
  }
  NamedValue(const char* n, const aclIntArray* v) : name(n) { value.int_array = v; }
  NamedValue(const char* n, double v) : name(n) { value.number = v; }
  NamedValue(const char* n, int64_t v) : name(n) { value.integer = v; }
  NamedValue(const char* n, int v) : name(n) { value.integer = v; }
  NamedValue(const char* n, char* v) : name(n) { value.string = v; }
  NamedValue(const char* n, const char* v) : name(n) { value.string = const_cast<char*>(v); }

  std::string name;
  bool given = true;
  AclnnValue value{};
};

// Calls the first phase of `op_type`, whose address is `function`. Of what is not given, an input
// is absent, a value is its default, and an output, which nobody reads, a tensor of one element.
// Throws std::logic_error where the function has no parameter of a name.
aclnnStatus forward(const char* op_type, void* function, const std::vector<NamedValue>& values,
                    uint64_t* workspace_size, aclOpExecutor** executor);

}  // namespace nsa
