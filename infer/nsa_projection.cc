// Rules of NsaProjection and its gradients, which the layers call.
#include "infer/nsa_projection.h"

#include "infer/check.h"

namespace nsa {

namespace {

constexpr const NsaProjectionInputs& kIn = kNsaProjectionInputs;
constexpr const NsaProjectionGradInputs& kGrad = kNsaProjectionGradInputs;
constexpr size_t kMostWeights = 3;

OutputDesc placeholder() { return {DType::kFloat32, {1}}; }

// T of a tensor whose last dimensions together are `columns`.
int64_t rows_of(const Context& c, size_t input, const char* name, int64_t columns) {
  const TensorDesc& desc = c.in(input);
  if (!desc.known_rank || columns < 0) return kUnknownDim;
  size_t axis = desc.shape.size();
  int64_t held = 1;
  bool fits = true;
  do {
    const int64_t dim = axis == 0 ? 1 : desc.shape[axis - 1];
    if (dim < 0) return kUnknownDim;
    fits = axis > 1 && (dim == 0 || held <= columns / dim);
    if (fits) held *= dim;
    --axis;
  } while (fits && held < columns);
  if (!fits || held != columns) {
    c.fail_value(
        c.name(input),
        std::string("of shape (T, ") + name + "), with " + name + " = " + std::to_string(columns),
        "shape " + format_shape(desc.shape));
  }
  int64_t rows = 1;
  for (size_t i = 0; i < axis; ++i) {
    if (desc.shape[i] < 0) return kUnknownDim;
    rows *= desc.shape[i];
  }
  return rows;
}

// K of the weights, those from `weight` on, and their shapes.
int64_t check_weights(const Context& c, size_t weight) {
  int64_t inner = kUnknownDim;
  for (size_t input = weight; input < weight + kMostWeights; ++input) {
    if (!c.has(input)) continue;
    c.require_float(input);
    c.require_same_dtype(input, weight);
    c.require_rank(input, 2, "(N, K)");
    c.require_shape(input, "(N, K)", {kUnknownDim, inner});
    inner = known_of(inner, c.dim(input, 1));
  }
  return inner;
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const auto& attrs = c.attrs<NsaProjectionAttrs>();
  const DType dtype = dtype_of(attrs.dtype);
  const int64_t inner = check_weights(c, kIn.weight), batch = attrs.batch;
  c.require_float(kIn.x);
  const int64_t tokens = rows_of(c, kIn.x, "K", inner);
  if (batch > 0 && tokens >= 0 && tokens % batch != 0) {
    c.fail_value("batch", "a divisor of the " + std::to_string(tokens) + " rows of x",
                 std::to_string(batch));
  }
  std::vector<OutputDesc> outputs;
  for (size_t weight = kIn.weight; weight < kIn.weight + kMostWeights; ++weight) {
    if (!c.has(weight)) {
      outputs.push_back(placeholder());
    } else if (batch > 0) {
      const int64_t length = tokens < 0 ? kUnknownDim : tokens / batch;
      outputs.push_back({dtype, {batch, length, c.dim(weight, 0)}});
    } else {
      outputs.push_back({dtype, {tokens, c.dim(weight, 0)}});
    }
  }
  return outputs;
}

void check_gradient(const Context& c) {
  const int64_t inner = check_weights(c, kGrad.weight);
  c.require_float(kGrad.x);
  int64_t tokens = rows_of(c, kGrad.x, "K", inner);
  for (size_t i = 0; i < kMostWeights; ++i) {
    const size_t gradient = kGrad.y_grad + i, weight = kGrad.weight + i;
    if (c.has(gradient) != c.has(weight)) {
      c.fail_value(c.name(weight), c.has(gradient) ? "given with its gradient" : "None without it",
                   c.has(weight) ? "a Tensor" : "None");
    }
    if (!c.has(weight)) continue;
    const int64_t rows = rows_of(c, gradient, "N", c.dim(weight, 0));
    if (tokens >= 0 && rows >= 0 && rows != tokens) {
      c.fail_value(c.name(gradient), "of the " + std::to_string(tokens) + " rows of x",
                   std::to_string(rows));
    }
    tokens = known_of(tokens, rows);
  }
}

OutputDesc like(const Context& c, size_t input) {
  const TensorDesc& desc = c.in(input);
  return {desc.dtype, desc.known_rank ? desc.shape : std::vector<int64_t>{-2}};
}

std::vector<OutputDesc> infer_input_grad(const Context& c) {
  check_gradient(c);
  return {like(c, kGrad.x)};
}

std::vector<OutputDesc> infer_weight_grad(const Context& c) {
  check_gradient(c);
  std::vector<OutputDesc> outputs;
  for (size_t weight = kGrad.weight; weight < kGrad.weight + kMostWeights; ++weight)
    outputs.push_back(c.has(weight) ? like(c, weight) : placeholder());
  return outputs;
}

}  // namespace

const OpRules& nsa_projection_rules() {
  static const OpRules rules{
      {OpId::kNsaProjection, kIn, attr_specs<NsaProjectionAttrs>(), kNsaProjectionOutputs},
      infer_forward};
  return rules;
}

const OpRules& nsa_projection_input_grad_rules() {
  static const OpRules rules{{OpId::kNsaProjectionInputGrad, kGrad,
                              attr_specs<NsaProjectionGradAttrs>(), kNsaProjectionInputGradOutputs},
                             infer_input_grad};
  return rules;
}

const OpRules& nsa_projection_weight_grad_rules() {
  static const OpRules rules{
      {OpId::kNsaProjectionWeightGrad, kGrad, attr_specs<NsaProjectionGradAttrs>(),
       kNsaProjectionWeightGradOutputs},
      infer_weight_grad};
  return rules;
}

}  // namespace nsa
