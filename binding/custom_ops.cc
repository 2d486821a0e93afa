// The operators as MindSpore's ops.Custom (func_type "aot") finds them: per operator a kernel, an
// InferShape and an InferType function, exported by name. One implementation serves all.
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "binding/ascend_twin.h"
#include "binding/attr_text.h"
#include "binding/custom_extra.h"
#include "binding/op_call.h"
#include "cpu/simd/half.h"
#include "infer/flash_attention.h"
#include "infer/op.h"

namespace nsa {

namespace {

constexpr const char* kAttrsName = "nsa_attrs";     // set by mindspore_nsa/ops
constexpr std::string_view kTargetName = "target";  // in its text
constexpr int64_t kUnknownRank = -2;                // MindSpore's shape of unknown rank is {-2}

// The text of the one attribute; the view holds until the next call on this thread.
std::string_view attr_text(void* extra) {
  thread_local std::string buffer(1024, '\0');
  size_t size = nsa_custom_string_attr(extra, kAttrsName, buffer.data(), buffer.size());
  if (size > buffer.size()) {
    buffer.resize(size);
    size = nsa_custom_string_attr(extra, kAttrsName, buffer.data(), buffer.size());
  }
  return {buffer.data(), size};
}

// The attributes of a call, and the kernels that it is for.
struct CallText {
  explicit CallText(std::string_view text) {
    const Attrs parsed = parse_attrs(text);  // outlives the loop over its items
    for (const Attrs::Item& item : parsed.items()) {
      if (item.first == kTargetName) {
        kernels = std::get<std::string>(item.second) == "cpu" ? &kCpuKernels : &kAscendTwinKernels;
      } else {
        attrs.set(item.first, item.second);
      }
    }
  }

  Attrs attrs;
  const Kernels* kernels = &kCpuKernels;
};

// What the text of a call says, parsed once per thread and text. The reference holds until the next
// call on this thread.
const CallText& call_text(void* extra) {
  thread_local std::map<std::string, CallText, std::less<>> parsed;
  // Lists that change at every step may bring a new row count each time.
  constexpr size_t kMaxCached = 4096;
  const std::string_view text = attr_text(extra);
  const auto found = parsed.find(text);
  if (found != parsed.end()) return found->second;
  if (parsed.size() >= kMaxCached) parsed.clear();
  return parsed.emplace(text, CallText(text)).first->second;
}

// Inputs that are float32 whatever the query is: position bias slopes and sink. Mixed precision of
// a Cell narrows every floating input of every operator, these too.
std::vector<size_t> float32_inputs(const OpSchema& op, const Attrs& attrs) {
  if (op.id != OpId::kFlashAttentionScore && op.id != OpId::kFlashAttentionScoreGrad) return {};
  const FlashInputs in = flash_inputs(op.id);
  if (attrs.get_int("pse_type", 1) >= 2) return {in.real_shift, in.sink};
  return {in.sink};
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Makes a narrowed tensor float32 again; `values` keeps it.
void widen(CallTensor& tensor, std::vector<float>& values) {
  if (!is_half(tensor.dtype)) return;
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

// A call's tensors. Kept per thread and operator: allocating some twenty shapes would take longer
// than the checks of a tiny call.
struct CallBuffers {
  std::vector<CallTensor> inputs, outputs;
};

CallBuffers& buffers_of(OpId op) {
  thread_local std::map<OpId, CallBuffers> buffers;
  return buffers[op];
}

void set_tensor(CallTensor& tensor, int index, void** params, int* ndims, int64_t** shapes,
                const char** dtypes) {
  tensor.present = true;
  tensor.data = params[index];
  tensor.shape.assign(shapes[index], shapes[index] + ndims[index]);
  if (!dtype_from_name(dtypes[index], &tensor.dtype)) {
    throw std::invalid_argument("unknown dtype " + std::string(dtypes[index]));
  }
}

int run(const char* op, int count, void** params, int* ndims, int64_t** shapes, const char** dtypes,
        void* extra) {
  const OpSchema& op_schema = schema(op);
  const auto& [attrs, kernels] = call_text(extra);
  const int num_inputs = static_cast<int>(op_schema.inputs.size());
  auto& [inputs, outputs] = buffers_of(op_schema.id);
  inputs.resize(num_inputs);
  outputs.resize(count - num_inputs);
  const int64_t present = attrs.get_int(kPresentAttr, -1);
  for (int i = 0; i < num_inputs; ++i) {
    if ((present >> i) & 1) {
      set_tensor(inputs[i], i, params, ndims, shapes, dtypes);
    } else {
      inputs[i].present = false;  // a placeholder, of which nothing matters
    }
  }
  for (int i = num_inputs; i < count; ++i) {
    set_tensor(outputs[i - num_inputs], i, params, ndims, shapes, dtypes);
  }
  std::vector<float> widened[2];
  size_t used = 0;
  for (size_t i : float32_inputs(op_schema, attrs)) {
    if (inputs[i].present) widen(inputs[i], widened[used++]);
  }
  call(op, inputs, outputs, attrs, *kernels);
  return 0;
}

std::vector<std::vector<int64_t>> infer_shapes(const char* op, int* ndims, int64_t** shapes,
                                               void* extra) {
  std::vector<TensorDesc> inputs(schema(op).inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].known_rank = !(ndims[i] == 1 && shapes[i][0] == kUnknownRank);
    if (inputs[i].known_rank) inputs[i].shape.assign(shapes[i], shapes[i] + ndims[i]);
  }
  const auto& [attrs, kernels] = call_text(extra);
  std::vector<std::vector<int64_t>> result;
  for (OutputDesc& output : infer(op, inputs, attrs, kernels->rules)) {
    result.push_back(std::move(output.shape));
  }
  return result;
}

std::vector<int> infer_types(const char* op, const std::vector<int>& type_ids, void* extra) {
  std::vector<TensorDesc> inputs(type_ids.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].dtype = static_cast<DType>(type_ids[i]);
    inputs[i].known_rank = false;
  }
  const auto& [attrs, kernels] = call_text(extra);
  for (size_t i : float32_inputs(schema(op), attrs)) {
    if (is_half(inputs[i].dtype)) inputs[i].dtype = DType::kFloat32;
  }
  std::vector<int> result;
  for (const OutputDesc& output : infer(op, inputs, attrs, kernels->rules)) {
    result.push_back(static_cast<int>(output.dtype));
  }
  return result;
}

// Inputs of the schema in the order in which an aclnn function has them, lists left out.
std::vector<size_t> aclnn_tensors(const OpSchema& op) {
  std::vector<size_t> tensors;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i].list) tensors.push_back(i);
  }
  return tensors;
}

std::vector<TensorDesc> unknown_inputs(const OpSchema& op) {
  std::vector<TensorDesc> inputs(op.inputs.size());
  for (TensorDesc& input : inputs) input.known_rank = false;
  return inputs;
}

std::vector<std::vector<int64_t>> infer_aclnn_shapes(const char* op, int* ndims, int64_t** shapes,
                                                     void* extra) {
  std::vector<TensorDesc> inputs = unknown_inputs(schema(op));
  const std::vector<size_t> tensors = aclnn_tensors(schema(op));
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorDesc& input = inputs[tensors[i]];
    input.known_rank = !(ndims[i] == 1 && shapes[i][0] == kUnknownRank);
    if (input.known_rank) input.shape.assign(shapes[i], shapes[i] + ndims[i]);
  }
  std::vector<std::vector<int64_t>> result;
  for (OutputDesc& output : infer(op, inputs, call_text(extra).attrs, Target::kAscend)) {
    result.push_back(std::move(output.shape));
  }
  return result;
}

std::vector<int> infer_aclnn_types(const char* op, const std::vector<int>& type_ids, void* extra) {
  std::vector<TensorDesc> inputs = unknown_inputs(schema(op));
  const std::vector<size_t> tensors = aclnn_tensors(schema(op));
  for (size_t i = 0; i < tensors.size() && i < type_ids.size(); ++i) {
    inputs[tensors[i]].dtype = static_cast<DType>(type_ids[i]);
  }
  std::vector<int> result;
  for (const OutputDesc& output : infer(op, inputs, call_text(extra).attrs, Target::kAscend)) {
    result.push_back(static_cast<int>(output.dtype));
  }
  return result;
}

}  // namespace

}  // namespace nsa

// MindSpore fixes these names and signatures; it passes std::vector by value and across the border
// of the library, which the two layouts of std::string do not affect.
#pragma GCC visibility push(default)

#define NSA_CUSTOM_KERNEL(op)                                                                    \
  extern "C" int op(int count, void** params, int* ndims, int64_t** shapes, const char** dtypes, \
                    void*, void* extra) {                                                        \
    return nsa::run(#op, count, params, ndims, shapes, dtypes, extra);                           \
  }

#define NSA_CUSTOM_ONE_OUTPUT(op)                                                             \
  NSA_CUSTOM_KERNEL(op)                                                                       \
  extern "C" std::vector<int64_t> op##InferShape(int* ndims, int64_t** shapes, void* extra) { \
    return nsa::infer_shapes(#op, ndims, shapes, extra)[0];                                   \
  }                                                                                           \
  extern "C" int op##InferType(std::vector<int> type_ids, void* extra) {                      \
    return nsa::infer_types(#op, type_ids, extra)[0];                                         \
  }

#define NSA_CUSTOM_MORE_OUTPUTS(op)                                                         \
  NSA_CUSTOM_KERNEL(op)                                                                     \
  extern "C" std::vector<std::vector<int64_t>> op##InferShape(int* ndims, int64_t** shapes, \
                                                              void* extra) {                \
    return nsa::infer_shapes(#op, ndims, shapes, extra);                                    \
  }                                                                                         \
  extern "C" std::vector<int> op##InferType(std::vector<int> type_ids, void* extra) {       \
    return nsa::infer_types(#op, type_ids, extra);                                          \
  }

NSA_CUSTOM_ONE_OUTPUT(NsaCompress)
NSA_CUSTOM_MORE_OUTPUTS(NsaCompressGrad)
NSA_CUSTOM_MORE_OUTPUTS(NsaCompressAttention)
NSA_CUSTOM_MORE_OUTPUTS(NsaSelectedAttention)
NSA_CUSTOM_MORE_OUTPUTS(NsaSelectedAttentionGrad)
NSA_CUSTOM_MORE_OUTPUTS(FlashAttentionScore)
NSA_CUSTOM_MORE_OUTPUTS(FlashAttentionScoreGrad)
NSA_CUSTOM_ONE_OUTPUT(NsaDropoutMask)

// The same inference for the aclnn functions of CANN's operator package, which MindSpore calls by
// itself. It passes the Tensors alone: a sequence list is host data there, and the Python side,
// which knows it, has checked it and has put the number of rows into the attributes.
#define NSA_ACLNN_ONE_OUTPUT(op)                                                      \
  extern "C" std::vector<int64_t> aclnn##op##InferShape(int* ndims, int64_t** shapes, \
                                                        void* extra) {                \
    return nsa::infer_aclnn_shapes(#op, ndims, shapes, extra)[0];                     \
  }                                                                                   \
  extern "C" int aclnn##op##InferType(std::vector<int> type_ids, void* extra) {       \
    return nsa::infer_aclnn_types(#op, type_ids, extra)[0];                           \
  }

#define NSA_ACLNN_MORE_OUTPUTS(op)                                                                 \
  extern "C" std::vector<std::vector<int64_t>> aclnn##op##InferShape(int* ndims, int64_t** shapes, \
                                                                     void* extra) {                \
    return nsa::infer_aclnn_shapes(#op, ndims, shapes, extra);                                     \
  }                                                                                                \
  extern "C" std::vector<int> aclnn##op##InferType(std::vector<int> type_ids, void* extra) {       \
    return nsa::infer_aclnn_types(#op, type_ids, extra);                                           \
  }

NSA_ACLNN_ONE_OUTPUT(NsaCompress)
NSA_ACLNN_MORE_OUTPUTS(NsaCompressGrad)

// Two operators of one input and an output like it, for an input that has no gradient: the
// identity, and its gradient, which is an error. In a graph the error comes only if the gradient is
// used, because an unused operator is never run.
extern "C" int NsaWithoutGradient(int, void** params, int* ndims, int64_t** shapes,
                                  const char** dtypes, void*, void*) {
  nsa::CallTensor input;
  nsa::set_tensor(input, 0, params, ndims, shapes, dtypes);
  int64_t bytes = nsa::dtype_size(input.dtype);
  for (int64_t size : input.shape) bytes *= size;
  std::memcpy(params[1], params[0], bytes);
  return 0;
}
extern "C" std::vector<int64_t> NsaWithoutGradientInferShape(int* ndims, int64_t** shapes, void*) {
  return {shapes[0], shapes[0] + ndims[0]};
}
extern "C" int NsaWithoutGradientInferType(std::vector<int> type_ids, void*) { return type_ids[0]; }
extern "C" int NsaRefuseGradient(int, void**, int*, int64_t**, const char**, void*, void* extra) {
  throw std::runtime_error(std::string(nsa::attr_text(extra)));
}
extern "C" std::vector<int64_t> NsaRefuseGradientInferShape(int* ndims, int64_t** shapes, void*) {
  return {shapes[0], shapes[0] + ndims[0]};
}
extern "C" int NsaRefuseGradientInferType(std::vector<int> type_ids, void*) { return type_ids[0]; }

#pragma GCC visibility pop
