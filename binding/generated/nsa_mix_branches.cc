// How the CPU's kernels of NsaMixBranches and NsaMixBranchesGrad are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "cpu/linear/nsa_mix_branches.h"

#include "binding/op_call.h"
#include "infer/nsa_mix_branches.h"

namespace nsa {

namespace {

void fill_nsa_mix_branches(const CheckedCall& call, cpu::NsaMixBranchesParams& p) {
  constexpr const NsaMixBranchesInputs& in = kNsaMixBranchesInputs;
  constexpr const NsaMixBranchesOutputs& out = kNsaMixBranchesOutputs;
  const auto& attrs = call.attrs<NsaMixBranchesAttrs>();
  p.logits = call.as<float>(in.logits);
  p.branches[0] = call.data(in.compressed);
  p.branches[1] = call.data(in.selected);
  p.branches[2] = call.data(in.window);
  p.mixed = call.out(out.mixed);
  p.dtype = elem_type(call.in(in.compressed).dtype);
  p.mixed_type = elem_type(call.outputs[out.mixed].dtype);
  p.T = call.dim(in.logits, 0);
  p.N1 = call.dim(in.compressed, 1);
  p.Dv = call.dim(in.compressed, 2);
  p.residual = attrs.residual;
}

void run_nsa_mix_branches(const CheckedCall& call) {
  cpu::NsaMixBranchesParams p{};
  fill_nsa_mix_branches(call, p);
  cpu::nsa_mix_branches(p);
}

int64_t work_of_nsa_mix_branches(const CheckedCall& call) {
  constexpr const NsaMixBranchesInputs& in = kNsaMixBranchesInputs;
  return product({3, elements(call, in.compressed)});
}

uint32_t float32_inputs_of_nsa_mix_branches(const BoundAttrs&) {
  constexpr const NsaMixBranchesInputs& in = kNsaMixBranchesInputs;
  return input_bit(in.logits);
}

void fill_nsa_mix_branches_grad(const CheckedCall& call, cpu::NsaMixBranchesGradParams& p) {
  constexpr const NsaMixBranchesGradInputs& in = kNsaMixBranchesGradInputs;
  constexpr const NsaMixBranchesGradOutputs& out = kNsaMixBranchesGradOutputs;
  const auto& attrs = call.attrs<NsaMixBranchesGradAttrs>();
  p.logits = call.as<float>(in.logits);
  p.branches[0] = call.data(in.compressed);
  p.branches[1] = call.data(in.selected);
  p.branches[2] = call.data(in.window);
  p.dtype = elem_type(call.in(in.compressed).dtype);
  p.mixed_type = elem_type(call.in(in.mixed_grad).dtype);
  p.T = call.dim(in.mixed_grad, 0);
  p.N1 = call.dim(in.mixed_grad, 1);
  p.Dv = call.dim(in.mixed_grad, 2);
  p.residual = attrs.residual;
  p.mixed_grad = call.data(in.mixed_grad);
  p.logits_grad = call.out_as<float>(out.logits_grad);
  p.branch_grads[0] = call.out(out.compressed_grad);
  p.branch_grads[1] = call.out(out.selected_grad);
  p.branch_grads[2] = call.out(out.window_grad);
}

void run_nsa_mix_branches_grad(const CheckedCall& call) {
  cpu::NsaMixBranchesGradParams p{};
  fill_nsa_mix_branches_grad(call, p);
  cpu::nsa_mix_branches_grad(p);
}

int64_t work_of_nsa_mix_branches_grad(const CheckedCall& call) {
  constexpr const NsaMixBranchesGradInputs& in = kNsaMixBranchesGradInputs;
  return product({6, elements(call, in.compressed)});
}

uint32_t float32_inputs_of_nsa_mix_branches_grad(const BoundAttrs&) {
  constexpr const NsaMixBranchesGradInputs& in = kNsaMixBranchesGradInputs;
  return input_bit(in.logits);
}

}  // namespace

const CpuKernelEntry nsa_mix_branches_entry{run_nsa_mix_branches, work_of_nsa_mix_branches,
                                            float32_inputs_of_nsa_mix_branches};
const CpuKernelEntry nsa_mix_branches_grad_entry{run_nsa_mix_branches_grad,
                                                 work_of_nsa_mix_branches_grad,
                                                 float32_inputs_of_nsa_mix_branches_grad};

}  // namespace nsa
