#include "twin/cann/opapi/layer_norm.h"

#include <cmath>
#include <memory>

#include "twin/cann/opapi/plan.h"
#include "twin/cann/opapi/rows.h"

namespace twin::cann {

Normed Normalise(const Values& x, int64_t width, const Values* gamma, const Values* beta,
                 double epsilon, const Dims& rows) {
  Normed found = {Values(x.dims), Values(rows), Values(rows), Values(rows)};
  std::vector<double> centred(static_cast<size_t>(width)), squares(centred);
  for (int64_t row = 0; row < found.mean.size(); ++row) {
    const double* from = x.data.data() + row * width;
    const double mean = InSingle(SumOf(from, width) / static_cast<double>(width));
    for (int64_t i = 0; i < width; ++i) {
      centred[i] = InSingle(from[i] - mean);
      squares[i] = InSingle(centred[i] * centred[i]);
    }
    const double variance = InSingle(SumOf(squares.data(), width) / static_cast<double>(width));
    const double rstd = InSingle(1 / InSingle(std::sqrt(InSingle(variance + InSingle(epsilon)))));
    for (int64_t i = 0; i < width; ++i) {
      double value = InSingle(centred[i] * rstd);
      if (gamma != nullptr) value = InSingle(value * gamma->data[i]);
      if (beta != nullptr) value = InSingle(value + beta->data[i]);
      found.y.data[row * width + i] = value;
    }
    found.mean.data[row] = mean;
    found.variance.data[row] = variance;
    found.rstd.data[row] = rstd;
  }
  return found;
}

NormGradients NormaliseBackward(const Values& dy, const Values& x, const Values& mean,
                                const Values& rstd, const Values* gamma, const Dims& params) {
  NormGradients found = {Values(x.dims), Values(params), Values(params)};
  const int64_t width = found.gamma.size();
  const auto count = static_cast<double>(width);
  std::vector<double> scaled(static_cast<size_t>(width)), normed(scaled), terms(scaled);
  for (int64_t row = 0; row < mean.size(); ++row) {
    for (int64_t i = 0; i < width; ++i) {
      const int64_t at = row * width + i;
      normed[i] = InSingle(InSingle(x.data[at] - mean.data[row]) * rstd.data[row]);
      scaled[i] = gamma == nullptr ? dy.data[at] : InSingle(dy.data[at] * gamma->data[i]);
      terms[i] = InSingle(scaled[i] * normed[i]);
      double& scale = found.gamma.data[i];
      double& shift = found.beta.data[i];
      scale = InSingle(scale + InSingle(dy.data[at] * normed[i]));
      shift = InSingle(shift + dy.data[at]);
    }
    const double level = InSingle(SumOf(scaled.data(), width) / count);
    const double tilt = InSingle(SumOf(terms.data(), width) / count);
    for (int64_t i = 0; i < width; ++i) {
      const double rest = InSingle(InSingle(scaled[i] - level) - InSingle(normed[i] * tilt));
      found.x.data[row * width + i] = InSingle(rstd.data[row] * rest);
    }
  }
  return found;
}

}  // namespace twin::cann

using namespace twin::cann;

namespace {

// The shape of one value for every row of x, whose last dimensions are `params`.
Dims RowsOf(const aclTensor* x, const Dims& params) {
  const size_t rank = x->dims.size(), normed = params.size();
  if (normed == 0 || normed > rank) {
    Refuse("normalizedShape must have 1 to " + std::to_string(rank) + " dimensions, got " +
           std::to_string(normed));
  }
  Dims rows = x->dims;
  for (size_t i = 0; i < normed; ++i) {
    if (rows[rank - normed + i] != params[i]) {
      Refuse("normalizedShape must be the last dimensions of " + DescribeTensor(*x));
    }
    rows[rank - normed + i] = 1;
  }
  return rows;
}

// Weight and bias have one dtype: the input's, or float32 where both are given.
void CheckParameters(const aclTensor* input, const Dims& params, const aclTensor* weight,
                     const aclTensor* bias) {
  for (const aclTensor* each : {weight, bias}) {
    if (each == nullptr) continue;
    const char* const name = each == weight ? "weightOptional" : "biasOptional";
    RequireDims(name, each, params);
    if (each->dtype != ACL_FLOAT || weight == nullptr || bias == nullptr) {
      RequireSameDtype(name, each, "input", input);
    }
  }
  if (weight != nullptr && bias != nullptr) {
    RequireSameDtype("biasOptional", bias, "weightOptional", weight);
  }
}

// Reads the tensors of a call one after the other; an absent one is none of them.
class Reader {
 public:
  explicit Reader(const Arguments& all) : all_(all) {}
  const Values* Next(bool given) {
    if (!given) return nullptr;
    kept_.push_back(std::make_unique<Values>(Read(all_[at_++])));
    return kept_.back().get();
  }
  void Put(bool given, const Values& values) {
    if (given) Write(values, all_[at_++]);
  }

 private:
  const Arguments& all_;
  size_t at_ = 0;
  std::vector<std::unique_ptr<Values>> kept_;
};

}  // namespace

ACLNN(LayerNorm, const aclTensor* input, const aclIntArray* normalizedShape,
      const aclTensor* weightOptional, const aclTensor* biasOptional, double eps, aclTensor* out,
      aclTensor* meanOutOptional, aclTensor* rstdOutOptional)
PLAN({
  const bool weight = weightOptional != nullptr, bias = biasOptional != nullptr;
  const bool mean = meanOutOptional != nullptr, rstd = rstdOutOptional != nullptr;
  plan.In("input", input, kFloats);
  if (weight) plan.In("weightOptional", weightOptional, kFloats);
  if (bias) plan.In("biasOptional", biasOptional, kFloats);
  plan.Out("out", out, kFloats);
  if (mean) plan.Out("meanOutOptional", meanOutOptional, kFloats);
  if (rstd) plan.Out("rstdOutOptional", rstdOutOptional, kFloats);
  const Dims params = Integers(normalizedShape), rows = RowsOf(input, params);
  CheckParameters(input, params, weightOptional, biasOptional);
  RequireDims("out", out, input->dims);
  RequireSameDtype("out", out, "input", input);
  if (mean) RequireDims("meanOutOptional", meanOutOptional, rows);
  if (rstd) RequireDims("rstdOutOptional", rstdOutOptional, rows);
  plan.compute = [=](const Arguments& all) {
    Reader call(all);
    const Values* x = call.Next(true);
    const Values* gamma = call.Next(weight);
    const Values* beta = call.Next(bias);
    const Normed found = Normalise(*x, Product(params), gamma, beta, eps, rows);
    call.Put(true, found.y);
    call.Put(mean, found.mean);
    call.Put(rstd, found.rstd);
  };
});
ACLNN(LayerNormBackward, const aclTensor* gradOut, const aclTensor* input,
      const aclIntArray* normalizedShape, const aclTensor* mean, const aclTensor* rstd,
      const aclTensor* weightOptional, const aclTensor* biasOptional,
      const aclBoolArray* outputMask, aclTensor* gradInputOut, aclTensor* gradWeightOut,
      aclTensor* gradBiasOut)
PLAN({
  plan.In("gradOut", gradOut, kFloats);
  plan.In("input", input, kFloats);
  plan.In("mean", mean, kFloats);
  plan.In("rstd", rstd, kFloats);
  const bool weight = weightOptional != nullptr;
  if (weight) plan.In("weightOptional", weightOptional, kFloats);
  if (biasOptional != nullptr) plan.In("biasOptional", biasOptional, kFloats);
  if (outputMask == nullptr || !twin::Exists(outputMask) || outputMask->values.size() != 3) {
    Refuse("outputMask must have 3 bools");
  }
  const Dims params = Integers(normalizedShape), rows = RowsOf(input, params);
  RequireDims("gradOut", gradOut, input->dims);
  RequireSameDtype("gradOut", gradOut, "input", input);
  if (Product(mean->dims) != Product(rows)) RequireDims("mean", mean, rows);
  if (Product(rstd->dims) != Product(rows)) RequireDims("rstd", rstd, rows);
  RequireSameDtype("rstd", rstd, "mean", mean);
  CheckParameters(input, params, weightOptional, biasOptional);
  const std::vector<uint8_t> wanted = outputMask->values;
  const aclTensor* const parameter = weight ? weightOptional : input;
  if (wanted[0]) {
    plan.Out("gradInputOut", gradInputOut, kFloats);
    RequireDims("gradInputOut", gradInputOut, input->dims);
    RequireSameDtype("gradInputOut", gradInputOut, "input", input);
  }
  if (wanted[1]) {
    plan.Out("gradWeightOut", gradWeightOut, kFloats);
    RequireDims("gradWeightOut", gradWeightOut, params);
    RequireSameDtype("gradWeightOut", gradWeightOut, "weightOptional", parameter);
  }
  if (wanted[2]) {
    plan.Out("gradBiasOut", gradBiasOut, kFloats);
    RequireDims("gradBiasOut", gradBiasOut, params);
    RequireSameDtype("gradBiasOut", gradBiasOut, "weightOptional", parameter);
  }
  const bool bias = biasOptional != nullptr;
  plan.compute = [=](const Arguments& all) {
    Reader call(all);
    const Values *dy = call.Next(true), *x = call.Next(true), *means = call.Next(true),
                 *rstds = call.Next(true);
    const Values* gamma = call.Next(weight);
    call.Next(bias);
    const NormGradients found = NormaliseBackward(*dy, *x, *means, *rstds, gamma, params);
    call.Put(wanted[0], found.x);
    call.Put(wanted[1], found.gamma);
    call.Put(wanted[2], found.beta);
  };
});
