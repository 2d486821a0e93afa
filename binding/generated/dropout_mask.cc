// How the CPU's kernels of NsaDropoutMask are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "binding/op_call.h"
#include "cpu/dropout_mask/params.h"
#include "infer/nsa_dropout_mask.h"

namespace nsa {

namespace {

void fill_dropout_mask(const CheckedCall& call, cpu::DropoutMaskParams& p) {
  constexpr const NsaDropoutMaskInputs& in = kNsaDropoutMaskInputs;
  constexpr const NsaDropoutMaskOutputs& out = kNsaDropoutMaskOutputs;
  const auto& attrs = call.attrs<NsaDropoutMaskAttrs>();
  static_cast<NsaDropoutMaskAttrs&>(p) = attrs;
  p.seed = static_cast<uint64_t>(*call.as<int64_t>(in.seed));
  p.mask = call.out_as<uint8_t>(out.mask);
}

void run_dropout_mask(const CheckedCall& call) {
  cpu::DropoutMaskParams p{};
  fill_dropout_mask(call, p);
  cpu::dropout_mask(p);
}

int64_t work_of_dropout_mask(const CheckedCall& call) {
  const auto& attrs = call.attrs<NsaDropoutMaskAttrs>();
  return attrs.numel;
}

}  // namespace

const CpuKernelEntry dropout_mask_entry{run_dropout_mask, work_of_dropout_mask};

}  // namespace nsa
