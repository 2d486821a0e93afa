// Rules of NsaMixBranches and its gradient, which the layers call.
#include "infer/nsa_mix_branches.h"

#include "infer/sizes.h"

namespace nsa {

namespace {

constexpr const NsaMixBranchesInputs& kIn = kNsaMixBranchesInputs;
constexpr const NsaMixBranchesGradInputs& kGrad = kNsaMixBranchesGradInputs;

template <class Positions>
void match_branches(Sizes& sizes, const Positions& in) {
  sizes.match({in.compressed, in.selected, in.window, in.logits});
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  Sizes sizes(c);
  match_branches(sizes, kIn);
  const DType dtype = dtype_of(c.attrs<NsaMixBranchesAttrs>().dtype);
  const DType branches = c.dtype(kIn.compressed);
  if (dtype != DType::kFloat32 && branches != DType::kUnknown && dtype != branches) {
    c.fail_value("dtype", std::string("float32 or that of the branches, ") + dtype_name(branches),
                 dtype_name(dtype));
  }
  std::vector<OutputDesc> outputs = sizes.outputs();
  outputs[kNsaMixBranchesOutputs.mixed].dtype = dtype;
  return outputs;
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  Sizes sizes(c);
  match_branches(sizes, kGrad);
  c.require_float(kGrad.mixed_grad);
  sizes.match({kGrad.mixed_grad});
  return sizes.outputs();
}

}  // namespace

const OpRules& nsa_mix_branches_rules() {
  static const OpRules rules{
      {OpId::kNsaMixBranches, kIn, attr_specs<NsaMixBranchesAttrs>(), kNsaMixBranchesOutputs},
      infer_forward};
  return rules;
}

const OpRules& nsa_mix_branches_grad_rules() {
  static const OpRules rules{{OpId::kNsaMixBranchesGrad, kGrad,
                              attr_specs<NsaMixBranchesGradAttrs>(), kNsaMixBranchesGradOutputs},
                             infer_backward};
  return rules;
}

}  // namespace nsa
