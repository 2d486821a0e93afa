#include "binding/aclnn_program.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "ascendc/common/op_host/dtypes.h"
#include "infer/format.h"

namespace nsa {

namespace {

// Beside this library, in the folder of mindspore_nsa.twin.
std::string twin_path() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&twin_path), &info);
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

// aclDataType has the numbers of ge::DataType.
static_assert(static_cast<int>(ACL_FLOAT) == static_cast<int>(ge::DT_FLOAT));
static_assert(static_cast<int>(ACL_BF16) == static_cast<int>(ge::DT_BF16));
static_assert(static_cast<int>(ACL_BOOL) == static_cast<int>(ge::DT_BOOL));

aclDataType acl_dtype(DType dtype) { return static_cast<aclDataType>(ascend::ge_dtype_of(dtype)); }

// A function of the twin's library, which stands beside this one and is opened at the first call.
// Throws std::runtime_error where it is missing.
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

// The function `name` of the twin's library, with the type that its header gives it.
#define NSA_TWIN(name) (reinterpret_cast<decltype(&name)>(twin_symbol(#name)))

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

int64_t list_size(const SeqList& list) { return static_cast<int64_t>(list.size()); }

}  // namespace

AclnnProgram::AclnnProgram(const CheckedCall& call, const AscendSignature& signature)
    : call_(call), signature_(signature) {
  static std::once_flag initialised;
  std::call_once(initialised, [] { NSA_ACL(aclInit, nullptr); });
  try {
    NSA_ACL(aclrtSetDevice, 0);
    NSA_ACL(aclrtCreateStream, &stream_);
    for (const AscendArgument& argument : signature.arguments) {
      values_.push_back(value_of(argument));
    }
  } catch (...) {
    release();
    throw;
  }
}

AclnnProgram::~AclnnProgram() { release(); }

void AclnnProgram::release() {
  for (aclTensor* tensor : tensors_) NSA_TWIN(aclDestroyTensor)(tensor);
  for (aclIntArray* list : lists_) NSA_TWIN(aclDestroyIntArray)(list);
  for (void* memory : memory_) NSA_TWIN(aclrtFree)(memory);
  if (stream_ != nullptr) NSA_TWIN(aclrtDestroyStream)(stream_);
}

void* AclnnProgram::allocate(size_t bytes) {
  void* memory = nullptr;
  if (bytes == 0) return memory;
  NSA_ACL(aclrtMalloc, &memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  memory_.push_back(memory);
  return memory;
}

aclTensor* AclnnProgram::make_tensor(const CallTensor& tensor, void** memory) {
  *memory = allocate(byte_count(tensor));
  const size_t rank = tensor.shape.size();
  aclTensor* made =
      NSA_TWIN(aclCreateTensor)(tensor.shape.data(), rank, acl_dtype(tensor.dtype), nullptr, 0,
                                ACL_FORMAT_ND, tensor.shape.data(), rank, *memory);
  if (made == nullptr) check("aclCreateTensor", ACL_ERROR_INVALID_PARAM);
  tensors_.push_back(made);
  return made;
}

aclTensor* AclnnProgram::make_filled(const CallTensor& tensor, void** memory) {
  aclTensor* made = make_tensor(tensor, memory);
  const size_t bytes = byte_count(tensor);
  if (bytes > 0) {
    NSA_ACL(aclrtMemcpy, *memory, bytes, tensor.data, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  return made;
}

aclIntArray* AclnnProgram::make_list(const std::vector<int64_t>& values) {
  lists_.push_back(NSA_TWIN(aclCreateIntArray)(values.data(), values.size()));
  return lists_.back();
}

twin::AclnnValue AclnnProgram::attr_value(const AscendArgument& argument) {
  const twin::AclnnParameter& parameter = *argument.parameter;
  const bool given = argument.source == AscendArgument::kAttr;
  const char* name = given ? signature_.schema->attrs[argument.index].name : "";
  const Context& context = call_.context;
  twin::AclnnValue value{};
  switch (parameter.kind) {
    case twin::AclnnKind::kBool:
      value.boolean = (given ? context.int_attr(name) : parameter.default_integer) != 0;
      break;
    case twin::AclnnKind::kInt:
      value.integer = given ? context.int_attr(name) * argument.factor : parameter.default_integer;
      break;
    case twin::AclnnKind::kFloat:
      value.number = given ? context.float_attr(name) : parameter.default_number;
      break;
    case twin::AclnnKind::kString:
      // The function does not change it; its type is CANN's.
      value.string =
          const_cast<char*>(given ? context.str_attr(name).c_str() : parameter.default_string);
      break;
    case twin::AclnnKind::kIntArray:
      // CANN has a list of one for some numbers.
      if (given) value.int_array = make_list({context.int_attr(name)});
      break;
    default:
      break;
  }
  return value;
}

twin::AclnnValue AclnnProgram::value_of(const AscendArgument& argument) {
  twin::AclnnValue value{};
  void* memory = nullptr;
  switch (argument.source) {
    case AscendArgument::kInput: {
      const SeqList* list = call_.context.values(argument.index);
      const bool on_device = argument.parameter->kind == twin::AclnnKind::kTensor;
      if (list != nullptr && on_device) {
        SeqList values = *list;
        const CallTensor tensor{values.data(), DType::kInt64, {list_size(values)}};
        value.tensor = make_filled(tensor, &memory);
      } else if (list != nullptr) {
        value.int_array = make_list(*list);
      } else if (call_.has(argument.index)) {
        const CallTensor& tensor = call_.inputs[argument.index];
        value.tensor = make_filled(tensor, &memory);
        if (argument.parameter->written) results_.push_back({&tensor, memory});
      }
      return value;
    }
    case AscendArgument::kOutput: {
      const CallTensor& tensor = call_.outputs[argument.index];
      value.tensor = make_tensor(tensor, &memory);
      results_.push_back({&tensor, memory});
      return value;
    }
    default:
      return attr_value(argument);
  }
}

void AclnnProgram::run() {
  const std::string second = std::string("aclnn") + signature_.function->op_type;
  const std::string first = second + "GetWorkspaceSize";
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  check(first.c_str(), signature_.function->first_phase(twin_symbol(first.c_str()), values_.data(),
                                                        &workspace_size, &executor));
  void* workspace = allocate(workspace_size);
  using SecondPhase = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);
  const auto launch = reinterpret_cast<SecondPhase>(twin_symbol(second.c_str()));
  check(second.c_str(), launch(workspace, workspace_size, executor, stream_));
  NSA_ACL(aclrtSynchronizeStream, stream_);
  for (const Result& result : results_) {
    const size_t bytes = byte_count(*result.to);
    if (bytes == 0) continue;
    NSA_ACL(aclrtMemcpy, result.to->data, bytes, result.memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST);
  }
}

}  // namespace nsa
