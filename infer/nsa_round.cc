// Rules of NsaRound, which the layers call.
#include "infer/nsa_round.h"

#include "infer/check.h"

namespace nsa {

namespace {

std::vector<OutputDesc> infer_round(const Context& c) {
  const TensorDesc& x = c.in(kNsaRoundInputs.x);
  return {{DType::kFloat32,
           x.known_rank ? x.shape : std::vector<int64_t>{-2}}};  // MindSpore's unknown rank
}

}  // namespace

const OpRules& nsa_round_rules() {
  static const OpRules rules{
      {OpId::kNsaRound, kNsaRoundInputs, attr_specs<NsaRoundAttrs>(), kNsaRoundOutputs},
      infer_round};
  return rules;
}

}  // namespace nsa
