// How the CPU's kernels of NsaProjection are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "cpu/linear/nsa_projection.h"

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "infer/nsa_projection.h"

namespace nsa {

void fill_nsa_projection(const CheckedCall& call, cpu::NsaProjectionParams& p) {
  constexpr const NsaProjectionInputs& in = kNsaProjectionInputs;
  constexpr const NsaProjectionOutputs& out = kNsaProjectionOutputs;
  const auto& attrs = call.attrs<NsaProjectionAttrs>();
  p.x = call.data(in.x);
  p.K = call.dim(in.weight, 1);
  p.x_type = elem_type(call.in(in.x).dtype);
  p.weight_type = elem_type(call.in(in.weight).dtype);
  p.y_type = elem_type(call.outputs[out.y].dtype);
  p.operands = elem_type(dtype_of(attrs.operands));
}

const CpuKernelEntry nsa_projection_entry{run_nsa_projection, work_of_nsa_projection};

}  // namespace nsa
