// How the CPU's kernels of NsaRound are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/nsa_round.h"

#include "binding/op_call.h"
#include "cpu/linear/nsa_mix_branches.h"

namespace nsa {

namespace {

void fill_nsa_round(const CheckedCall& call, cpu::NsaRoundParams& p) {
  constexpr const NsaRoundInputs& in = kNsaRoundInputs;
  constexpr const NsaRoundOutputs& out = kNsaRoundOutputs;
  const auto& attrs = call.attrs<NsaRoundAttrs>();
  p.x = call.as<float>(in.x);
  p.rounded = call.out_as<float>(out.rounded);
  p.dtype = elem_type(dtype_of(attrs.dtype));
  p.n = elements(call, in.x);
}

void run_nsa_round(const CheckedCall& call) {
  cpu::NsaRoundParams p{};
  fill_nsa_round(call, p);
  cpu::nsa_round(p);
}

int64_t work_of_nsa_round(const CheckedCall& call) {
  constexpr const NsaRoundInputs& in = kNsaRoundInputs;
  return elements(call, in.x);
}

uint32_t float32_inputs_of_nsa_round(const BoundAttrs&) {
  constexpr const NsaRoundInputs& in = kNsaRoundInputs;
  return input_bit(in.x);
}

}  // namespace

const CpuKernelEntry nsa_round_entry{run_nsa_round, work_of_nsa_round, float32_inputs_of_nsa_round};

}  // namespace nsa
