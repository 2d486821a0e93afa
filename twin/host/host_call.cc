#include "twin/host/host_call.h"

#include <memory>

#include "twin/host/call_builder.h"
#include "twin/host/log.h"

namespace twin {

namespace {

void Append(const std::vector<HostTensor>& tensors, bool output, aclOpExecutor* executor) {
  for (const HostTensor& given : tensors) {
    KernelArgument argument;
    argument.name = argument.shown = given.name;
    argument.output = output;
    argument.present = given.tensor != nullptr;
    if (argument.present) {
      if (!Exists(given.tensor)) {
        throw CallError(kAclnnInvalid, argument.shown + " does not exist, or has been destroyed");
      }
      argument.tensor = *given.tensor;
      CheckView(argument);
    }
    executor->arguments.push_back(std::move(argument));
  }
}

}  // namespace

aclnnStatus PrepareHostCall(const char* api, const std::vector<HostTensor>& inputs,
                            const std::vector<HostTensor>& outputs, HostCompute compute,
                            uint64_t* workspace_size, aclOpExecutor** executor) {
  if (workspace_size == nullptr || executor == nullptr) {
    return RefuseCall(api, kAclnnNullptr, "workspaceSize and executor must not be null");
  }
  auto built = std::make_unique<aclOpExecutor>();
  built->op_type = api;
  built->inputs = inputs.size();
  try {
    Append(inputs, false, built.get());
    Append(outputs, true, built.get());
  } catch (const CallError& error) {
    return RefuseCall(api, error.status, error.what());
  }
  built->host = std::move(compute);
  *workspace_size = 0;
  *executor = built.release();
  AddExecutor(*executor);
  return ACL_SUCCESS;
}

aclnnStatus RefuseCall(const char* api, aclnnStatus status, const std::string& what) {
  LogError(api, what);
  return status;
}

void ReadView(const aclTensor& view, void* to) { GatherView(view, to); }
void WriteView(const void* from, const aclTensor& view) { ScatterView(from, view); }

std::string DescribeTensor(const aclTensor& tensor) {
  return DTypeName(tensor.dtype) + " " + ShapeText(tensor.dims);
}

}  // namespace twin
