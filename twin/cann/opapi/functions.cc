// Operators of one operand.
#include <cmath>

#include "twin/cann/opapi/elementwise.h"

using namespace twin::cann;

namespace {

constexpr Dtypes kSigned = kFloats | kIndices | Only(ACL_INT8);  // dtypes that aclnnNeg takes
constexpr Rule kNegation = {kSigned, kSigned, kAll, Result::kPromoted};
constexpr Rule kMagnitude = {kNumbers, kNumbers, kNumbers, Result::kPromoted};
constexpr Dtypes kOfExp = kFloats | kBool | Only(ACL_INT64);
constexpr Rule kExponential = {kOfExp, kOfExp, kFloats, Result::kQuotient};
constexpr Rule kOfFloats = {kFloats, kFloats, kFloats, Result::kPromoted};
constexpr Rule kFlag = {kAll, kAll, kBool, Result::kTruth};

double Sigmoid(double x) { return InSingle(1 / InSingle(1 + InSingle(std::exp(-x)))); }

}  // namespace

#define SELF_OUT const aclTensor *self, aclTensor *out
#define FUNCTION(name, rule, expression) \
  ACLNN(name, SELF_OUT)                  \
  PLAN({ Unary(plan, rule, self, out, [](double x) -> double { return expression; }); })

FUNCTION(LogicalNot, kComparison, x == 0);
FUNCTION(Neg, kNegation, -x);
FUNCTION(Exp, kExponential, std::exp(x));
FUNCTION(Log, kFunction, std::log(x));
FUNCTION(Sqrt, kFunction, std::sqrt(x));
FUNCTION(Rsqrt, kFunction, 1 / InSingle(std::sqrt(x)));
FUNCTION(Reciprocal, kFunction, 1 / x);
FUNCTION(Sin, kFunction, std::sin(x));
FUNCTION(Cos, kFunction, std::cos(x));
FUNCTION(Tanh, kFunction, std::tanh(x));
FUNCTION(Sigmoid, kFunction, Sigmoid(x));
FUNCTION(IsFinite, kFlag, std::isfinite(x));

ACLNN(Abs, SELF_OUT)
PLAN({
  Unary(plan, kMagnitude, self, out, [](double x) { return std::fabs(x); });
  RequireSameDtype("out", out, "self", self);
});
ACLNN(Silu, SELF_OUT)
PLAN({
  Unary(plan, kOfFloats, self, out, [](double x) { return x * Sigmoid(x); });
  RequireSameDtype("out", out, "self", self);
});
