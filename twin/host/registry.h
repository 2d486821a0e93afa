// The operators and kernels that are linked in.
#pragma once

#include <string>
#include <vector>

#include "twin/host/kernel_registration.h"
#include "twin/host/op_spec.h"

namespace twin {

struct Kernel {
  std::string name;
  KernelFunction function = nullptr;
};

// Sorted by name.
TWIN_API std::vector<std::string> OperatorNames();
// Null for an unknown operator. Throws std::invalid_argument for an inconsistent definition.
TWIN_API const OpSpec* FindOperator(const std::string& op_type);
// Null where the operator has no kernel for that combination.
const Kernel* FindKernel(const std::string& op_type, size_t combination);

}  // namespace twin
