#include "binding/op_call.h"
#include "cpu/linear/nsa_mix_branches.h"
#include "infer/nsa_mix_branches.h"
#include "infer/nsa_round.h"

namespace nsa {

namespace {

constexpr const NsaMixBranchesInputs& kIn = kNsaMixBranchesInputs;
constexpr const NsaMixBranchesGradInputs& kGrad = kNsaMixBranchesGradInputs;
constexpr const NsaMixBranchesGradOutputs& kGradOut = kNsaMixBranchesGradOutputs;

template <class Positions>
void fill(const CheckedCall& call, const Positions& in, const NsaMixBranchesGradAttrs& attrs,
          cpu::NsaMixBranchesParams& p) {
  p.residual = attrs.residual;
  p.logits = call.as<float>(in.logits);
  p.branches[0] = call.data(in.compressed);
  p.branches[1] = call.data(in.selected);
  p.branches[2] = call.data(in.window);
  p.dtype = elem_type(call.in(in.compressed).dtype);
  p.T = call.dim(in.compressed, 0);
  p.N1 = call.dim(in.compressed, 1);
  p.Dv = call.dim(in.compressed, 2);
}

void run_kernel(const CheckedCall& call) {
  cpu::NsaMixBranchesParams p{};
  fill(call, kIn, call.attrs<NsaMixBranchesAttrs>(), p);
  p.mixed = call.out(kNsaMixBranchesOutputs.mixed);
  p.mixed_type = elem_type(call.outputs[kNsaMixBranchesOutputs.mixed].dtype);
  cpu::nsa_mix_branches(p);
}

void run_grad_kernel(const CheckedCall& call) {
  cpu::NsaMixBranchesGradParams p{};
  fill(call, kGrad, call.attrs<NsaMixBranchesGradAttrs>(), p);
  p.mixed_grad = call.data(kGrad.mixed_grad);
  p.mixed_type = elem_type(call.in(kGrad.mixed_grad).dtype);
  p.logits_grad = call.out_as<float>(kGradOut.logits_grad);
  p.branch_grads[0] = call.out(kGradOut.compressed_grad);
  p.branch_grads[1] = call.out(kGradOut.selected_grad);
  p.branch_grads[2] = call.out(kGradOut.window_grad);
  cpu::nsa_mix_branches_grad(p);
}

void run_round(const CheckedCall& call) {
  cpu::NsaRoundParams p{};
  p.x = call.as<float>(kNsaRoundInputs.x);
  p.rounded = call.out_as<float>(kNsaRoundOutputs.rounded);
  p.dtype = elem_type(dtype_of(call.attrs<NsaRoundAttrs>().dtype));
  p.n = elements(call, kNsaRoundInputs.x);
  cpu::nsa_round(p);
}

int64_t work(const CheckedCall& call) { return 3 * elements(call, kIn.compressed); }
int64_t work_grad(const CheckedCall& call) { return 6 * elements(call, kGrad.compressed); }
int64_t work_round(const CheckedCall& call) { return elements(call, kNsaRoundInputs.x); }

uint32_t float32_inputs(const BoundAttrs&) { return input_bit(kIn.logits); }
uint32_t float32_inputs_grad(const BoundAttrs&) { return input_bit(kGrad.logits); }
uint32_t float32_inputs_round(const BoundAttrs&) { return input_bit(kNsaRoundInputs.x); }

}  // namespace

const CpuKernelEntry nsa_mix_branches_entry{run_kernel, work, float32_inputs};
const CpuKernelEntry nsa_mix_branches_grad_entry{run_grad_kernel, work_grad, float32_inputs_grad};
const CpuKernelEntry nsa_round_entry{run_round, work_round, float32_inputs_round};

}  // namespace nsa
