// LayerNorm of rows: mean, deviation, scale and shift, and the gradients.
#pragma once

#include "twin/cann/opapi/values.h"

namespace twin::cann {

struct Normed {
  Values y, mean, variance, rstd;
};

// Rows of x have the size of gamma and beta, or of `width` where these are null.
Normed Normalise(const Values& x, int64_t width, const Values* gamma, const Values* beta,
                 double epsilon, const Dims& rows);

struct NormGradients {
  Values x, gamma, beta;
};

// `rstd` and `mean` have a value for every row.
NormGradients NormaliseBackward(const Values& dy, const Values& x, const Values& mean,
                                const Values& rstd, const Values* gamma, const Dims& params);

}  // namespace twin::cann
