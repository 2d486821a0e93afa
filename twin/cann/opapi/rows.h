// Rows of a tensor along a dimension, and sums as a vector unit forms them.
#pragma once

#include "twin/cann/opapi/values.h"

namespace twin::cann {

// Calls row(first, step, count) for every row along a dimension.
template <class Row>
void ForEachRow(const Dims& dims, size_t axis, Row row) {
  const int64_t count = dims.empty() ? 1 : dims[axis];
  const int64_t step = dims.empty() ? 1 : StridesOf(dims)[axis];
  const int64_t all = Product(dims);
  for (int64_t at = 0; at < all; ++at) {
    if (at / step % count == 0) row(at, step, count);
  }
}

// The sum of `count` numbers: 64 lanes of float32 add one repeat of a vector after the other, then
// the lanes are added in pairs.
double SumOf(const double* values, int64_t count);

}  // namespace twin::cann
