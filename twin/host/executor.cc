#include "twin/host/executor.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "twin/device/launch.h"
#include "twin/host/device_memory.h"
#include "twin/host/forwarded.h"
#include "twin/host/last_launch.h"
#include "twin/host/log.h"
#include "twin/host/machine.h"
#include "twin/host/op_call.h"
#include "twin/host/streams.h"
#include "twin/host/timing.h"

namespace twin {

namespace {

// Not a number in every floating-point type: what the kernel leaves out of an output shows.
constexpr int kGarbage = 0xFF;

struct Executors {
  std::mutex mutex;
  std::set<const aclOpExecutor*> all;
};

Executors& TheExecutors() {
  static Executors executors;
  return executors;
}

// Memory of the kernel's arguments during one run.
struct Memory {
  std::vector<void*> addresses;  // as the kernel gets them
  std::vector<GlobalArgument> buffers;
};

// First byte of the argument as the kernel sees it; null for an absent one.
void* AddressOf(const KernelArgument& argument, void* workspace) {
  if (!argument.present) return nullptr;
  if (argument.host_values) return const_cast<uint64_t*>(argument.values.data());
  if (argument.copy_offset >= 0) return static_cast<uint8_t*>(workspace) + argument.copy_offset;
  if (argument.tensor.data == nullptr) return nullptr;
  return static_cast<uint8_t*>(argument.tensor.data) +
         argument.tensor.offset * static_cast<int64_t>(aclDataTypeSize(argument.tensor.dtype));
}

void InitialiseOutput(const KernelArgument& argument, void* address) {
  const uint64_t bytes = ByteCount(argument.tensor);
  if (bytes == 0) return;
  std::memset(address, kGarbage, bytes);
  if (!argument.has_init_value) return;
  const size_t size = aclDataTypeSize(argument.tensor.dtype);
  for (uint64_t at = 0; at < bytes; at += size) {
    std::memcpy(static_cast<uint8_t*>(address) + at, &argument.init_value,
                std::min(size, sizeof(argument.init_value)));
  }
}

Memory Arrange(const aclOpExecutor& executor, void* workspace) {
  Memory memory;
  for (const KernelArgument& argument : executor.arguments) {
    void* address = AddressOf(argument, workspace);
    memory.addresses.push_back(address);
    if (address == nullptr) continue;
    // An output that is an input is the input's buffer, and holds what it does.
    if (argument.output && argument.ref >= 0) continue;
    if (argument.output) {
      InitialiseOutput(argument, address);
    } else if (argument.copy_offset >= 0) {
      GatherView(argument.tensor, address);
    }
    const bool both = argument.has_init_value || argument.ref >= 0;
    const Role role = both ? Role::kInOut : argument.output ? Role::kOutput : Role::kInput;
    memory.buffers.push_back({argument.name, address, ByteCount(argument.tensor), role});
  }
  uint8_t* user = static_cast<uint8_t*>(workspace) + kLibraryWorkspaceBytes;
  memory.addresses.push_back(user);
  memory.buffers.push_back({"workspace", user,
                            executor.tiled.workspace_bytes - kLibraryWorkspaceBytes,
                            Role::kWorkspace});
  void* tiling = const_cast<uint64_t*>(executor.tiled.data.data());
  memory.addresses.push_back(tiling);
  memory.buffers.push_back({"tiling", tiling, executor.tiled.data_bytes, Role::kTiling});
  return memory;
}

// The tensors and the workspace are still device memory; the name of the first that is not, else
// "".
std::string FreedArgument(const aclOpExecutor& executor, const void* workspace) {
  for (const KernelArgument& argument : executor.arguments) {
    if (!argument.present || argument.host_values) continue;
    const ElementRange range = RangeOf(argument.tensor);
    const int64_t needed = range.end * static_cast<int64_t>(aclDataTypeSize(argument.tensor.dtype));
    if (range.begin != range.end && DeviceBytesFrom(argument.tensor.data) < needed) {
      return argument.shown;
    }
  }
  const auto needed = static_cast<int64_t>(executor.workspace_bytes);
  return needed > 0 && DeviceBytesFrom(workspace) < needed ? "workspace" : "";
}

// The first tensor with elements that has no memory; "" if there is none.
std::string ArgumentWithoutMemory(const aclOpExecutor& executor) {
  for (const KernelArgument& argument : executor.arguments) {
    if (!argument.present || argument.host_values || argument.tensor.data != nullptr) continue;
    if (ElementCount(argument.tensor) > 0) return argument.shown;
  }
  return "";
}

// Names what shares memory with an output, "" if nothing does: the order of reads and writes is the
// kernel's. A tensor with gaps may lie between the elements of another one, and reaches the kernel
// as a copy.
std::string Overlap(const aclOpExecutor& executor) {
  struct Span {
    const KernelArgument* argument;
    const uint8_t* begin;
    const uint8_t* end;
  };
  std::vector<Span> spans;
  for (const KernelArgument& argument : executor.arguments) {
    if (!argument.present || argument.host_values || !IsContiguous(argument.tensor)) continue;
    const ElementRange range = RangeOf(argument.tensor);
    const auto* base = static_cast<const uint8_t*>(argument.tensor.data);
    const auto size = static_cast<int64_t>(aclDataTypeSize(argument.tensor.dtype));
    if (range.begin == range.end) continue;
    spans.push_back({&argument, base + range.begin * size, base + range.end * size});
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    for (size_t j = 0; j < spans.size(); ++j) {
      if (i == j || !spans[i].argument->output) continue;
      // A tensor that is both lies where it lies.
      if (spans[i].argument->ref >= 0 &&
          spans[j].argument == &executor.arguments[spans[i].argument->ref]) {
        continue;
      }
      if (spans[i].begin >= spans[j].end || spans[j].begin >= spans[i].end) continue;
      return spans[i].argument->shown + " and " + spans[j].argument->shown;
    }
  }
  return "";
}

}  // namespace

void AddExecutor(aclOpExecutor* executor) {
  const std::lock_guard<std::mutex> lock(TheExecutors().mutex);
  TheExecutors().all.insert(executor);
}

bool IsExecutor(const aclOpExecutor* executor) {
  const std::lock_guard<std::mutex> lock(TheExecutors().mutex);
  return TheExecutors().all.count(executor) != 0;
}

void DeleteExecutor(aclOpExecutor* executor) {
  {
    const std::lock_guard<std::mutex> lock(TheExecutors().mutex);
    TheExecutors().all.erase(executor);
  }
  delete executor;
}

aclError Execute(const char* api, const aclOpExecutor& executor, void* workspace) {
  const std::string freed = FreedArgument(executor, workspace);
  if (!freed.empty()) {
    LogError(api, freed + " was freed before the stream was waited for");
    return ACL_ERROR_RT_AICORE_EXCEPTION;
  }
  if (executor.host) {
    executor.host(executor.arguments);
    return ACL_SUCCESS;
  }
  const Memory memory = Arrange(executor, workspace);
  const Machine machine = CurrentMachine();
  LaunchOptions options;
  options.kernel = executor.kernel->name;
  options.block_dim = executor.tiled.blocks;
  options.tiling_key = executor.tiled.key;
  options.seed = machine.seed;
  options.aic_cores = machine.info.cube_cores;
  options.aiv_cores = machine.info.vector_cores;
  options.buffers = memory.buffers;
  options.clock = CurrentClock();
  const KernelFunction kernel = executor.kernel->function;
  void* const* addresses = memory.addresses.data();
  LaunchReport report = Launch(options, [=] { kernel(addresses); });
  const bool ok = report.ok;
  if (!ok) LogError(api, report.error);
  for (size_t i = 0; ok && i < executor.arguments.size(); ++i) {
    const KernelArgument& argument = executor.arguments[i];
    if (!argument.output || argument.copy_offset < 0) continue;
    ScatterView(static_cast<uint8_t*>(workspace) + argument.copy_offset, argument.tensor);
  }
  RememberTiming(report);
  RememberLaunch(std::move(report));
  return ok ? ACL_SUCCESS : ACL_ERROR_RT_AICORE_EXCEPTION;
}

aclnnStatus RunExecutor(const char* api, void* workspace, uint64_t workspace_size,
                        aclOpExecutor* executor, aclrtStream stream) {
  if (executor == nullptr) {
    LogError(api, "executor must not be null");
    return kAclnnNullptr;
  }
  if (!IsExecutor(executor)) {
    LogError(api, "executor does not exist; one that is not repeatable serves one call");
    return kAclnnInvalid;
  }
  // A call owns its executor, unless that has been made repeatable.
  const auto owned = executor->repeatable
                         ? std::make_shared<const aclOpExecutor>(*executor)
                         : std::make_shared<const aclOpExecutor>(std::move(*executor));
  if (!owned->repeatable) DeleteExecutor(executor);
  if (owned->workspace_bytes > 0 && workspace == nullptr) {
    LogError(api, "workspace must not be null");
    return kAclnnNullptr;
  }
  const std::string needed = std::to_string(owned->workspace_bytes);
  if (workspace_size < owned->workspace_bytes) {
    LogError(api, "workspaceSize must be " + needed + " as the first phase has said, got " +
                      std::to_string(workspace_size));
    return kAclnnInvalid;
  }
  const int64_t bytes = owned->workspace_bytes == 0 ? 0 : DeviceBytesFrom(workspace);
  if (bytes < static_cast<int64_t>(owned->workspace_bytes)) {
    LogError(api, bytes < 0 ? "workspace is not in device memory"
                            : "workspace must have " + needed + " bytes, its device memory has " +
                                  std::to_string(bytes));
    return kAclnnInvalid;
  }
  if (!owned->launch) return CheckReady(api);
  const std::string without = ArgumentWithoutMemory(*owned);
  if (!without.empty()) {
    LogError(api, without + " has no memory");
    return kAclnnNullptr;
  }
  const std::string freed = FreedArgument(*owned, workspace);
  if (!freed.empty()) {
    LogError(api, freed + " was freed after the first phase");
    return kAclnnInvalid;
  }
  // A call that the host computes reads all before it writes.
  const std::string shared = owned->host ? "" : Overlap(*owned);
  if (!shared.empty()) {
    LogError(api, shared + " share device memory");
    return kAclnnInvalid;
  }
  return Enqueue(api, stream, [owned, workspace, name = std::string(api)] {
    try {
      return Execute(name.c_str(), *owned, workspace);
    } catch (const std::exception& error) {
      LogError(name, error.what());
      return ACL_ERROR_INTERNAL_ERROR;
    }
  });
}

}  // namespace twin

using twin::LogError;

void TwinMarkForwarded(aclOpExecutor* executor) { executor->forwarded = true; }

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (executor == nullptr || !twin::IsExecutor(executor)) {
    LogError("aclSetAclOpExecutorRepeatable", "executor does not exist");
    return executor == nullptr ? twin::kAclnnNullptr : twin::kAclnnInvalid;
  }
  // Some of CANN's operators refuse, too; their callers make an executor for each call.
  if (executor->host || executor->forwarded ||
      std::getenv("ASCENDC_TWIN_NOT_REPEATABLE") != nullptr) {
    return twin::kAclnnInvalid;
  }
  executor->repeatable = true;
  return ACL_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  if (executor == nullptr || !twin::IsExecutor(executor)) {
    LogError("aclDestroyAclOpExecutor", "executor does not exist");
    return executor == nullptr ? twin::kAclnnNullptr : twin::kAclnnInvalid;
  }
  twin::DeleteExecutor(executor);
  return ACL_SUCCESS;
}

namespace {

// An index counts these.
enum class Place { kInputs, kOutputs, kAll };

aclnnStatus SetAddress(const char* function, aclOpExecutor* executor, Place place, size_t index,
                       aclTensor* tensor, void* address) {
  if (executor == nullptr || tensor == nullptr || address == nullptr) {
    LogError(function, "an argument is null");
    return twin::kAclnnNullptr;
  }
  if (!twin::Exists(tensor)) {
    LogError(function, "the tensor does not exist");
    return twin::kAclnnInvalid;
  }
  if (!twin::IsExecutor(executor) || !executor->repeatable) {
    LogError(function, "executor is not repeatable, or does not exist");
    return twin::kAclnnInvalid;
  }
  const size_t at = place == Place::kOutputs ? executor->inputs + index : index;
  const size_t end = place == Place::kInputs ? executor->inputs : executor->arguments.size();
  if (at >= end || !executor->arguments[at].present || executor->arguments[at].host_values) {
    LogError(function, "there is no tensor with index " + std::to_string(index));
    return twin::kAclnnInvalid;
  }
  executor->arguments[at].tensor.data = address;
  const int ref = executor->arguments[at].ref;
  if (ref >= 0) executor->arguments[ref].tensor.data = address;
  tensor->data = address;
  return ACL_SUCCESS;
}

}  // namespace

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                  void* addr) {
  return SetAddress("aclSetInputTensorAddr", executor, Place::kInputs, index, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                   void* addr) {
  return SetAddress("aclSetOutputTensorAddr", executor, Place::kOutputs, index, tensor, addr);
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                             void* addr) {
  return SetAddress("aclSetTensorAddr", executor, Place::kAll, index, tensor, addr);
}
