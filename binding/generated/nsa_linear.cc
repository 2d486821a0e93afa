// How the CPU's kernels of NsaLinear are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "cpu/linear/nsa_linear.h"

#include "binding/op_call.h"
#include "infer/nsa_linear.h"

namespace nsa {

namespace {

void fill_nsa_linear(const CheckedCall& call, cpu::NsaLinearParams& p) {
  constexpr const NsaLinearInputs& in = kNsaLinearInputs;
  constexpr const NsaLinearOutputs& out = kNsaLinearOutputs;
  const auto& attrs = call.attrs<NsaLinearAttrs>();
  p.x = call.as<float>(in.x);
  p.weight = call.data(in.weight);
  p.y = call.out_as<float>(out.y);
  p.weight_type = elem_type(call.in(in.weight).dtype);
  p.dtype = elem_type(dtype_of(attrs.dtype));
  p.T = call.dim(in.x, 0);
  p.K = call.dim(in.x, 1);
  p.N = call.dim(in.weight, 0);
}

void run_nsa_linear(const CheckedCall& call) {
  cpu::NsaLinearParams p{};
  fill_nsa_linear(call, p);
  cpu::nsa_linear(p);
}

int64_t work_of_nsa_linear(const CheckedCall& call) {
  constexpr const NsaLinearInputs& in = kNsaLinearInputs;
  return product({elements(call, in.x), call.dim(in.weight, 0)});
}

uint32_t float32_inputs_of_nsa_linear(const BoundAttrs&) {
  constexpr const NsaLinearInputs& in = kNsaLinearInputs;
  return input_bit(in.x) | input_bit(in.weight);
}

}  // namespace

const CpuKernelEntry nsa_linear_entry{run_nsa_linear, work_of_nsa_linear,
                                      float32_inputs_of_nsa_linear};

}  // namespace nsa
