// Activations and their slopes, in the steps of a vector unit.
#pragma once

#include <cmath>

#include "twin/cann/opapi/values.h"

namespace twin::cann {

inline double Rectified(double x) { return x > 0 || x != x ? x : 0; }

constexpr double kRootOfHalf = 0.70710678118654752;
constexpr double kDensityAtZero = 0.39894228040143268;  // 1 / sqrt(2 pi)
constexpr double kGeluScale = 0.79788456080286536;      // sqrt(2 / pi)
constexpr double kGeluCube = 0.044715;

inline double ErfOf(double x) { return InSingle(std::erf(x)); }

// x times the normal distribution at x: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
inline double GeluTanh(double x) {
  const double cube = InSingle(x * InSingle(x * x));
  return InSingle(std::tanh(InSingle(kGeluScale * InSingle(x + InSingle(kGeluCube * cube)))));
}
inline double Gelu(double x) { return InSingle(0.5 * x) * InSingle(1 + GeluTanh(x)); }
inline double GeluSlope(double x) {
  const double t = GeluTanh(x);
  const double rate =
      InSingle(kGeluScale * InSingle(1 + InSingle(3 * kGeluCube * InSingle(x * x))));
  const double bend = InSingle(InSingle(0.5 * x) * InSingle(InSingle(1 - InSingle(t * t)) * rate));
  return InSingle(InSingle(0.5 * InSingle(1 + t)) + bend);
}

// GELU with the distribution itself: 0.5 x (1 + erf(x / sqrt(2))).
inline double NormalShare(double x) {
  return InSingle(0.5 * InSingle(1 + ErfOf(InSingle(x * kRootOfHalf))));
}
inline double ExactGelu(double x) { return x * NormalShare(x); }
inline double ExactGeluSlope(double x) {
  const double density = InSingle(kDensityAtZero * InSingle(std::exp(InSingle(-0.5 * x * x))));
  return InSingle(NormalShare(x) + InSingle(x * density));
}

}  // namespace twin::cann
