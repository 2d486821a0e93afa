// Operators by type that normalise rows, and their gradients.
#include <algorithm>
#include <cmath>

#include "twin/cann/opapi/aclop.h"
#include "twin/cann/opapi/layer_norm.h"
#include "twin/cann/opapi/plan.h"

namespace twin::cann {

namespace {

// The dimensions from an axis on, and those before it with ones for the rest.
struct Divided {
  Dims params, rows;
};

Divided Divide(const Dims& dims, size_t axis) {
  Divided parts = {Dims(dims.begin() + static_cast<int64_t>(axis), dims.end()), dims};
  std::fill(parts.rows.begin() + static_cast<int64_t>(axis), parts.rows.end(), 1);
  return parts;
}

size_t NormAxis(const Described& x, const Attributes& attrs) {
  if (x.dims.empty()) Refuse("input 0 must have a dimension");
  const size_t axis = AxisOf(attrs.Integer("begin_norm_axis"), x.dims.size());
  if (AxisOf(attrs.Integer("begin_params_axis"), x.dims.size()) != axis) {
    Refuse("another begin_params_axis than begin_norm_axis, which the twin does not have");
  }
  return axis;
}

// Inputs: x, gamma, beta; outputs: y, mean, variance.
OperatorType LayerNorm() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    Require(in, 0, kFloats);
    Require(in, 1, Only(in[0].dtype) | Only(ACL_FLOAT));
    RequireAlike(in, 2, 1);
    const Divided parts = Divide(in[0].dims, NormAxis(in[0], attrs));
    RequireShape(in, 1, parts.params);
    RequireShape(in, 2, parts.params);
    const Described row = {in[1].dtype, parts.rows};
    return Inputs{{in[0].dtype, in[0].dims}, row, row};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) -> Tensors {
    const double epsilon = attrs.Real("epsilon");
    const Normed found = Normalise(in[0], in[1].size(), &in[1], &in[2], epsilon, out[1].dims);
    return {found.y, found.mean, found.variance};
  };
  const std::vector<Attribute> attributes = {
      {"begin_norm_axis", int64_t{0}}, {"begin_params_axis", int64_t{0}}, {"epsilon", 1e-7}};
  return {3, 3, attributes, infer, loop};
}

// Inputs: dy, x, variance, mean, gamma; outputs: gradients of x, gamma and beta. CANN adds an
// epsilon of its own to the variance.
OperatorType LayerNormGradient() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    Require(in, 0, kFloats);
    RequireAlike(in, 1, 0);
    RequireShape(in, 1, in[0].dims);
    Require(in, 4, Only(in[0].dtype) | Only(ACL_FLOAT));
    RequireAlike(in, 3, 2);
    const size_t rank = in[0].dims.size(), normed = in[4].dims.size();
    if (normed == 0 || normed > rank) Refuse("input 4 has another rank than input 0");
    const Divided parts = Divide(in[0].dims, rank - normed);
    RequireShape(in, 4, parts.params);
    RequireShape(in, 2, parts.rows);
    RequireShape(in, 3, parts.rows);
    const Described parameter = {in[4].dtype, parts.params};
    return Inputs{{in[0].dtype, in[0].dims}, parameter, parameter};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    const double epsilon = InSingle(out[0].dtype == ACL_FLOAT ? 1e-12 : 1e-5);
    Values rstd = in[2];
    for (double& value : rstd.data) {
      value = InSingle(1 / InSingle(std::sqrt(InSingle(value + epsilon))));
    }
    const NormGradients found = NormaliseBackward(in[0], in[1], in[3], rstd, &in[4], out[1].dims);
    return {found.x, found.gamma, found.beta};
  };
  return {5, 5, {}, infer, loop};
}

}  // namespace

void AddNorms(OperatorTypes* types) {
  OperatorTypes& all = *types;
  all["LayerNorm"] = LayerNorm();
  all["LayerNormGrad"] = LayerNormGradient();
}

}  // namespace twin::cann
