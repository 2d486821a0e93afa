// Rules of NsaLinear, which the layers call.
#include "infer/nsa_linear.h"

#include "infer/sizes.h"

namespace nsa {

namespace {

constexpr const NsaLinearInputs& kIn = kNsaLinearInputs;

std::vector<OutputDesc> infer_linear(const Context& c) {
  Sizes sizes(c);
  sizes.match({kIn.x, kIn.weight});
  return sizes.outputs();
}

}  // namespace

const OpRules& nsa_linear_rules() {
  static const OpRules rules{
      {OpId::kNsaLinear, kIn, attr_specs<NsaLinearAttrs>(), kNsaLinearOutputs}, infer_linear};
  return rules;
}

}  // namespace nsa
