// How an operator that works element by element is written: a rule for its dtypes, and a function.
#pragma once

#include "twin/cann/opapi/plan.h"

namespace twin::cann {

// The result of an element has one of these dtypes before it is cast to the output's.
enum class Result {
  kPromoted,  // of the inputs' common dtype
  kQuotient,  // the same, where integers and bools give float32
  kTruth,     // a bool
};

struct Rule {
  Dtypes inputs;
  Dtypes promoted;  // in which of the common dtypes CANN computes
  Dtypes outputs;
  Result result;
};

constexpr Rule kArithmetic = {kAll, kAll, kAll, Result::kPromoted};
constexpr Rule kComparison = {kAll, kAll, kAll, Result::kTruth};
// Functions such as sin, which give floats of integers.
constexpr Rule kFunction = {kAll, kAll, kFloats, Result::kQuotient};

using OfTwo = std::function<double(double, double)>;
using OfOne = std::function<double(double)>;

// out = f(a, b) with broadcasting.
void Binary(Plan& plan, const Rule& rule, const aclTensor* a, const aclTensor* b,
            const aclTensor* out, OfTwo f);
// out = f(a, scalar); the shapes are the same.
void WithScalar(Plan& plan, const Rule& rule, const aclTensor* a, const aclScalar* scalar,
                const aclTensor* out, OfTwo f);
// out = f(a) for every element; the shapes are the same.
void Unary(Plan& plan, const Rule& rule, const aclTensor* a, const aclTensor* out, OfOne f);

// A factor as a computation in that dtype takes it; throws where that is no dtype for it.
double Factor(const aclScalar* alpha, aclDataType computed);

}  // namespace twin::cann
