#include <cstring>

#include "binding/op_call.h"
#include "cpu/linear/nsa_split_heads.h"

namespace nsa {

namespace {

constexpr const NsaSplitHeadsInputs& kIn = kNsaSplitHeadsInputs;
constexpr const NsaSplitHeadsOutputs& kOut = kNsaSplitHeadsOutputs;
constexpr const NsaSplitHeadsGradInputs& kGrad = kNsaSplitHeadsGradInputs;
constexpr const NsaSplitHeadsGradOutputs& kGradOut = kNsaSplitHeadsGradOutputs;

void run_kernel(const CheckedCall& call) {
  cpu::NsaSplitHeadsParams p{};
  static_cast<NsaSplitHeadsGradAttrs&>(p) = call.attrs<NsaSplitHeadsAttrs>();
  p.query = call.as<float>(kIn.query);
  p.key_value = call.as<float>(kIn.key_value);
  p.cos = call.as<float>(kIn.cos);
  p.sin = call.as<float>(kIn.sin);
  for (int64_t b = 0; b < cpu::kMostBranches; ++b) {
    p.queries[b] = call.out(kOut.query_cmp + b);
    p.keys[b] = call.out(kOut.key_cmp + b);
    p.values[b] = call.out(kOut.value_cmp + b);
  }
  p.dtype = elem_type(call.outputs[kOut.query_cmp].dtype);
  p.T = call.dim(kIn.query, 0);
  for (int64_t b = p.branches; b < cpu::kMostBranches; ++b) {
    for (void* placeholder : {p.queries[b], p.keys[b], p.values[b]})
      std::memset(placeholder, 0, sizeof(float));
  }
  cpu::nsa_split_heads(p);
}

void run_grad_kernel(const CheckedCall& call) {
  cpu::NsaSplitHeadsGradParams p{};
  call.set_attrs<NsaSplitHeadsGradAttrs>(p);
  for (int64_t b = 0; b < cpu::kMostBranches; ++b) {
    p.queries[b] = call.data(kGrad.query_cmp_grad + b);
    p.keys[b] = call.data(kGrad.key_cmp_grad + b);
    p.values[b] = call.data(kGrad.value_cmp_grad + b);
  }
  p.cos = call.as<float>(kGrad.cos);
  p.sin = call.as<float>(kGrad.sin);
  p.query_grad = call.out_as<float>(kGradOut.query_grad);
  p.key_value_grad = call.out_as<float>(kGradOut.key_value_grad);
  p.dtype = elem_type(call.in(kGrad.query_cmp_grad).dtype);
  p.T = call.dim(kGrad.query_cmp_grad, 0);
  cpu::nsa_split_heads_grad(p);
}

int64_t work(const CheckedCall& call) {
  return elements(call, kIn.query) + elements(call, kIn.key_value);
}
int64_t work_grad(const CheckedCall& call) { return 2 * elements(call, kGrad.query_cmp_grad); }

uint32_t float32_inputs(const BoundAttrs&) {
  return input_bit(kIn.query) | input_bit(kIn.key_value) | input_bit(kIn.cos) | input_bit(kIn.sin);
}
uint32_t float32_inputs_grad(const BoundAttrs&) {
  return input_bit(kGrad.cos) | input_bit(kGrad.sin);
}

}  // namespace

const CpuKernelEntry nsa_split_heads_entry{run_kernel, work, float32_inputs};
const CpuKernelEntry nsa_split_heads_grad_entry{run_grad_kernel, work_grad, float32_inputs_grad};

}  // namespace nsa
