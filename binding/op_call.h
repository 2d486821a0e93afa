// A call of a native operator: checks by infer/ with run-time shapes and list values, then the
// kernel. It knows neither Python nor MindSpore. What is known of an operator stands in its own
// op_call_*.cc.
#pragma once

#include <string_view>
#include <vector>

#include "cpu/types.h"
#include "infer/check.h"
#include "infer/op.h"

namespace nsa {

struct CallTensor {
  void* data = nullptr;
  DType dtype = DType::kUnknown;
  std::vector<int64_t> shape;
  bool present = true;  // false: an absent optional input, everything else is ignored
};

// A checked call, as the functions that fill the kernels' parameters see it.
struct CheckedCall {
  const Context& context;
  const std::vector<TensorDesc>& descs;
  const std::vector<CallTensor>& inputs;
  const std::vector<CallTensor>& outputs;
  const Attrs& attrs;

  bool has(size_t input) const { return context.has(input); }
  const void* data(size_t input) const { return has(input) ? inputs[input].data : nullptr; }
  template <class T>
  const T* as(size_t input) const {
    return static_cast<const T*>(data(input));
  }
  // A list as int64, whatever its dtype was; nullptr if absent.
  const int64_t* list(size_t input) const {
    const SeqList* values = context.values(input);
    return values == nullptr ? nullptr : values->data();
  }
  int64_t list_length(size_t input) const {
    return static_cast<int64_t>(context.values(input)->size());
  }
  int64_t dim(size_t input, size_t axis) const { return inputs[input].shape[axis]; }
  void* out(size_t output) const { return outputs[output].data; }
  template <class T>
  T* out_as(size_t output) const {
    return static_cast<T*>(outputs[output].data);
  }
};

// The dtype of a tensor that the rules have accepted, as the kernels know it.
inline cpu::ElemType elem_type(DType dtype) {
  static_assert(static_cast<int>(cpu::ElemType::kFloat16) == static_cast<int>(DType::kFloat16));
  static_assert(static_cast<int>(cpu::ElemType::kFloat32) == static_cast<int>(DType::kFloat32));
  static_assert(static_cast<int>(cpu::ElemType::kBFloat16) == static_cast<int>(DType::kBFloat16));
  return static_cast<cpu::ElemType>(dtype);
}
// Of a name that the rules have accepted.
inline cpu::ElemType elem_type(const std::string& name) {
  DType dtype = DType::kUnknown;
  dtype_from_name(name, &dtype);
  return elem_type(dtype);
}
static_assert(cpu::kSoftmaxLanes == kSoftmaxLanes);

// What is known of an operator beyond its rules.
struct OpEntry {
  void (*run)(const CheckedCall& call);  // on the CPU
  // Multiplications of a call, at most; those of a gradient's recomputation are not counted. Where
  // they are few the kernel gets one thread.
  int64_t (*work)(const CheckedCall& call);
  // The inputs, as bits, that stay float32 where mixed precision narrows the floating inputs of
  // every operator; nullptr: none.
  uint32_t (*float32_inputs)(const Attrs& attrs) = nullptr;
  // What the contents of tensors have to satisfy, on every target; nullptr: nothing.
  void (*check_contents)(const CheckedCall& call) = nullptr;
};

const OpEntry& op_entry(OpId op);

constexpr uint32_t input_bit(size_t input) { return uint32_t{1} << input; }

// Elements of an input.
inline int64_t elements(const CheckedCall& call, size_t input) { return numel(call.descs[input]); }

// Whose limits hold for a call, and what runs it then.
struct Backend {
  Target rules;
  void (*run)(const CheckedCall& call);
};
extern const Backend kCpuBackend;

// Runs `op`. The caller allocates the outputs as infer() says. Throws OpError, with the sentence
// that Python users see, where a rule of infer/ or the shape of an output is violated, and
// std::bad_alloc where the kernel finds no memory.
void call(std::string_view op, const std::vector<CallTensor>& inputs,
          const std::vector<CallTensor>& outputs, const Attrs& attrs,
          const Backend& backend = kCpuBackend);

#define NSA_OP_ENTRY(op, function, outputs) extern const OpEntry function##_entry;
NSA_OPERATORS(NSA_OP_ENTRY)
#undef NSA_OP_ENTRY

}  // namespace nsa
