#include "binding/aclnn_program.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "infer/format.h"

namespace nsa {

namespace {

// Beside this library, in the folder of mindspore_nsa.twin.
std::string twin_path() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&twin_symbol), &info);
  const std::string here = info.dli_fname == nullptr ? "" : info.dli_fname;
  return here.substr(0, here.rfind('/') + 1) + "twin/libmindspore_nsa_twin.so";
}

void* open_twin() {
  const std::string path = twin_path();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error("the library of the Ascend twin cannot be loaded: " +
                             std::string(dlerror()));
  }
  return library;
}

aclDataType acl_dtype(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return ACL_BOOL;
    case DType::kInt32:
      return ACL_INT32;
    case DType::kInt64:
      return ACL_INT64;
    case DType::kUint8:
      return ACL_UINT8;
    case DType::kFloat16:
      return ACL_FLOAT16;
    case DType::kBFloat16:
      return ACL_BF16;
    case DType::kFloat32:
      return ACL_FLOAT;
    default:
      return ACL_DT_UNDEFINED;
  }
}

// Throws with what the library has logged about the call.
void check(const char* function, int status) {
  if (status == ACL_SUCCESS) return;
  const char* reason = NSA_TWIN(aclGetRecentErrMsg)();
  throw std::runtime_error(std::string(function) + " returned " + std::to_string(status) + ": " +
                           (reason == nullptr ? "no reason given" : reason));
}

#define NSA_ACL(function, ...) check(#function, NSA_TWIN(function)(__VA_ARGS__))

size_t byte_count(const CallTensor& tensor) {
  int64_t bytes = dtype_size(tensor.dtype);
  for (int64_t dim : tensor.shape) bytes *= dim;
  return static_cast<size_t>(bytes);
}

}  // namespace

void* twin_symbol(const char* name) {
  static std::mutex mutex;
  static void* library = nullptr;
  static std::map<std::string, void*, std::less<>> symbols;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = symbols.find(name);
  if (known != symbols.end()) return known->second;
  if (library == nullptr) library = open_twin();
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("the library of the Ascend twin has no ") + name);
  }
  return symbols[name] = symbol;
}

AclnnProgram::AclnnProgram(const CheckedCall& call) : call_(call) {
  static std::once_flag initialised;
  std::call_once(initialised, [] { NSA_ACL(aclInit, nullptr); });
  try {
    NSA_ACL(aclrtSetDevice, 0);
    NSA_ACL(aclrtCreateStream, &stream_);
    inputs_.resize(call.inputs.size());
    outputs_.resize(call.outputs.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (const SeqList* values = call.context.values(i)) {
        inputs_[i].list = NSA_TWIN(aclCreateIntArray)(values->data(), values->size());
      } else if (call.has(i)) {
        add_tensor(call.inputs[i], true, &inputs_[i]);
      }
    }
    for (size_t i = 0; i < outputs_.size(); ++i) add_tensor(call.outputs[i], false, &outputs_[i]);
  } catch (...) {
    release();
    throw;
  }
}

AclnnProgram::~AclnnProgram() { release(); }

void AclnnProgram::release() {
  for (std::vector<Argument>* arguments : {&inputs_, &outputs_}) {
    for (Argument& argument : *arguments) {
      if (argument.tensor != nullptr) NSA_TWIN(aclDestroyTensor)(argument.tensor);
      if (argument.list != nullptr) NSA_TWIN(aclDestroyIntArray)(argument.list);
      if (argument.memory != nullptr) NSA_TWIN(aclrtFree)(argument.memory);
      argument = {};
    }
  }
  if (workspace_ != nullptr) NSA_TWIN(aclrtFree)(workspace_);
  if (stream_ != nullptr) NSA_TWIN(aclrtDestroyStream)(stream_);
  workspace_ = nullptr;
  stream_ = nullptr;
}

void* AclnnProgram::allocate(size_t bytes) {
  void* memory = nullptr;
  if (bytes > 0) NSA_ACL(aclrtMalloc, &memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  return memory;
}

void AclnnProgram::add_tensor(const CallTensor& tensor, bool copy, Argument* argument) {
  const size_t bytes = byte_count(tensor);
  argument->memory = allocate(bytes);
  if (copy && bytes > 0) {
    NSA_ACL(aclrtMemcpy, argument->memory, bytes, tensor.data, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  argument->tensor = NSA_TWIN(aclCreateTensor)(
      tensor.shape.data(), tensor.shape.size(), acl_dtype(tensor.dtype), nullptr, 0, ACL_FORMAT_ND,
      tensor.shape.data(), tensor.shape.size(), argument->memory);
  if (argument->tensor == nullptr) check("aclCreateTensor", ACL_ERROR_INVALID_PARAM);
}

void AclnnProgram::run(const char* api, const FirstPhase& first, SecondPhase second) {
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  const std::string first_name = std::string(api) + "GetWorkspaceSize";
  check(first_name.c_str(), first(&workspace_size, &executor));
  workspace_ = allocate(workspace_size);
  check(api, second(workspace_, workspace_size, executor, stream_));
  NSA_ACL(aclrtSynchronizeStream, stream_);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const size_t bytes = byte_count(call_.outputs[i]);
    if (bytes == 0) continue;
    NSA_ACL(aclrtMemcpy, call_.outputs[i].data, bytes, outputs_[i].memory, bytes,
            ACL_MEMCPY_DEVICE_TO_HOST);
  }
}

}  // namespace nsa
