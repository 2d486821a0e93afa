#include "twin/cann/opapi/elementwise.h"

namespace twin::cann {

namespace {

// The dtype of an element's result; throws where the rule does not have it or out cannot take it.
aclDataType ResultOf(const Rule& rule, aclDataType common, const aclTensor* out) {
  if (!Has(rule.promoted, common)) {
    Refuse("there is no such operation on " + NameOf(common) + ", the common dtype of the inputs");
  }
  aclDataType result = common;
  if (rule.result == Result::kTruth) result = ACL_BOOL;
  if (rule.result == Result::kQuotient && !Has(kFloats | Only(ACL_DOUBLE), common)) {
    result = ACL_FLOAT;
  }
  RequireCast(result, "out", out->dtype);
  return result;
}

bool IsInteger(aclDataType dtype) { return Has(kIntegers | kBool, dtype); }

// Rounds a result to float32 and then to its dtype. Of integers it is exact already.
double Rounded(double value, aclDataType result) {
  if (result == ACL_BOOL) return value != 0 ? 1 : 0;
  return RoundTo(IsInteger(result) ? value : InSingle(value), result);
}

}  // namespace

double Factor(const aclScalar* alpha, aclDataType computed) {
  const double value = Number(alpha);
  if (computed == ACL_BOOL ? !IsInteger(alpha->dtype) : !CanCast(alpha->dtype, computed)) {
    Refuse("alpha of dtype " + NameOf(alpha->dtype) + " is not cast to " + NameOf(computed) +
           ", in which the operator computes");
  }
  return IsInteger(computed) ? value : InSingle(value);
}

void Binary(Plan& plan, const Rule& rule, const aclTensor* a, const aclTensor* b,
            const aclTensor* out, OfTwo f) {
  plan.In("self", a, rule.inputs);
  plan.In("other", b, rule.inputs);
  plan.Out("out", out, rule.outputs);
  RequireDims("out", out, BroadcastDims(a->dims, b->dims));
  const aclDataType common = Promote(a->dtype, b->dtype);
  const aclDataType result = ResultOf(rule, common, out);
  plan.compute = [f, common, result](const Arguments& all) {
    const Dims& dims = all[2].tensor.dims;
    Values x = Broadcast(Read(all[0]), dims);
    Values y = Broadcast(Read(all[1]), dims);
    if (all[0].tensor.dtype != common) RoundTo(&x, common);
    if (all[1].tensor.dtype != common) RoundTo(&y, common);
    for (size_t i = 0; i < x.data.size(); ++i) {
      x.data[i] = Rounded(f(x.data[i], y.data[i]), result);
    }
    Write(x, all[2]);
  };
}

void WithScalar(Plan& plan, const Rule& rule, const aclTensor* a, const aclScalar* scalar,
                const aclTensor* out, OfTwo f) {
  plan.In("self", a, rule.inputs);
  plan.Out("out", out, rule.outputs);
  RequireDims("out", out, a->dims);
  const double number = Number(scalar);
  const aclDataType common = PromoteScalar(a->dtype, scalar->dtype, out->dtype);
  const aclDataType result = ResultOf(rule, common, out);
  // The vector unit holds the scalar as a float, whatever the 16 bits of the tensor are.
  const double operand = IsInteger(common) ? RoundTo(number, common) : InSingle(number);
  plan.compute = [f, common, result, operand](const Arguments& all) {
    Values x = Read(all[0]);
    if (all[0].tensor.dtype != common) RoundTo(&x, common);
    for (double& value : x.data) value = Rounded(f(value, operand), result);
    Write(x, all[1]);
  };
}

void Unary(Plan& plan, const Rule& rule, const aclTensor* a, const aclTensor* out, OfOne f) {
  plan.In("self", a, rule.inputs);
  plan.Out("out", out, rule.outputs);
  RequireDims("out", out, a->dims);
  const aclDataType result = ResultOf(rule, a->dtype, out);
  plan.compute = [f, result](const Arguments& all) {
    Values x = Read(all[0]);
    for (double& value : x.data) value = Rounded(f(value), result);
    Write(x, all[1]);
  };
}

}  // namespace twin::cann
