#include "ascendc/op_api/forward.h"

#include <map>
#include <mutex>
#include <stdexcept>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "twin/host/forwarded.h"

namespace nsa {

namespace {

const AclnnFunction& function_of(const std::string& op_type) {
  for (const AclnnFunction& function : aclnn_functions()) {
    if (op_type == function.op_type) return function;
  }
  throw std::logic_error("there is no aclnn" + op_type);
}

// For an output that the operator does not have in this call, which then has one element that is
// not written: the same one for every call.
const aclTensor* unread_tensor(const char* name, aclDataType dtype) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, aclDataType>, const aclTensor*> tensors;
  const std::lock_guard<std::mutex> lock(mutex);
  const aclTensor*& tensor = tensors[{name, dtype}];
  if (tensor == nullptr) {
    const int64_t one = 1;
    void* memory = nullptr;
    // Without memory the tensor is null, and the operator says what it lacks.
    if (aclrtMalloc(&memory, aclDataTypeSize(dtype), ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) {
      return nullptr;
    }
    tensor = aclCreateTensor(&one, 1, dtype, nullptr, 0, ACL_FORMAT_ND, &one, 1, memory);
  }
  return tensor;
}

std::string without_suffix(const std::string& name) {
  const std::string suffix = "Optional";
  const bool has = name.size() > suffix.size() &&
                   name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
  return has ? name.substr(0, name.size() - suffix.size()) : name;
}

AclnnValue default_of(const AclnnParameter& parameter) {
  AclnnValue value{};
  switch (parameter.kind) {
    case AclnnKind::kBool:
      value.boolean = parameter.default_integer != 0;
      break;
    case AclnnKind::kFloat:
      value.number = parameter.default_number;
      break;
    case AclnnKind::kInt:
      value.integer = parameter.default_integer;
      break;
    case AclnnKind::kString:
      value.string = const_cast<char*>(parameter.default_string);
      break;
    default:
      value.tensor = nullptr;
  }
  return value;
}

// An output's dtype: the one that it has for the dtype of the first input.
aclDataType dtype_of(const AclnnFunction& function, const AclnnParameter& output,
                     const std::vector<AclnnValue>& values) {
  const AclnnParameter& first = function.parameters[0];
  aclDataType given = ACL_DT_UNDEFINED;
  if (values[0].tensor != nullptr) aclGetDataType(values[0].tensor, &given);
  for (size_t i = 0; i < first.dtypes.size(); ++i) {
    if (first.dtypes[i] == given) return output.dtypes[i];
  }
  return output.dtypes[0];
}

}  // namespace

aclnnStatus forward(const char* op_type, void* function, const std::vector<NamedValue>& values,
                    uint64_t* workspace_size, aclOpExecutor** executor) {
  const AclnnFunction& target = function_of(op_type);
  std::map<std::string, AclnnValue> given;
  for (const NamedValue& named : values) {
    if (named.given) given[without_suffix(named.name)] = named.value;
  }
  std::vector<AclnnValue> arguments;
  for (const AclnnParameter& parameter : target.parameters) {
    const auto found = given.find(without_suffix(parameter.name));
    if (found != given.end()) {
      arguments.push_back(found->second);
      given.erase(found);
      continue;
    }
    arguments.push_back(default_of(parameter));
    if (parameter.role == AclnnRole::kOutput && !parameter.optional) {
      arguments.back().tensor =
          unread_tensor(parameter.name, dtype_of(target, parameter, arguments));
    }
  }
  if (!given.empty()) {
    throw std::logic_error(std::string("aclnn") + op_type + " has no " + given.begin()->first);
  }
  const aclnnStatus status =
      target.first_phase(function, arguments.data(), workspace_size, executor);
  if (status == ACL_SUCCESS) TwinMarkForwarded(*executor);
  return status;
}

}  // namespace nsa
