// The operators as MindSpore's ops.Custom (func_type "aot") finds them: per operator a kernel, an
// InferShape and an InferType function, exported by name. One implementation serves all.
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "binding/ascend_signature.h"
#include "binding/ascend_twin.h"
#include "binding/attr_text.h"
#include "binding/custom_call.h"
#include "binding/failure.h"
#include "binding/op_call.h"
#include "cpu/types.h"
#include "infer/op.h"

namespace nsa {

namespace {

// In the text of the operator's one attribute, beside the attributes of the operator: whose kernels
// run; whether a graph calls it; which inputs are given, as bits, the others being placeholders of
// absent optional inputs; whether an aclnn function's lists are Tensors; and, before its place, the
// dtype of an input that is written, and where it lies.
constexpr std::string_view kTargetName = "target";
constexpr std::string_view kGraphName = "graph";
constexpr std::string_view kPresentName = "present";
constexpr std::string_view kListsName = "lists";
constexpr std::string_view kWrittenName = "written";
constexpr int64_t kUnknownRank = -2;  // MindSpore's shape of unknown rank is {-2}

// An input that is written, as Python knows it.
struct InPlaceInput {
  size_t place;
  std::string dtype;
  int64_t address;
};

// "float32@140000000".
InPlaceInput parse_in_place_input(size_t place, const std::string& text) {
  const size_t at = text.find('@');
  return {place, text.substr(0, at), std::stoll(text.substr(at + 1))};
}

// The last inference of a call: MindSpore infers again at every call in PyNative mode.
template <class Inputs, class Outputs>
struct MemoizedInference {
  bool known = false;
  Inputs inputs;
  Outputs outputs;
};

// The parsed text of a call, bound to its operator.
struct CallText {
  CallText(const OpSchema& op, std::string_view text)
      : attrs(op, read(text)), float32(narrowed_inputs(op.id, attrs)) {}

  bool present(size_t input) const { return ((present_ >> input) & 1) != 0; }

  const Backend* backend = &kCpuBackend;
  bool graph = false;
  bool list_tensors = false;
  std::vector<InPlaceInput> in_place_inputs;

 private:
  int64_t present_ = -1;

 public:
  const BoundAttrs attrs;
  // Inputs, as bits, that a Cell of mixed precision narrows although the operator takes float32.
  const uint32_t float32;
  MemoizedInference<std::vector<int64_t>, std::vector<std::vector<int64_t>>> shapes;
  MemoizedInference<std::vector<int>, std::vector<int>> types;

 private:
  // Gives the attributes of the operator, which others stand beside.
  Attrs read(std::string_view text) {
    const Attrs parsed = parse_attrs(text);  // outlives the loop over its items
    Attrs own;
    for (const Attrs::Item& item : parsed.items()) {
      if (item.first == kTargetName) {
        backend = std::get<std::string>(item.second) == "cpu" ? &kCpuBackend : &kAscendTwinBackend;
      } else if (item.first == kGraphName) {
        graph = std::get<int64_t>(item.second) != 0;
      } else if (item.first == kListsName) {
        list_tensors = std::get<int64_t>(item.second) != 0;
      } else if (item.first == kPresentName) {
        present_ = std::get<int64_t>(item.second);
      } else if (item.first.compare(0, kWrittenName.size(), kWrittenName) == 0) {
        const size_t place = std::stoul(item.first.substr(kWrittenName.size()));
        in_place_inputs.push_back(parse_in_place_input(place, std::get<std::string>(item.second)));
      } else {
        own.set(item.first, item.second);
      }
    }
    return own;
  }

  static uint32_t narrowed_inputs(OpId op, const BoundAttrs& attrs) {
    const CpuKernelEntry& entry = cpu_kernel_entry(op);
    return entry.float32_inputs == nullptr ? 0 : entry.float32_inputs(attrs);
  }
};

// Per-thread cache of an operator: the texts it was called with, bound once, and the tensors of a
// call, because allocating some twenty shapes would take longer than the checks of a tiny one.
struct ThreadCache {
  std::map<std::string, CallText, std::less<>> texts;
  std::vector<TensorDesc> inputs, outputs;
};

ThreadCache& thread_cache(OpId op) {
  thread_local ThreadCache all[kOpCount];
  return all[static_cast<size_t>(op)];
}

// The text of a call. The reference holds until the next call on this thread.
CallText& call_text(const OpSchema& op, void* extra) {
  // Lists that change at every step may bring a new row count each time.
  constexpr size_t kMaxCached = 4096;
  auto& texts = thread_cache(op.id).texts;
  const std::string_view text = attr_text(extra);
  const auto found = texts.find(text);
  if (found != texts.end()) return found->second;
  if (texts.size() >= kMaxCached) texts.clear();
  return texts
      .emplace(std::piecewise_construct, std::forward_as_tuple(text),
               std::forward_as_tuple(op, text))
      .first->second;
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Widens a narrowed tensor back to float32; `values` owns the data.
void widen(TensorDesc& tensor, std::vector<float>& values) {
  int64_t size = 1;
  for (int64_t dim : tensor.shape) size *= dim;
  const auto* bits = static_cast<const uint16_t*>(tensor.data);
  values.resize(size);
  for (int64_t i = 0; i < size; ++i) {
    values[i] =
        tensor.dtype == DType::kFloat16 ? cpu::f16_to_float(bits[i]) : cpu::bf16_to_float(bits[i]);
  }
  tensor.data = values.data();
  tensor.dtype = DType::kFloat32;
}

// MindSpore hands over copies of views and of what mixed precision casts. A result that goes into
// one is lost.
void check_written(const OpSchema& op_schema, const CallText& text, void** params,
                   const char** dtypes) {
  for (const InPlaceInput& known : text.in_place_inputs) {
    const std::string name =
        std::string(op_schema.function) + ": " + op_schema.inputs[known.place].name;
    if (dtypes[known.place] != known.dtype) {
      throw WrittenCast(name + " must be of the dtype that mixed precision casts it to: " +
                        "it is written in place, and a cast Tensor is a copy, got " + known.dtype +
                        " in place of " + dtypes[known.place]);
    }
    if (reinterpret_cast<int64_t>(params[known.place]) == known.address) continue;
    throw std::invalid_argument(name +
                                " must be no view of another Tensor: it is written in place, and "
                                "MindSpore passes a copy of a view");
  }
}

std::mutex failure_mutex;
Failure failure;

void record_failure(const std::exception& error) {
  const bool cast = dynamic_cast<const WrittenCast*>(&error) != nullptr;
  const std::lock_guard<std::mutex> lock(failure_mutex);
  failure = {cast ? FailureCode::kWrittenCast : FailureCode::kOther, error.what()};
}

// Describes the tensors that MindSpore passes, and runs the operator on them.
void pass_tensors(const OpSchema& op, const CallText& text, int count, void** params, int* ndims,
                  int64_t** shapes, const char** dtypes) {
  const int num_inputs = static_cast<int>(op.inputs.size());
  check_written(op, text, params, dtypes);
  ThreadCache& cache = thread_cache(op.id);
  std::vector<TensorDesc>&inputs = cache.inputs, &outputs = cache.outputs;
  inputs.resize(num_inputs);
  outputs.resize(count - num_inputs);
  std::vector<std::vector<float>> widened;
  for (int i = 0; i < num_inputs; ++i) {
    inputs[i].present = text.present(i);
    if (!inputs[i].present) continue;
    set_tensor(inputs[i], i, params, ndims, shapes, dtypes);
    if ((text.float32 & input_bit(i)) != 0 && is_half(inputs[i].dtype))
      widen(inputs[i], widened.emplace_back());
  }
  for (int i = num_inputs; i < count; ++i) {
    set_tensor(outputs[i - num_inputs], i, params, ndims, shapes, dtypes);
  }
  check_and_run(text.attrs, inputs, outputs, *text.backend);
}

// Runs an operator for MindSpore; NSA_CUSTOM makes a C function for each.
int run_custom(OpId id, int count, void** params, int* ndims, int64_t** shapes, const char** dtypes,
               void* extra) {
  const OpSchema& op = schema(id);
  const CallText& text = call_text(op, extra);
  try {
    pass_tensors(op, text, count, params, ndims, shapes, dtypes);
  } catch (const std::exception& error) {
    record_failure(error);
    if (!text.graph) throw;
    throw std::runtime_error(error.what() + std::string(kGraphNote));
  }
  return 0;
}

// Who calls an inference function: MindSpore with every input of the operator, or MindSpore on
// behalf of an aclnn function of CANN's package, which it calls by itself. It passes the Tensors
// alone there, in aclnn order. A sequence list is among them where the text says so. The Python
// side has checked the values of one that is a tuple, and has put the number of rows into the
// attributes.
enum class Caller { kCustom, kAclnn };

// Whether MindSpore passes an argument of an aclnn function to its inference.
bool is_passed(const AscendArgument& argument, const CallText& text) {
  if (argument.source != AscendArgument::kInput || !text.present(argument.index)) return false;
  return argument.parameter->kind == AclnnKind::kTensor || text.list_tensors;
}

// Inputs of which nothing is known but whether they are given.
std::vector<TensorDesc> unknown_inputs(const OpSchema& op_schema, const CallText& text) {
  std::vector<TensorDesc> inputs(op_schema.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].known_rank = false;
    inputs[i].present = text.present(i);
  }
  return inputs;
}

// The outputs are those of the aclnn function; one that the operator does not have is empty.
template <class Describe>
std::vector<OutputDesc> infer_for_aclnn(const OpSchema& op, const CallText& text,
                                        const Describe& describe) {
  const AscendSignature& signature = ascend_signature(op.name, "ascend");
  std::vector<TensorDesc> inputs = unknown_inputs(op, text);
  size_t place = 0;
  for (const AscendArgument& argument : signature.arguments) {
    if (is_passed(argument, text)) describe(inputs[argument.index], place++);
  }
  const Context context(text.attrs, inputs, Target::kAscend);
  refuse_dropped(context);
  const std::vector<OutputDesc> all = infer(context);
  std::vector<OutputDesc> outputs;
  for (const AscendArgument& argument : signature.arguments) {
    if (argument.parameter->role != AclnnRole::kOutput) continue;
    const bool known = argument.source == AscendArgument::kOutput;
    outputs.push_back(known ? all[argument.index] : OutputDesc{all[0].dtype, {0}});
  }
  return outputs;
}

// Hands each input that the caller has described to `describe(input, its place in the arguments)`.
template <class Describe>
std::vector<OutputDesc> infer_for(Caller caller, const OpSchema& op, const CallText& text,
                                  const Describe& describe) {
  if (caller == Caller::kAclnn) return infer_for_aclnn(op, text, describe);
  std::vector<TensorDesc> inputs = unknown_inputs(op, text);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present) continue;
    describe(inputs[i], i);
    if ((text.float32 & input_bit(i)) != 0 && is_half(inputs[i].dtype)) {
      inputs[i].dtype = DType::kFloat32;
    }
  }
  const Context context(text.attrs, inputs, text.backend->rules);
  refuse_dropped(context);
  return infer(context);
}

// Result of an inference function: MindSpore wants a vector where the operator has several outputs.
template <size_t kOutputs, class T>
using PerOutput = std::conditional_t<kOutputs == 1, T, std::vector<T>>;

template <size_t kOutputs, class T>
PerOutput<kOutputs, T> per_output(const std::vector<T>& values) {
  if constexpr (kOutputs == 1) {
    return values.at(0);
  } else {
    return values;
  }
}

// Dimensions of all inputs, each after their number.
std::vector<int64_t> flat_shapes(size_t count, const int* ndims, int64_t** shapes) {
  std::vector<int64_t> flat;
  for (size_t i = 0; i < count; ++i) {
    flat.push_back(ndims[i]);
    flat.insert(flat.end(), shapes[i], shapes[i] + ndims[i]);
  }
  return flat;
}

// Whether the shapes are those that flat_shapes() gave; called at every call.
bool are_shapes(const std::vector<int64_t>& flat, size_t count, const int* ndims,
                int64_t** shapes) {
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t ndim = static_cast<size_t>(ndims[i]);
    if (at + 1 + ndim > flat.size() || flat[at] != ndims[i]) return false;
    if (!std::equal(shapes[i], shapes[i] + ndim, flat.begin() + static_cast<int64_t>(at) + 1))
      return false;
    at += 1 + ndim;
  }
  return at == flat.size();
}

// How many Tensors the caller of an inference function passes.
size_t tensor_count(Caller caller, const OpSchema& op, const CallText& text) {
  if (caller == Caller::kCustom) return op.inputs.size();
  size_t count = 0;
  for (const AscendArgument& argument : ascend_signature(op.name, "ascend").arguments) {
    if (is_passed(argument, text)) ++count;
  }
  return count;
}

template <size_t kOutputs>
PerOutput<kOutputs, std::vector<int64_t>> infer_shape(Caller caller, OpId id, int* ndims,
                                                      int64_t** shapes, void* extra) {
  const OpSchema& op = schema(id);
  CallText& text = call_text(op, extra);
  auto& [known, given, inferred] = text.shapes;
  const size_t count = tensor_count(caller, op, text);
  if (!known || !are_shapes(given, count, ndims, shapes)) {
    known = false;
    inferred.clear();
    const auto describe = [&](TensorDesc& input, size_t place) {
      input.known_rank = !(ndims[place] == 1 && shapes[place][0] == kUnknownRank);
      if (input.known_rank) input.shape.assign(shapes[place], shapes[place] + ndims[place]);
    };
    for (OutputDesc& output : infer_for(caller, op, text, describe)) {
      inferred.push_back(std::move(output.shape));
    }
    given = flat_shapes(count, ndims, shapes);
    known = true;
  }
  return per_output<kOutputs>(inferred);
}

template <size_t kOutputs>
PerOutput<kOutputs, int> infer_type(Caller caller, OpId id, const std::vector<int>& type_ids,
                                    void* extra) {
  const OpSchema& op = schema(id);
  CallText& text = call_text(op, extra);
  auto& [known, given, inferred] = text.types;
  if (!known || given != type_ids) {
    known = false;
    inferred.clear();
    const auto describe = [&](TensorDesc& input, size_t place) {
      if (place < type_ids.size()) input.dtype = static_cast<DType>(type_ids[place]);
    };
    for (const OutputDesc& output : infer_for(caller, op, text, describe)) {
      inferred.push_back(static_cast<int>(output.dtype));
    }
    given = type_ids;
    known = true;
  }
  return per_output<kOutputs>(inferred);
}

}  // namespace

Failure last_failure() {
  const std::lock_guard<std::mutex> lock(failure_mutex);
  return failure;
}

}  // namespace nsa

// MindSpore fixes these names and signatures; it passes std::vector by value and across the border
// of the library, which the two layouts of std::string do not affect.
#pragma GCC visibility push(default)

#define NSA_INFERENCE(symbol, caller, op, outputs)                                                 \
  extern "C" nsa::PerOutput<outputs, std::vector<int64_t>> symbol##InferShape(                     \
      int* ndims, int64_t** shapes, void* extra) {                                                 \
    return nsa::infer_shape<outputs>(nsa::Caller::caller, nsa::OpId::k##op, ndims, shapes, extra); \
  }                                                                                                \
  extern "C" nsa::PerOutput<outputs, int> symbol##InferType(std::vector<int> types, void* extra) { \
    return nsa::infer_type<outputs>(nsa::Caller::caller, nsa::OpId::k##op, types, extra);          \
  }

#define NSA_CUSTOM(op, function, outputs)                                                        \
  extern "C" int op(int count, void** params, int* ndims, int64_t** shapes, const char** dtypes, \
                    void*, void* extra) {                                                        \
    return nsa::run_custom(nsa::OpId::k##op, count, params, ndims, shapes, dtypes, extra);       \
  }                                                                                              \
  NSA_INFERENCE(op, kCustom, op, outputs)

NSA_OPERATORS(NSA_CUSTOM)

// Inference of the aclnn functions, with the numbers of their outputs.
NSA_INFERENCE(aclnnMsnsaCompress, kAclnn, NsaCompress, 1)
NSA_INFERENCE(aclnnMsnsaCompressGrad, kAclnn, NsaCompressGrad, 2)
NSA_INFERENCE(aclnnMsnsaCompressAttention, kAclnn, NsaCompressAttention, 4)
NSA_INFERENCE(aclnnMsnsaSelectedAttention, kAclnn, NsaSelectedAttention, 3)
NSA_INFERENCE(aclnnMsnsaSelectedAttentionGrad, kAclnn, NsaSelectedAttentionGrad, 3)
NSA_INFERENCE(aclnnMsnsaFlashAttention, kAclnn, FlashAttentionScore, 4)
NSA_INFERENCE(aclnnMsnsaFlashAttentionGrad, kAclnn, FlashAttentionScoreGrad, 5)
NSA_INFERENCE(aclnnMsnsaCompressWithCache, kAclnn, NsaCompressWithCache, 1)
NSA_INFERENCE(aclnnMsnsaSelectedAttentionInfer, kAclnn, NsaSelectedAttentionInfer, 1)
NSA_INFERENCE(aclnnMsnsaCompressAttentionInfer, kAclnn, NsaCompressAttentionInfer, 2)
NSA_INFERENCE(aclnnMsnsaDecode, kAclnn, NsaDecode, 1)
NSA_INFERENCE(aclnnMsnsaCacheStep, kAclnn, NsaCacheStep, 1)

#pragma GCC visibility pop
