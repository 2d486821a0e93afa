// How the CPU's kernels of NsaProjectionInputGrad are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/linear/nsa_projection.h"
#include "infer/nsa_projection.h"

namespace nsa {

void fill_nsa_projection_input_grad(const CheckedCall& call, cpu::NsaProjectionInputGradParams& p) {
  constexpr const NsaProjectionGradInputs& in = kNsaProjectionGradInputs;
  constexpr const NsaProjectionInputGradOutputs& out = kNsaProjectionInputGradOutputs;
  const auto& attrs = call.attrs<NsaProjectionGradAttrs>();
  p.dx = call.out(out.x_grad);
  p.K = call.dim(in.weight, 1);
  p.dy_type = elem_type(call.in(in.y_grad).dtype);
  p.weight_type = elem_type(call.in(in.weight).dtype);
  p.dx_type = elem_type(call.in(in.x).dtype);
  p.operands = elem_type(dtype_of(attrs.operands));
}

const CpuKernelEntry nsa_projection_input_grad_entry{run_nsa_projection_input_grad,
                                                     work_of_nsa_projection_input_grad};

}  // namespace nsa
