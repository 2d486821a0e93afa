// Rules of NsaDropoutMask.
#include "infer/nsa_dropout_mask.h"

#include "infer/check.h"

namespace nsa {

namespace {

std::vector<OutputDesc> infer_mask(const Context& c) {
  c.require_shape(kNsaDropoutMaskInputs.seed, "(1,)", {1});
  return {{DType::kUint8, {ceil_div(c.attrs<NsaDropoutMaskAttrs>().numel, 8)}}};
}

}  // namespace

const OpRules& dropout_mask_rules() {
  static const OpRules rules{{OpId::kNsaDropoutMask, kNsaDropoutMaskInputs,
                              attr_specs<NsaDropoutMaskAttrs>(), kNsaDropoutMaskOutputs},
                             infer_mask};
  return rules;
}

}  // namespace nsa
