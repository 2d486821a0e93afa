// Calls of aclnn functions that the host computes in place of a kernel, in the order of the stream.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "twin/host/executor.h"

namespace twin {

struct HostTensor {
  const char* name;  // in the aclnn function
  const aclTensor* tensor;
};

using HostCompute = std::function<void(const std::vector<KernelArgument>&)>;

// The first phase of a function whose arguments have been checked. The executor has the tensors in
// this order, and `compute` gets them when the stream comes to the call.
TWIN_API aclnnStatus PrepareHostCall(const char* api, const std::vector<HostTensor>& inputs,
                                     const std::vector<HostTensor>& outputs, HostCompute compute,
                                     uint64_t* workspace_size, aclOpExecutor** executor);

// Logs the error of a function, and returns its status.
TWIN_API aclnnStatus RefuseCall(const char* api, aclnnStatus status, const std::string& what);

// Contiguous copies of a view's elements, and back.
TWIN_API void ReadView(const aclTensor& view, void* to);
TWIN_API void WriteView(const void* from, const aclTensor& view);
TWIN_API std::string DescribeTensor(const aclTensor& tensor);

}  // namespace twin
