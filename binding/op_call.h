// A call of a native operator: checks by infer/ with run-time shapes and list values, then the
// kernel. It knows neither Python nor MindSpore.
#pragma once

#include <string_view>
#include <vector>

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

// Whose limits hold for a call, and what runs it then.
struct Kernels {
  Target rules;
  void (*run)(const CheckedCall& call);
};
extern const Kernels kCpuKernels;

// Runs `op`. The caller allocates the outputs as infer() says. Throws OpError, with the sentence
// that Python users see, where a rule of infer/ or the shape of an output is violated, and
// std::bad_alloc where the kernel finds no memory.
void call(std::string_view op, const std::vector<CallTensor>& inputs,
          const std::vector<CallTensor>& outputs, const Attrs& attrs,
          const Kernels& kernels = kCpuKernels);

void call_nsa_compress(const CheckedCall& call);
void call_nsa_compress_grad(const CheckedCall& call);
void call_nsa_compress_attention(const CheckedCall& call);
void call_nsa_selected_attention(const CheckedCall& call);
void call_nsa_selected_attention_grad(const CheckedCall& call);
void call_flash_attention_score(const CheckedCall& call);
void call_flash_attention_score_grad(const CheckedCall& call);
void call_dropout_mask(const CheckedCall& call);

}  // namespace nsa
