// Masks of dropout: a bit for each element, in whole groups of 128.
#pragma once

#include "twin/cann/opapi/values.h"

namespace twin::cann {

inline int64_t MaskBytes(int64_t elements) { return (elements + 127) / 128 * 16; }

// Bytes in which a bit is 0 with the probability `dropped`. CANN does not say which bits a seed
// gives, but that equal seeds and offsets give equal ones.
std::vector<double> MaskOf(int64_t bytes, double dropped, int64_t seed, int64_t offset);

// Elements by their bits: 0, or the element times a scale.
void Drop(Values* x, const Values& mask, double scale);

}  // namespace twin::cann
