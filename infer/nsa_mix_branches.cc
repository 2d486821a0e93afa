// Rules of NsaMixBranches and its gradient, which the layers call.
#include "infer/nsa_mix_branches.h"

#include "infer/check.h"

namespace nsa {

namespace {

constexpr const NsaMixBranchesInputs& kIn = kNsaMixBranchesInputs;
constexpr const NsaMixBranchesGradInputs& kGrad = kNsaMixBranchesGradInputs;

// (T, N1, Dv) of the branches.
template <class Positions>
std::vector<int64_t> check_branches(const Context& c, const Positions& in) {
  c.require_rank(in.compressed, 3, "(T, N1, Dv)");
  const std::vector<int64_t> shape = {c.dim(in.compressed, 0), c.dim(in.compressed, 1),
                                      c.dim(in.compressed, 2)};
  for (size_t input : {in.selected, in.window})
    c.require_shape(input, "(T, N1, Dv)", {shape[0], shape[1], shape[2]});
  c.require_shape(in.logits, "(T, 3 * N1)", {shape[0], shape[1] < 0 ? kUnknownDim : 3 * shape[1]});
  return shape;
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const std::vector<int64_t> shape = check_branches(c, kIn);
  const DType dtype = dtype_of(c.attrs<NsaMixBranchesAttrs>().dtype);
  const DType branches = c.dtype(kIn.compressed);
  if (dtype != DType::kFloat32 && branches != DType::kUnknown && dtype != branches) {
    c.fail_value("dtype", std::string("float32 or that of the branches, ") + dtype_name(branches),
                 dtype_name(dtype));
  }
  return {{dtype, shape}};
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  const std::vector<int64_t> shape = check_branches(c, kGrad);
  c.require_float(kGrad.mixed_grad);
  c.require_shape(kGrad.mixed_grad, "(T, N1, Dv)", {shape[0], shape[1], shape[2]});
  const OutputDesc branch{c.dtype(kGrad.compressed), shape};
  const int64_t gates = shape[1] < 0 ? kUnknownDim : 3 * shape[1];
  return {{DType::kFloat32, {shape[0], gates}}, branch, branch, branch};
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
