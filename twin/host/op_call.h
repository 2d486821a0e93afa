// A call of an operator by its aclnn functions, which the generator writes in terms of this.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "twin/device/where.h"

namespace twin {

// The arguments of one call, in the order of the definition: inputs, attributes, outputs.
class TWIN_API OpCall {
 public:
  // `api`: the name of the function, which errors begin with.
  OpCall(const char* api, const char* op_type) : api_(api), op_type_(op_type) {}

  OpCall& Input(const char* name, const aclTensor* tensor);
  // For an input whose values the host needs.
  OpCall& Input(const char* name, const aclIntArray* values);
  OpCall& Input(const char* name, const aclFloatArray* values);
  OpCall& Input(const char* name, const aclBoolArray* values);
  OpCall& Attr(const char* name, int64_t value);
  OpCall& Attr(const char* name, double value);
  OpCall& Attr(const char* name, bool value);
  OpCall& Attr(const char* name, const char* value);
  OpCall& Attr(const char* name, const aclIntArray* value);
  OpCall& Attr(const char* name, const aclFloatArray* value);
  OpCall& Attr(const char* name, const aclBoolArray* value);
  OpCall& Output(const char* name, const aclTensor* tensor);

  // The first phase: checks the call, has it tiled, and gives an executor and the bytes of
  // workspace that it needs. Where it fails, the reason has been logged.
  aclnnStatus Prepare(uint64_t* workspace_size, aclOpExecutor** executor);

 private:
  friend class CallBuilder;

  using InputValue =
      std::variant<const aclTensor*, const aclIntArray*, const aclFloatArray*, const aclBoolArray*>;
  using AttrValue = std::variant<int64_t, double, bool, const char*, const aclIntArray*,
                                 const aclFloatArray*, const aclBoolArray*>;
  template <class Value>
  struct Argument {
    const char* name;  // the parameter of the function
    Value value;
  };

  const char* api_;
  const char* op_type_;
  std::vector<Argument<InputValue>> inputs_;
  std::vector<Argument<AttrValue>> attrs_;
  std::vector<Argument<const aclTensor*>> outputs_;
};

// The second phase: puts the operator into the stream. An executor that is not repeatable is gone
// afterwards, whatever is returned.
TWIN_API aclnnStatus RunExecutor(const char* api, void* workspace, uint64_t workspace_size,
                                 aclOpExecutor* executor, aclrtStream stream);

}  // namespace twin
