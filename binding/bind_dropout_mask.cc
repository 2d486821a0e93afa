#include "binding/op_call.h"
#include "cpu/dropout_mask/params.h"
#include "infer/nsa_dropout_mask.h"

namespace nsa {

namespace {

void run_kernel(const CheckedCall& call) {
  cpu::DropoutMaskParams p{};
  call.set_attrs<NsaDropoutMaskAttrs>(p);
  p.seed = static_cast<uint64_t>(*call.as<int64_t>(kNsaDropoutMaskInputs.seed));
  p.mask = call.out_as<uint8_t>(kNsaDropoutMaskOutputs.mask);
  cpu::dropout_mask(p);
}

int64_t work(const CheckedCall& call) { return call.attrs<NsaDropoutMaskAttrs>().numel; }

}  // namespace

const CpuKernelEntry dropout_mask_entry{run_kernel, work};

}  // namespace nsa
