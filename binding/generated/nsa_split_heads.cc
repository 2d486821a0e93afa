// How the CPU's kernels of NsaSplitHeads and NsaSplitHeadsGrad are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "cpu/linear/nsa_split_heads.h"

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "infer/nsa_split_heads.h"

namespace nsa {

namespace {

int64_t work_of_nsa_split_heads(const CheckedCall& call) {
  constexpr const NsaSplitHeadsInputs& in = kNsaSplitHeadsInputs;
  return elements(call, in.query) + elements(call, in.key_value);
}

uint32_t float32_inputs_of_nsa_split_heads(const BoundAttrs&) {
  constexpr const NsaSplitHeadsInputs& in = kNsaSplitHeadsInputs;
  return input_bit(in.query) | input_bit(in.key_value) | input_bit(in.cos) | input_bit(in.sin);
}

void fill_nsa_split_heads_grad(const CheckedCall& call, cpu::NsaSplitHeadsGradParams& p) {
  constexpr const NsaSplitHeadsGradInputs& in = kNsaSplitHeadsGradInputs;
  constexpr const NsaSplitHeadsGradOutputs& out = kNsaSplitHeadsGradOutputs;
  const auto& attrs = call.attrs<NsaSplitHeadsGradAttrs>();
  static_cast<NsaSplitHeadsGradAttrs&>(p) = attrs;
  p.queries[0] = call.data(in.query_cmp_grad);
  p.queries[1] = call.data(in.query_slc_grad);
  p.queries[2] = call.data(in.query_win_grad);
  p.keys[0] = call.data(in.key_cmp_grad);
  p.keys[1] = call.data(in.key_slc_grad);
  p.keys[2] = call.data(in.key_win_grad);
  p.values[0] = call.data(in.value_cmp_grad);
  p.values[1] = call.data(in.value_slc_grad);
  p.values[2] = call.data(in.value_win_grad);
  p.cos = call.as<float>(in.cos);
  p.sin = call.as<float>(in.sin);
  p.query_grad = call.out_as<float>(out.query_grad);
  p.key_value_grad = call.out_as<float>(out.key_value_grad);
  p.dtype = elem_type(call.in(in.query_cmp_grad).dtype);
  p.T = call.dim(in.query_cmp_grad, 0);
}

void run_nsa_split_heads_grad(const CheckedCall& call) {
  cpu::NsaSplitHeadsGradParams p{};
  fill_nsa_split_heads_grad(call, p);
  cpu::nsa_split_heads_grad(p);
}

int64_t work_of_nsa_split_heads_grad(const CheckedCall& call) {
  constexpr const NsaSplitHeadsGradInputs& in = kNsaSplitHeadsGradInputs;
  return product({2, elements(call, in.query_cmp_grad)});
}

uint32_t float32_inputs_of_nsa_split_heads_grad(const BoundAttrs&) {
  constexpr const NsaSplitHeadsGradInputs& in = kNsaSplitHeadsGradInputs;
  return input_bit(in.cos) | input_bit(in.sin);
}

}  // namespace

void fill_nsa_split_heads(const CheckedCall& call, cpu::NsaSplitHeadsParams& p) {
  constexpr const NsaSplitHeadsInputs& in = kNsaSplitHeadsInputs;
  constexpr const NsaSplitHeadsOutputs& out = kNsaSplitHeadsOutputs;
  const auto& attrs = call.attrs<NsaSplitHeadsAttrs>();
  static_cast<NsaSplitHeadsGradAttrs&>(p) = attrs;
  p.query = call.as<float>(in.query);
  p.key_value = call.as<float>(in.key_value);
  p.cos = call.as<float>(in.cos);
  p.sin = call.as<float>(in.sin);
  p.queries[0] = call.out(out.query_cmp);
  p.queries[1] = call.out(out.query_slc);
  p.queries[2] = call.out(out.query_win);
  p.keys[0] = call.out(out.key_cmp);
  p.keys[1] = call.out(out.key_slc);
  p.keys[2] = call.out(out.key_win);
  p.values[0] = call.out(out.value_cmp);
  p.values[1] = call.out(out.value_slc);
  p.values[2] = call.out(out.value_win);
  p.dtype = elem_type(call.outputs[out.query_cmp].dtype);
  p.T = call.dim(in.query, 0);
}

const CpuKernelEntry nsa_split_heads_entry{run_nsa_split_heads, work_of_nsa_split_heads,
                                           float32_inputs_of_nsa_split_heads};
const CpuKernelEntry nsa_split_heads_grad_entry{
    run_nsa_split_heads_grad, work_of_nsa_split_heads_grad, float32_inputs_of_nsa_split_heads_grad};

}  // namespace nsa
