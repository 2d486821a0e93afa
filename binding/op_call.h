// A call of a native operator: checks by infer/ with run-time shapes and list values, then the
// kernel. It knows neither Python nor MindSpore. What is known of an operator stands in its own
// bind_*.cc.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/types.h"
#include "infer/check.h"
#include "infer/op.h"

namespace nsa {

// A checked call, as the functions that fill the kernels' parameters see it.
struct CheckedCall {
  const Context& context;
  const std::vector<TensorDesc>& outputs;

  // Attributes as the operator declares them.
  template <class Declared>
  const Declared& attrs() const {
    return context.attrs<Declared>();
  }
  const TensorDesc& in(size_t input) const { return context.in(input); }
  bool has(size_t input) const { return context.has(input); }
  const void* data(size_t input) const { return has(input) ? in(input).data : nullptr; }
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
  // The largest value of a list; 0 if it is empty.
  int64_t longest(size_t input) const {
    int64_t most = 0;
    for (const int64_t value : *context.values(input)) most = std::max(most, value);
    return most;
  }
  int64_t dim(size_t input, size_t axis) const { return in(input).shape[axis]; }
  // 1 is the last one.
  int64_t dim_from_end(size_t input, size_t place) const {
    const std::vector<int64_t>& shape = in(input).shape;
    return shape[shape.size() - place];
  }
  // The product of all dimensions but the last `inner`.
  int64_t rows(size_t input, size_t inner) const {
    const std::vector<int64_t>& shape = in(input).shape;
    int64_t rows = 1;
    for (size_t i = 0; i + inner < shape.size(); ++i) rows *= shape[i];
    return rows;
  }
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
static_assert(cpu::kSoftmaxLanes == kSoftmaxLanes);

// The CPU kernel of an operator, and its facts beyond the rules.
struct CpuKernelEntry {
  // Fills the parameters of the CPU's kernel, and calls it.
  void (*run_kernel)(const CheckedCall& call);
  // Multiplications of a call, at most; those of a gradient's recomputation are not counted. Where
  // they are few the kernel gets one thread.
  int64_t (*work)(const CheckedCall& call);
  // The inputs, as bits, that stay float32 where mixed precision narrows the floating inputs of
  // every operator; nullptr: none.
  uint32_t (*float32_inputs)(const BoundAttrs& attrs) = nullptr;
  // Checks the contents of tensors, on every target; nullptr: any contents are right.
  void (*check_contents)(const CheckedCall& call) = nullptr;
};

const CpuKernelEntry& cpu_kernel_entry(OpId op);

constexpr uint32_t input_bit(size_t input) { return uint32_t{1} << input; }

// Elements of an input.
inline int64_t elements(const CheckedCall& call, size_t input) { return numel(call.in(input)); }

// Whose limits hold for a call, and what runs it then.
struct Backend {
  Target rules;
  void (*run_checked)(const CheckedCall& call);
};
extern const Backend kCpuBackend;

// Checks a call by the rules and runs the operator of the attributes. Inputs and outputs have data;
// the caller allocates the outputs as infer() says. The values of lists are read into the inputs.
// Throws OpError, with the sentence that Python users see, where a rule of infer/ or the shape of
// an output is violated, and std::bad_alloc where the kernel finds no memory.
void check_and_run(const BoundAttrs& attrs, std::vector<TensorDesc>& inputs,
                   const std::vector<TensorDesc>& outputs, const Backend& backend = kCpuBackend);

#define NSA_OP_ENTRY(op, function, outputs) extern const CpuKernelEntry function##_entry;
NSA_OPERATORS(NSA_OP_ENTRY)
#undef NSA_OP_ENTRY

}  // namespace nsa
