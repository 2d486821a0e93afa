// How an aclnn function of CANN's own is written: its tensors, its checks, its loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "twin/cann/opapi/dtypes.h"
#include "twin/cann/opapi/values.h"
#include "twin/host/host_call.h"
#include "twin/host/op_call.h"

// The two functions aclnn<name>GetWorkspaceSize and aclnn<name>. What follows is the body of the
// first: PLAN with a block that gives `plan` the call's tensors and loop, or throws.
#define ACLNN(name, ...)                                                              \
  extern "C" ACL_FUNC_VISIBILITY aclnnStatus aclnn##name(                             \
      void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream) { \
    return twin::RunExecutor("aclnn" #name, workspace, bytes, executor, stream);      \
  }                                                                                   \
  extern "C" ACL_FUNC_VISIBILITY aclnnStatus aclnn##name##GetWorkspaceSize(           \
      __VA_ARGS__, [[maybe_unused]] uint64_t* workspace_size,                         \
      [[maybe_unused]] aclOpExecutor** executor)

#define PLAN(...)                                                            \
  {                                                                          \
    return twin::cann::MakePlan(                                             \
        __func__, workspace_size,                                            \
        executor, [&]([[maybe_unused]] twin::cann::Plan& plan) __VA_ARGS__); \
  }

namespace twin::cann {

using twin::DescribeTensor;
using twin::KernelArgument;

using Arguments = std::vector<KernelArgument>;

// A call whose arguments are being checked.
struct Plan {
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> outputs;
  HostCompute compute;

  // Each throws for a tensor that is null, has another dtype or more than eight dimensions.
  void In(const char* name, const aclTensor* tensor, Dtypes allowed = kAll);
  void Out(const char* name, const aclTensor* tensor, Dtypes allowed = kAll);
  // A tensor that is read and then written.
  void InOut(const char* name, const aclTensor* tensor, Dtypes allowed = kAll);
};

aclnnStatus MakePlan(const char* function, uint64_t* workspace_size, aclOpExecutor** executor,
                     const std::function<void(Plan&)>& build);

// Throws with what was expected and what there is.
[[noreturn]] void Refuse(const std::string& what);
void RequireDims(const char* name, const aclTensor* tensor, const Dims& dims);

double Number(const aclScalar* scalar);
// CANN's pages allow no index from the end. The device reads other memory, or ends.
int64_t CheckedIndex(double index, int64_t count);
Dims Integers(const aclIntArray* array);

}  // namespace twin::cann
