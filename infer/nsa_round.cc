// Rules of NsaRound, which the layers call.
#include "infer/nsa_round.h"

#include "infer/sizes.h"

namespace nsa {

namespace {

std::vector<OutputDesc> infer_round(const Context& c) { return Sizes(c).outputs(); }

}  // namespace

const OpRules& nsa_round_rules() {
  static const OpRules rules{
      {OpId::kNsaRound, kNsaRoundInputs, attr_specs<NsaRoundAttrs>(), kNsaRoundOutputs},
      infer_round};
  return rules;
}

}  // namespace nsa
