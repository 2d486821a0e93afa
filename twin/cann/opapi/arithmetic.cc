// Operators of two operands: arithmetic, comparisons, truth values.
#include <cmath>

#include "twin/cann/opapi/elementwise.h"

using namespace twin::cann;

namespace {

constexpr Rule kRemainder = {kAll, kFloats | kIndices, kAll, Result::kPromoted};
constexpr Rule kQuotients = {kAll, kAll, kFloats, Result::kQuotient};
constexpr Rule kPowers = {kAll, kNumbers, kAll, Result::kPromoted};
constexpr Dtypes kBits = kIntegers | kBool;
constexpr Rule kBitwise = {kBits, kBits, kAll, Result::kPromoted};
constexpr Rule kFloatPair = {kFloats, kFloats, kFloats, Result::kPromoted};

double FloorOf(double x, double y) { return std::floor(InSingle(x / y)); }
double Remainder(double x, double y) { return x - InSingle(FloorOf(x, y) * y); }
double Larger(double x, double y) { return x > y || x != x ? x : y; }
double Smaller(double x, double y) { return x < y || x != x ? x : y; }

// Integers are exact in double; a rounded quotient would be floored wrongly.
bool Exact(aclDataType dtype) { return Has(kIntegers | kBool, dtype); }

void Divide(const char* argument, double divisor, aclDataType dtype) {
  if (divisor == 0 && Exact(dtype)) Refuse(std::string(argument) + " must not be 0");
}

double ExactFloor(double x, double y) {
  Divide("other", y, ACL_INT64);
  return std::floor(x / y);
}
double ExactRemainder(double x, double y) { return x - ExactFloor(x, y) * y; }

// self + sign * alpha * other. The product is rounded before it is added, as two operators do it.
void Sum(Plan& plan, const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
         const aclTensor* out, double sign) {
  if (self == nullptr || other == nullptr) {
    // These name the one that is null.
    plan.In("self", self);
    plan.In("other", other);
  }
  const double factor = sign * Factor(alpha, Promote(self->dtype, other->dtype));
  Binary(plan, kArithmetic, self, other, out,
         [factor](double x, double y) { return x + InSingle(factor * y); });
}

void SumWithScalar(Plan& plan, const aclTensor* self, const aclScalar* other,
                   const aclScalar* alpha, const aclTensor* out, double sign) {
  plan.In("self", self);
  plan.Out("out", out);
  Number(other);
  const double factor = sign * Factor(alpha, PromoteScalar(self->dtype, other->dtype, out->dtype));
  plan.inputs.clear();
  plan.outputs.clear();
  WithScalar(plan, kArithmetic, self, other, out,
             [factor](double x, double y) { return x + InSingle(factor * y); });
}

}  // namespace

#define SELF_OTHER_OUT const aclTensor *self, const aclTensor *other, aclTensor *out
#define SELF_SCALAR_OUT const aclTensor *self, const aclScalar *other, aclTensor *out
#define SELF_OTHER_ALPHA_OUT \
  const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out
#define SELF_SCALAR_ALPHA_OUT \
  const aclTensor *self, const aclScalar *other, const aclScalar *alpha, aclTensor *out

ACLNN(Add, SELF_OTHER_ALPHA_OUT) PLAN({ Sum(plan, self, other, alpha, out, 1); });
ACLNN(InplaceAdd, const aclTensor* selfRef, const aclTensor* other, const aclScalar* alpha)
PLAN({ Sum(plan, selfRef, other, alpha, selfRef, 1); });
ACLNN(Adds, SELF_SCALAR_ALPHA_OUT) PLAN({ SumWithScalar(plan, self, other, alpha, out, 1); });
ACLNN(Sub, SELF_OTHER_ALPHA_OUT) PLAN({ Sum(plan, self, other, alpha, out, -1); });
ACLNN(Subs, SELF_SCALAR_ALPHA_OUT) PLAN({ SumWithScalar(plan, self, other, alpha, out, -1); });
ACLNN(Mul, SELF_OTHER_OUT)
PLAN({ Binary(plan, kArithmetic, self, other, out, [](double x, double y) { return x * y; }); });
ACLNN(InplaceMul, const aclTensor* selfRef, const aclTensor* other)
PLAN({
  Binary(plan, kArithmetic, selfRef, other, selfRef, [](double x, double y) { return x * y; });
});
ACLNN(Muls, SELF_SCALAR_OUT)
PLAN({
  WithScalar(plan, kArithmetic, self, other, out, [](double x, double y) { return x * y; });
});
ACLNN(Div, SELF_OTHER_OUT)
PLAN({ Binary(plan, kQuotients, self, other, out, [](double x, double y) { return x / y; }); });
ACLNN(Divs, SELF_SCALAR_OUT)
PLAN({ WithScalar(plan, kQuotients, self, other, out, [](double x, double y) { return x / y; }); });
ACLNN(FloorDivide, SELF_OTHER_OUT)
PLAN({
  const bool exact =
      self != nullptr && other != nullptr && Exact(self->dtype) && Exact(other->dtype);
  Binary(plan, kArithmetic, self, other, out, exact ? ExactFloor : FloorOf);
});
ACLNN(FloorDivides, SELF_SCALAR_OUT)
PLAN({
  const double divisor = Number(other);
  const bool exact = self != nullptr && Exact(self->dtype) && Exact(other->dtype);
  if (exact) Divide("other", divisor, other->dtype);
  WithScalar(plan, kArithmetic, self, other, out, exact ? ExactFloor : FloorOf);
});
ACLNN(RemainderTensorScalar, SELF_SCALAR_OUT)
PLAN({
  const double divisor = Number(other);
  const bool exact = self != nullptr && Exact(self->dtype) && Exact(other->dtype);
  if (exact) Divide("other", divisor, other->dtype);
  WithScalar(plan, kRemainder, self, other, out, exact ? ExactRemainder : Remainder);
});
ACLNN(Maximum, SELF_OTHER_OUT) PLAN({ Binary(plan, kArithmetic, self, other, out, Larger); });
ACLNN(Minimum, SELF_OTHER_OUT) PLAN({ Binary(plan, kArithmetic, self, other, out, Smaller); });
ACLNN(PowTensorScalar, SELF_SCALAR_OUT)
PLAN({
  const double power = Number(other);
  if (self != nullptr && Exact(self->dtype) && Exact(other->dtype) && power < 0) {
    Refuse("a negative power of integers, got exponent " + std::to_string(power));
  }
  WithScalar(plan, kPowers, self, other, out, [](double x, double y) { return std::pow(x, y); });
});
ACLNN(PowTensorTensor, SELF_OTHER_OUT)
PLAN({
  Binary(plan, kPowers, self, other, out, [](double x, double y) { return std::pow(x, y); });
});

#define COMPARISON(name, operation)                                         \
  ACLNN(name##Tensor, SELF_OTHER_OUT)                                       \
  PLAN({                                                                    \
    Binary(plan, kComparison, self, other, out,                             \
           [](double x, double y) -> double { return x operation y; });     \
  });                                                                       \
  ACLNN(name##Scalar, SELF_SCALAR_OUT)                                      \
  PLAN({                                                                    \
    WithScalar(plan, kComparison, self, other, out,                         \
               [](double x, double y) -> double { return x operation y; }); \
  })

COMPARISON(Eq, ==);
COMPARISON(Ne, !=);
COMPARISON(Lt, <);
COMPARISON(Le, <=);
COMPARISON(Gt, >);
COMPARISON(Ge, >=);

ACLNN(LogicalAnd, SELF_OTHER_OUT)
PLAN({
  Binary(plan, kComparison, self, other, out,
         [](double x, double y) -> double { return x != 0 && y != 0; });
});
ACLNN(LogicalOr, SELF_OTHER_OUT)
PLAN({
  Binary(plan, kComparison, self, other, out,
         [](double x, double y) -> double { return x != 0 || y != 0; });
});
ACLNN(BitwiseAndTensor, SELF_OTHER_OUT)
PLAN({
  Binary(plan, kBitwise, self, other, out, [](double x, double y) {
    return static_cast<double>(static_cast<int64_t>(x) & static_cast<int64_t>(y));
  });
});
ACLNN(SigmoidBackward, const aclTensor* gradOutput, const aclTensor* output, aclTensor* out)
PLAN({
  Binary(plan, kFloatPair, gradOutput, output, out,
         [](double d, double y) { return InSingle(d * InSingle(y * InSingle(1 - y))); });
});
ACLNN(SiluBackward, const aclTensor* gradOutput, const aclTensor* self, aclTensor* out)
PLAN({
  Binary(plan, kFloatPair, gradOutput, self, out, [](double d, double x) {
    const double s = InSingle(1 / InSingle(1 + InSingle(std::exp(-x))));
    return InSingle(d * InSingle(s * InSingle(1 + InSingle(x * InSingle(1 - s)))));
  });
});
