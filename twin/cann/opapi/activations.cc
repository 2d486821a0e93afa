// Activations beside those of elementwise.cc, and their gradients.
#include "twin/cann/opapi/activations.h"

#include <string>

#include "twin/cann/opapi/elementwise.h"

using namespace twin::cann;

namespace {

constexpr Rule kOfFloats = {kFloats, kFloats, kFloats, Result::kPromoted};
constexpr Dtypes kRectifiable = kFloats | kIndices | Only(ACL_INT8);
constexpr Rule kRectifier = {kRectifiable, kRectifiable, kRectifiable, Result::kPromoted};
// Without int64 on an Atlas A2.
constexpr Dtypes kThresholds = kFloats | Only(ACL_INT32) | Only(ACL_INT8) | Only(ACL_UINT8);
constexpr Rule kThreshold = {kThresholds, kThresholds, kThresholds, Result::kPromoted};
constexpr Dtypes kSingles = Only(ACL_FLOAT16) | Only(ACL_FLOAT);
constexpr Dtypes kOfErf = kSingles | kBool | Only(ACL_INT64);
constexpr Rule kErrorFunction = {kOfErf, kOfErf, kSingles, Result::kQuotient};

void Activate(Plan& plan, const Rule& rule, const aclTensor* self, const aclTensor* out, OfOne f) {
  Unary(plan, rule, self, out, f);
  RequireSameDtype("out", out, "self", self);
}

void Slope(Plan& plan, const aclTensor* grad, const aclTensor* self, const aclTensor* out,
           OfOne slope) {
  Binary(plan, kOfFloats, grad, self, out, [slope](double d, double x) { return d * slope(x); });
}

}  // namespace

ACLNN(Relu, const aclTensor* self, const aclTensor* out)
PLAN({ Activate(plan, kRectifier, self, out, Rectified); });
ACLNN(ThresholdBackward, const aclTensor* gradOutput, const aclTensor* self,
      const aclScalar* threshold, aclTensor* out)
PLAN({
  const double bound = Number(threshold);
  Binary(plan, kThreshold, gradOutput, self, out,
         [bound](double d, double x) { return x > bound ? d : 0.0; });
  RequireSameDtype("gradOutput", gradOutput, "self", self);
  RequireSameDtype("out", out, "self", self);
});
ACLNN(Erf, const aclTensor* self, aclTensor* out)
PLAN({ Unary(plan, kErrorFunction, self, out, ErfOf); });
ACLNN(TanhBackward, const aclTensor* gradOutput, const aclTensor* output, aclTensor* gradInput)
PLAN({
  Binary(plan, kOfFloats, gradOutput, output, gradInput,
         [](double d, double y) { return d * InSingle(1 - InSingle(y * y)); });
  RequireSameDtype("output", output, "gradOutput", gradOutput);
  RequireSameDtype("gradInput", gradInput, "gradOutput", gradOutput);
});

ACLNN(Gelu, const aclTensor* self, aclTensor* out)
PLAN({ Activate(plan, kOfFloats, self, out, Gelu); });
ACLNN(GeluBackward, const aclTensor* gradOutput, const aclTensor* self, const aclTensor* gradInput)
PLAN({ Slope(plan, gradOutput, self, gradInput, GeluSlope); });
ACLNN(GeluV2, const aclTensor* x, int64_t approximate, aclTensor* y)
PLAN({
  if (approximate != 0 && approximate != 1) {
    Refuse("approximate must be 0 (none) or 1 (tanh), got " + std::to_string(approximate));
  }
  Activate(plan, kOfFloats, x, y, approximate == 1 ? Gelu : ExactGelu);
});
ACLNN(GeluBackwardV2, const aclTensor* gradOutput, const aclTensor* self, char* approximate,
      aclTensor* gradInput)
PLAN({
  const std::string form = approximate == nullptr ? "null" : approximate;
  if (form != "none" && form != "tanh") Refuse("approximate must be none or tanh, got " + form);
  Slope(plan, gradOutput, self, gradInput, form == "tanh" ? GeluSlope : ExactGeluSlope);
  const aclDataType common = Promote(gradOutput->dtype, self->dtype);
  if (gradInput->dtype != common) {
    Refuse("gradInput must be of dtype " + NameOf(common) + ", got " + DescribeTensor(*gradInput));
  }
});
