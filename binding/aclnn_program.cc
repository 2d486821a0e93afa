#include "binding/aclnn_program.h"

#include <dlfcn.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "ascendc/common/op_host/dtypes.h"
#include "binding/ascend_twin.h"
#include "infer/format.h"

namespace nsa {

namespace {

// The library of the operators, whose functions and those of the twin that it needs are called.
std::atomic<void*> operators_library{nullptr};

// aclDataType has the numbers of ge::DataType.
static_assert(static_cast<int>(ACL_FLOAT) == static_cast<int>(ge::DT_FLOAT));
static_assert(static_cast<int>(ACL_BF16) == static_cast<int>(ge::DT_BF16));
static_assert(static_cast<int>(ACL_BOOL) == static_cast<int>(ge::DT_BOOL));

aclDataType acl_dtype(DType dtype) { return static_cast<aclDataType>(ascend::ge_dtype_of(dtype)); }

// A function of the operators' library or of the twin's. Throws std::runtime_error where they have
// not been opened.
void* twin_symbol(const char* name) {
  static std::mutex mutex;
  static std::map<std::string, void*, std::less<>> symbols;
  void* library = operators_library;
  if (library == nullptr) {
    throw std::runtime_error(
        "the libraries of target 'ascend_twin' are not open: call "
        "mindspore_nsa.set_target('ascend_twin') first");
  }
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = symbols.find(name);
  if (known != symbols.end()) return known->second;
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("the libraries of target 'ascend_twin' have no ") + name);
  }
  return symbols[name] = symbol;
}

// The function `name` of these libraries, with the type that its header gives it.
#define NSA_TWIN(name) (reinterpret_cast<decltype(&name)>(twin_symbol(#name)))

// For what must not throw: nullptr where the libraries do not have the function.
#define NSA_TWIN_OR_NULL(name) \
  (reinterpret_cast<decltype(&name)>(dlsym(operators_library.load(), #name)))

template <class Function, class Handle>
void free_by(Function function, Handle handle) noexcept {
  if (function != nullptr) function(handle);
}

// Throws with what the library has logged about the call.
void check(const char* function, int status) {
  if (status == ACL_SUCCESS) return;
  const char* reason = NSA_TWIN(aclGetRecentErrMsg)();
  throw std::runtime_error(std::string(function) + " returned " + std::to_string(status) + ": " +
                           (reason == nullptr ? "no reason given" : reason));
}

#define NSA_ACL(function, ...) check(#function, NSA_TWIN(function)(__VA_ARGS__))

size_t byte_count(const TensorDesc& tensor) {
  int64_t bytes = dtype_size(tensor.dtype);
  for (int64_t dim : tensor.shape) bytes *= dim;
  return static_cast<size_t>(bytes);
}

int64_t list_size(const SeqList& list) { return static_cast<int64_t>(list.size()); }

}  // namespace

void open_ascend_twin(const std::vector<std::string>& libraries) {
  for (const std::string& path : libraries) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      throw std::runtime_error("a library of target 'ascend_twin' cannot be loaded: " +
                               std::string(dlerror()));
    }
    operators_library = library;
  }
}

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

// An exception that left a destructor would end the process.
void AclnnProgram::release() noexcept {
  for (aclTensor* tensor : tensors_) free_by(NSA_TWIN_OR_NULL(aclDestroyTensor), tensor);
  for (aclIntArray* list : lists_) free_by(NSA_TWIN_OR_NULL(aclDestroyIntArray), list);
  for (void* memory : memory_) free_by(NSA_TWIN_OR_NULL(aclrtFree), memory);
  if (stream_ != nullptr) free_by(NSA_TWIN_OR_NULL(aclrtDestroyStream), stream_);
}

void* AclnnProgram::allocate(size_t bytes) {
  void* memory = nullptr;
  if (bytes == 0) return memory;
  NSA_ACL(aclrtMalloc, &memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  memory_.push_back(memory);
  return memory;
}

aclTensor* AclnnProgram::make_tensor(const TensorDesc& tensor, void** memory) {
  *memory = allocate(byte_count(tensor));
  const size_t rank = tensor.shape.size();
  aclTensor* made =
      NSA_TWIN(aclCreateTensor)(tensor.shape.data(), rank, acl_dtype(tensor.dtype), nullptr, 0,
                                ACL_FORMAT_ND, tensor.shape.data(), rank, *memory);
  if (made == nullptr) check("aclCreateTensor", ACL_ERROR_INVALID_PARAM);
  tensors_.push_back(made);
  return made;
}

aclTensor* AclnnProgram::make_filled(const TensorDesc& tensor, void** memory) {
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

AclnnValue AclnnProgram::attr_value(const AscendArgument& argument) {
  const AclnnParameter& parameter = *argument.parameter;
  const Attrs::Value* given =
      argument.source == AscendArgument::kAttr ? &call_.context.attr(argument.index) : nullptr;
  const int64_t* integer = given == nullptr ? nullptr : std::get_if<int64_t>(given);
  AclnnValue value{};
  switch (parameter.kind) {
    case AclnnKind::kBool:
      value.boolean = (given ? std::get<int64_t>(*given) : parameter.default_integer) != 0;
      break;
    case AclnnKind::kInt:
      value.integer =
          given ? std::get<int64_t>(*given) * argument.factor : parameter.default_integer;
      break;
    case AclnnKind::kFloat:
      value.number = integer ? static_cast<double>(*integer)
                     : given ? std::get<double>(*given)
                             : parameter.default_number;
      break;
    case AclnnKind::kString:
      // The function does not change it; its type is CANN's.
      value.string = const_cast<char*>(given ? std::get<std::string>(*given).c_str()
                                             : parameter.default_string);
      break;
    case AclnnKind::kIntArray:
      // CANN has a list of one for some numbers.
      if (given) value.int_array = make_list({std::get<int64_t>(*given)});
      break;
    default:
      break;
  }
  return value;
}

AclnnValue AclnnProgram::value_of(const AscendArgument& argument) {
  AclnnValue value{};
  void* memory = nullptr;
  switch (argument.source) {
    case AscendArgument::kInput: {
      const SeqList* list = call_.context.values(argument.index);
      const bool on_device = argument.parameter->kind == AclnnKind::kTensor;
      if (list != nullptr && on_device) {
        SeqList values = *list;
        TensorDesc tensor{true, DType::kInt64, true, {list_size(values)}};
        tensor.data = values.data();
        value.tensor = make_filled(tensor, &memory);
      } else if (list != nullptr) {
        value.int_array = make_list(*list);
      } else if (call_.has(argument.index)) {
        const TensorDesc& tensor = call_.in(argument.index);
        value.tensor = make_filled(tensor, &memory);
        if (argument.parameter->written) results_.push_back({&tensor, memory});
      }
      return value;
    }
    case AscendArgument::kOutput: {
      const TensorDesc& tensor = call_.outputs[argument.index];
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
