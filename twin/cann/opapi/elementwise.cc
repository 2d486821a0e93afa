// Operators that work element by element.
#include <algorithm>
#include <cmath>

#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
// Of a quotient, rounded as the dtype of the operation has it.
double FloorOf(double x, double y) { return std::floor(x / y); }

}  // namespace

#define SELF_OTHER_OUT const aclTensor *self, const aclTensor *other, aclTensor *out
#define SELF_SCALAR_OUT const aclTensor *self, const aclScalar *other, aclTensor *out
#define SELF_OUT const aclTensor *self, aclTensor *out

ACLNN(Add, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out)
PLAN({
  Binary(plan, self, other, out, [s = Number(alpha)](double x, double y) { return x + s * y; });
});
ACLNN(Adds, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out)
PLAN({ Unary(plan, self, out, [s = Number(alpha) * Number(other)](double x) { return x + s; }); });
ACLNN(Sub, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out)
PLAN({
  Binary(plan, self, other, out, [s = Number(alpha)](double x, double y) { return x - s * y; });
});
ACLNN(Subs, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out)
PLAN({ Unary(plan, self, out, [s = Number(alpha) * Number(other)](double x) { return x - s; }); });
ACLNN(Mul, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x * y; }); });
ACLNN(Muls, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return x * s; }); });
ACLNN(Div, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x / y; }); });
ACLNN(Divs, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return x / s; }); });
ACLNN(FloorDivide, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, FloorOf); });
ACLNN(FloorDivides, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return FloorOf(x, s); }); });
ACLNN(RemainderTensorScalar, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return x - FloorOf(x, s) * s; }); });
ACLNN(Maximum, SELF_OTHER_OUT)
PLAN({
  Binary(plan, self, other, out, [](double x, double y) { return x > y || x != x ? x : y; });
});
ACLNN(Minimum, SELF_OTHER_OUT)
PLAN({
  Binary(plan, self, other, out, [](double x, double y) { return x < y || x != x ? x : y; });
});
ACLNN(EqTensor, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x == y; }); });
ACLNN(NeTensor, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x != y; }); });
ACLNN(LtTensor, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x < y; }); });
ACLNN(LeTensor, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x <= y; }); });
ACLNN(GtTensor, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x > y; }); });
ACLNN(GeTensor, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x >= y; }); });
ACLNN(EqScalar, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return x == s; }); });
ACLNN(NeScalar, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return x != s; }); });
ACLNN(LtScalar, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return x < s; }); });
ACLNN(LeScalar, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return x <= s; }); });
ACLNN(GtScalar, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return x > s; }); });
ACLNN(GeScalar, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return x >= s; }); });
ACLNN(LogicalAnd, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x != 0 && y != 0; }); });
ACLNN(LogicalOr, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return x != 0 || y != 0; }); });
ACLNN(LogicalNot, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return x == 0; }); });
ACLNN(Neg, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return -x; }); });
ACLNN(Abs, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return std::fabs(x); }); });
ACLNN(Exp, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return std::exp(x); }); });
ACLNN(Log, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return std::log(x); }); });
ACLNN(Sqrt, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return std::sqrt(x); }); });
ACLNN(Rsqrt, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return 1 / std::sqrt(x); }); });
ACLNN(Reciprocal, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return 1 / x; }); });
ACLNN(Sin, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return std::sin(x); }); });
ACLNN(Cos, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return std::cos(x); }); });
ACLNN(Tanh, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return std::tanh(x); }); });
ACLNN(Sigmoid, SELF_OUT)
PLAN({ Unary(plan, self, out, Sigmoid); });
ACLNN(Silu, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return x * Sigmoid(x); }); });
ACLNN(IsFinite, SELF_OUT)
PLAN({ Unary(plan, self, out, [](double x) { return std::isfinite(x); }); });
ACLNN(PowTensorScalar, SELF_SCALAR_OUT)
PLAN({ Unary(plan, self, out, [s = Number(other)](double x) { return std::pow(x, s); }); });
ACLNN(PowTensorTensor, SELF_OTHER_OUT)
PLAN({ Binary(plan, self, other, out, [](double x, double y) { return std::pow(x, y); }); });
ACLNN(SigmoidBackward, const aclTensor* gradOutput, const aclTensor* output, aclTensor* out)
PLAN({
  Binary(plan, gradOutput, output, out, [](double d, double y) { return d * y * (1 - y); });
});
ACLNN(SiluBackward, const aclTensor* gradOutput, const aclTensor* self, aclTensor* out)
PLAN({
  Binary(plan, gradOutput, self, out, [](double d, double x) {
    const double s = Sigmoid(x);
    return d * s * (1 + x * (1 - s));
  });
});
ACLNN(Cast, const aclTensor* self, const aclDataType dtype, aclTensor* out)
PLAN({
  Unary(plan, self, out, [](double x) { return x; });
  if (out->dtype != dtype) Refuse("out has another dtype than the call");
});
ACLNN(InplaceCopy, aclTensor* selfRef, const aclTensor* src)
PLAN({
  plan.In("src", src);
  plan.Out("selfRef", selfRef);
  if (BroadcastDims(src->dims, selfRef->dims) != selfRef->dims) Refuse("src cannot be broadcast");
  plan.compute = [](const Arguments& all) {
    if (CopyBits(all[0], all[1])) return;
    Write(Broadcast(Read(all[0]), all[1].tensor.dims), all[1]);
  };
});

namespace {
void Fill(Plan& plan, const aclTensor* self, double value) {
  plan.Out("selfRef", self);
  plan.compute = [value](const Arguments& all) {
    Write(Values(all[0].tensor.dims, value), all[0]);
  };
}

}  // namespace

ACLNN(InplaceOne, aclTensor* selfRef)
PLAN({ Fill(plan, selfRef, 1); });
ACLNN(InplaceZero, aclTensor* selfRef)
PLAN({ Fill(plan, selfRef, 0); });
ACLNN(InplaceFillScalar, aclTensor* selfRef, const aclScalar* value)
PLAN({ Fill(plan, selfRef, Number(value)); });
ACLNN(SWhere, const aclTensor* condition, const aclTensor* self, const aclTensor* other,
      aclTensor* out)
PLAN({
  plan.In("condition", condition);
  plan.In("self", self);
  plan.In("other", other);
  plan.Out("out", out);
  RequireDims("out", out, BroadcastDims(condition->dims, BroadcastDims(self->dims, other->dims)));
  plan.compute = [](const Arguments& all) {
    const Dims& dims = all[3].tensor.dims;
    const Values c = Broadcast(Read(all[0]), dims);
    Values x = Broadcast(Read(all[1]), dims);
    const Values y = Broadcast(Read(all[2]), dims);
    for (size_t i = 0; i < x.data.size(); ++i) {
      if (c.data[i] == 0) x.data[i] = y.data[i];
    }
    Write(x, all[3]);
  };
});
