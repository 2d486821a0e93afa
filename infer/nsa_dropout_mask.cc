// Rules of NsaDropoutMask.
#include "infer/nsa_dropout_mask.h"

#include "infer/sizes.h"

namespace nsa {

namespace {

std::vector<OutputDesc> infer_mask(const Context& c) {
  Sizes sizes(c);
  sizes.match({kNsaDropoutMaskInputs.seed});
  std::vector<OutputDesc> outputs = sizes.outputs();
  outputs[kNsaDropoutMaskOutputs.mask].shape = {ceil_div(c.attrs<NsaDropoutMaskAttrs>().numel, 8)};
  return outputs;
}

}  // namespace

const OpRules& dropout_mask_rules() {
  static const OpRules rules{{OpId::kNsaDropoutMask, kNsaDropoutMaskInputs,
                              attr_specs<NsaDropoutMaskAttrs>(), kNsaDropoutMaskOutputs},
                             infer_mask};
  return rules;
}

}  // namespace nsa
