// A tensor seen along one of its dimensions.
#pragma once

#include "twin/cann/opapi/values.h"

namespace twin::cann {

// The sizes [outer, axis, inner].
struct Folded {
  int64_t outer, axis, inner;
};

inline Folded Fold(const Dims& dims, size_t axis) {
  return {Product(dims, 0, axis), dims.empty() ? 1 : dims[axis], Product(dims, axis + 1)};
}

}  // namespace twin::cann
