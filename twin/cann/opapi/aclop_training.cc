// Operators by type of losses and optimizers, and those that make tensors of numbers.
#include <algorithm>
#include <cmath>

#include "twin/cann/opapi/aclop.h"
#include "twin/cann/opapi/plan.h"
#include "twin/cann/opapi/rows.h"

namespace twin::cann {

namespace {

// Rows of logits with a class for each, or with a weight of every class: losses and gradients.
OperatorType SoftmaxCrossEntropy(bool sparse) {
  const auto infer = [sparse](const Inputs& in, const Attributes&, size_t) {
    Require(in, 0, kFloats);
    if (in[0].dims.size() != 2) Refuse("input 0 must have two dimensions, got " + Text(in[0]));
    if (sparse) Require(in, 1, kIndices);
    if (!sparse) RequireAlike(in, 1, 0);
    RequireShape(in, 1, sparse ? Dims{in[0].dims[0]} : in[0].dims);
    return Inputs{{in[0].dtype, {in[0].dims[0]}}, {in[0].dtype, in[0].dims}};
  };
  const auto loop = [sparse](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    const Values &x = in[0], &labels = in[1];
    const int64_t classes = x.dims[1];
    Values losses(out[0].dims), gradients(x.dims);
    for (int64_t row = 0; row < x.dims[0]; ++row) {
      if (sparse && (labels.data[row] < 0 || labels.data[row] >= static_cast<double>(classes))) {
        Refuse("a label is out of range: " + std::to_string(labels.data[row]));
      }
      const double* logits = x.data.data() + row * classes;
      const double most = *std::max_element(logits, logits + classes);
      std::vector<double> shifted(logits, logits + classes), powers(shifted), terms(shifted);
      for (int64_t i = 0; i < classes; ++i) {
        shifted[i] = InSingle(shifted[i] - most);
        powers[i] = InSingle(std::exp(shifted[i]));
      }
      const double sum = SumOf(powers.data(), classes), whole = InSingle(std::log(sum));
      for (int64_t i = 0; i < classes; ++i) {
        const double label = sparse
                                 ? static_cast<double>(labels.data[row] == static_cast<double>(i))
                                 : labels.data[row * classes + i];
        terms[i] = label == 0 ? 0 : InSingle(label * InSingle(shifted[i] - whole));
        gradients.data[row * classes + i] = InSingle(powers[i] / sum) - label;
      }
      losses.data[row] = -SumOf(terms.data(), classes);
    }
    return {losses, gradients};
  };
  return {2, 2, {}, infer, loop};
}

void RequireOne(const Inputs& in, size_t i) {
  if (Product(in[i].dims) == 1) return;
  Refuse("input " + std::to_string(i) + " must be one number, got " + Text(in[i]));
}

// MindSpore fuses a step of AdamW into it. Inputs: gradient, second and first moment, weight, rate,
// beta1, 1 - beta1, beta2, 1 - beta2, decay if there is one, epsilon; outputs: second and first
// moment, weight.
OperatorType AdamW(bool decay) {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    for (size_t i = 0; i < in.size(); ++i) {
      Require(in, i, kFloats);
      RequireAlike(in, i, 0);
      if (i < 4) RequireShape(in, i, in[0].dims);
      if (i >= 4) RequireOne(in, i);
    }
    return Inputs(3, {in[0].dtype, in[0].dims});
  };
  const auto loop = [decay](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    Values second(out[0].dims), first(second), weight(second);
    const auto scalar = [&](size_t i) { return in[i].data[0]; };
    const auto sum = [](double a, double x, double b, double y) {
      return InSingle(InSingle(a * x) + InSingle(b * y));
    };
    for (size_t i = 0; i < weight.data.size(); ++i) {
      const double gradient = in[0].data[i], old = in[3].data[i];
      first.data[i] = sum(scalar(5), in[2].data[i], scalar(6), gradient);
      second.data[i] = sum(scalar(7), in[1].data[i], scalar(8), InSingle(gradient * gradient));
      const double root = InSingle(InSingle(std::sqrt(second.data[i])) + scalar(decay ? 10 : 9));
      const double change = InSingle(first.data[i] / root);
      const double step = decay ? InSingle(InSingle(scalar(9) * old) + change) : change;
      weight.data[i] = old - InSingle(scalar(4) * step);
    }
    return {second, first, weight};
  };
  const size_t inputs = decay ? 11 : 10;
  return {inputs, inputs, {}, infer, loop};
}

// A step of SGD with momentum. Inputs: weight, accumulator, rate, gradient, momentum; the weight is
// the output, and the accumulator is written.
OperatorType Momentum() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    for (size_t i = 0; i < in.size(); ++i) {
      Require(in, i, kFloats);
      RequireAlike(in, i, 0);
      if (i == 1 || i == 3) RequireShape(in, i, in[0].dims);
      if (i == 2 || i == 4) RequireOne(in, i);
    }
    return Inputs{{in[0].dtype, in[0].dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs&) -> Tensors {
    Values weight = in[0], accumulator = in[1];
    const double rate = in[2].data[0], momentum = in[4].data[0];
    const bool nesterov = attrs.Integer("use_nesterov") != 0;
    for (size_t i = 0; i < weight.data.size(); ++i) {
      const double gradient = in[3].data[i];
      double& kept = accumulator.data[i];
      kept = InSingle(InSingle(momentum * kept) + gradient);
      const double step = nesterov ? InSingle(gradient + InSingle(momentum * kept)) : kept;
      weight.data[i] -= InSingle(rate * step);
    }
    return {weight, accumulator};
  };
  const std::vector<Attribute> attributes = {{"use_nesterov", int64_t{0}},
                                             {"use_locking", int64_t{0}}};
  return {5, 5, attributes, infer, loop, {1}};
}

// A step of Adam. Inputs: weight, first and second moment, powers of beta1 and beta2, rate, beta1,
// beta2, epsilon, gradient; outputs: weight, first and second moment.
OperatorType Adam() {
  constexpr size_t kGradient = 9;
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    for (size_t i = 0; i < in.size(); ++i) {
      const bool tensor = i < 3 || i == kGradient;
      Require(in, i, kFloats);
      RequireAlike(in, i, 0);
      if (tensor) RequireShape(in, i, in[0].dims);
      if (!tensor) RequireOne(in, i);
    }
    return Inputs(3, {in[0].dtype, in[0].dims});
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs&) -> Tensors {
    Values weight = in[0], first = in[1], second = in[2];
    const auto scalar = [&](size_t i) { return in[i].data[0]; };
    const auto left = [&](size_t i) { return InSingle(1 - scalar(i)); };
    const double rate = InSingle(InSingle(scalar(5) * InSingle(std::sqrt(left(4)))) / left(3));
    const bool nesterov = attrs.Integer("use_nesterov") != 0;
    for (size_t i = 0; i < weight.data.size(); ++i) {
      const double gradient = in[kGradient].data[i];
      double &m = first.data[i], &v = second.data[i];
      m = InSingle(m + InSingle(left(6) * InSingle(gradient - m)));
      v = InSingle(v + InSingle(left(7) * InSingle(InSingle(gradient * gradient) - v)));
      const double step =
          nesterov ? InSingle(InSingle(m * scalar(6)) + InSingle(left(6) * gradient)) : m;
      const double root = InSingle(scalar(8) + InSingle(std::sqrt(v)));
      weight.data[i] -= InSingle(InSingle(rate * step) / root);
    }
    return {weight, first, second};
  };
  const std::vector<Attribute> attributes = {{"use_nesterov", int64_t{0}},
                                             {"use_locking", int64_t{0}}};
  return {10, 10, attributes, infer, loop};
}

OperatorType OneHot() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    Require(in, 0, kIndices | Only(ACL_UINT8));
    RequireAlike(in, 3, 2);
    RequireOne(in, 2);
    RequireOne(in, 3);
    const int64_t depth = KnownOne(in, 1);
    if (depth < 0) Refuse("depth must not be negative, got " + std::to_string(depth));
    Dims dims = in[0].dims;
    const size_t axis = AxisOf(attrs.Integer("axis"), dims.size() + 1);
    dims.insert(dims.begin() + static_cast<int64_t>(axis), depth);
    return Inputs{{in[2].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) -> Tensors {
    Values result(out[0].dims);
    const size_t axis = AxisOf(attrs.Integer("axis"), result.dims.size());
    const int64_t inner = Product(result.dims, axis + 1), depth = result.dims[axis];
    for (int64_t at = 0; at < result.size(); ++at) {
      const int64_t from = at / inner / depth * inner + at % inner;
      const bool on = in[0].data[from] == static_cast<double>(at / inner % depth);
      result.data[at] = in[on ? 2 : 3].data[0];
    }
    return {result};
  };
  return {4, 4, {{"axis", int64_t{-1}}}, infer, loop};
}

// A tensor of one value, of the shape that the first input says.
OperatorType Fill() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    const Dims dims = Known(in, 0);
    if (std::any_of(dims.begin(), dims.end(), [](int64_t size) { return size < 0; })) {
      Refuse("a shape must not be negative");
    }
    RequireOne(in, 1);
    return Inputs{{in[1].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    return {Values(out[0].dims, in[1].data[0])};
  };
  return {2, 2, {}, infer, loop};
}

// start, start + delta, ... before limit.
OperatorType Range() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    Require(in, 0, kFloats | kIndices);
    if (attrs.Integer("is_closed") != 0) Refuse("is_closed, which the twin does not have");
    double values[3];
    for (size_t i = 0; i < 3; ++i) {
      RequireAlike(in, i, 0);
      RequireOne(in, i);
      if (in[i].values == nullptr) throw Later();
      values[i] = in[i].values->data[0];
    }
    if (values[2] == 0) Refuse("delta must not be 0");
    const double count = std::ceil((values[1] - values[0]) / values[2]);
    return Inputs{{in[0].dtype, {std::max<int64_t>(0, static_cast<int64_t>(count))}}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    Values result(out[0].dims);
    for (int64_t i = 0; i < result.size(); ++i) {
      result.data[i] = in[0].data[0] + InSingle(static_cast<double>(i) * in[2].data[0]);
    }
    return {result};
  };
  return {3, 3, {{"is_closed", int64_t{0}}}, infer, loop};
}

}  // namespace

void AddTraining(OperatorTypes* types) {
  OperatorTypes& all = *types;
  all["SparseSoftmaxCrossEntropyWithLogits"] = SoftmaxCrossEntropy(true);
  all["SoftmaxCrossEntropyWithLogits"] = SoftmaxCrossEntropy(false);
  for (const char* assign : {"", "Assign"}) {
    all[std::string("AdamApplyOne") + assign] = AdamW(false);
    all[std::string("AdamApplyOneWithDecay") + assign] = AdamW(true);
  }
  all["ApplyAdamD"] = Adam();
  all["ApplyMomentum"] = Momentum();
  all["Fill"] = Fill();
  all["OneHot"] = OneHot();
  all["Range"] = Range();
}

}  // namespace twin::cann
