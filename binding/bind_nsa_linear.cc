#include "binding/op_call.h"
#include "cpu/linear/nsa_linear.h"
#include "infer/nsa_linear.h"

namespace nsa {

namespace {

constexpr const NsaLinearInputs& kIn = kNsaLinearInputs;

void run_kernel(const CheckedCall& call) {
  cpu::NsaLinearParams p{};
  p.x = call.as<float>(kIn.x);
  p.weight = call.data(kIn.weight);
  p.weight_type = elem_type(call.in(kIn.weight).dtype);
  p.dtype = elem_type(dtype_of(call.attrs<NsaLinearAttrs>().dtype));
  p.y = call.out_as<float>(kNsaLinearOutputs.y);
  p.T = call.dim(kIn.x, 0);
  p.K = call.dim(kIn.x, 1);
  p.N = call.dim(kIn.weight, 0);
  cpu::nsa_linear(p);
}

int64_t work(const CheckedCall& call) {
  return product({elements(call, kIn.x), call.dim(kIn.weight, 0)});
}

uint32_t float32_inputs(const BoundAttrs&) { return input_bit(kIn.x) | input_bit(kIn.weight); }

}  // namespace

const CpuKernelEntry nsa_linear_entry{run_kernel, work, float32_inputs};

}  // namespace nsa
