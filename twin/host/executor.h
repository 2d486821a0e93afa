// A tiled call, ready to be put into a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "twin/host/objects.h"
#include "twin/host/registry.h"

namespace twin {

// An argument of the kernel.
struct KernelArgument {
  std::string name;   // in the definition
  std::string shown;  // in the aclnn function
  bool present = false;
  bool output = false;
  int ref = -1;  // the argument that is the same tensor: an input that is also an output
  bool has_init_value = false;
  uint64_t init_value = 0;
  aclTensor tensor;              // without memory where `values` has the content
  std::vector<uint64_t> values;  // of a list, as the kernel reads it
  bool host_values = false;
  // Where a contiguous copy of a tensor with gaps is, in bytes from the beginning of the
  // workspace; -1 where the kernel reads or writes the tensor itself.
  int64_t copy_offset = -1;
};

// The decisions of tiling.
struct Tiled {
  uint32_t blocks = 0;
  uint64_t key = 0;
  uint32_t schedule_mode = 0;
  std::vector<uint64_t> data;  // tiling data, in whole words
  uint64_t data_bytes = 0;
  uint64_t workspace_bytes = 0;  // the library's part included
};

}  // namespace twin

struct aclOpExecutor {
  std::string op_type;
  std::vector<twin::KernelArgument> arguments;  // inputs, outputs
  size_t inputs = 0;
  bool launch = true;  // false: nothing to compute
  const twin::Kernel* kernel = nullptr;
  twin::Tiled tiled;
  uint64_t workspace_bytes = 0;  // with the copies
  bool repeatable = false;
  // See TwinMarkForwarded.
  bool forwarded = false;
  // Computes the call in place of a kernel; none of the operators' own.
  std::function<void(const std::vector<twin::KernelArgument>&)> host;
};

namespace twin {

// Executors that exist, because a handle may be anything.
void AddExecutor(aclOpExecutor* executor);
bool IsExecutor(const aclOpExecutor* executor);
void DeleteExecutor(aclOpExecutor* executor);

// Runs the kernel now. ACL_SUCCESS, or the error, logged.
aclError Execute(const char* api, const aclOpExecutor& executor, void* workspace);

}  // namespace twin
