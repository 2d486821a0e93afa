// Rules of NsaLinear, which the layers call.
#include "infer/nsa_linear.h"

#include "infer/check.h"

namespace nsa {

namespace {

constexpr const NsaLinearInputs& kIn = kNsaLinearInputs;

std::vector<OutputDesc> infer_linear(const Context& c) {
  c.require_rank(kIn.x, 2, "(T, K)");
  c.require_rank(kIn.weight, 2, "(N, K)");
  c.require_shape(kIn.weight, "(N, K)", {kUnknownDim, c.dim(kIn.x, 1)});
  return {{DType::kFloat32, {c.dim(kIn.x, 0), c.dim(kIn.weight, 0)}}};
}

}  // namespace

const OpRules& nsa_linear_rules() {
  static const OpRules rules{
      {OpId::kNsaLinear, kIn, attr_specs<NsaLinearAttrs>(), kNsaLinearOutputs}, infer_linear};
  return rules;
}

}  // namespace nsa
