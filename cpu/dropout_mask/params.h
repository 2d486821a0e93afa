// Parameters of the dropout mask.
#pragma once

#include <cstdint>

#include "infer/nsa_dropout_mask.h"

namespace nsa::cpu {

struct DropoutMaskParams : NsaDropoutMaskAttrs {
  uint64_t seed;
  uint8_t* mask;  // [ceil(numel / 8)]
};

void dropout_mask(const DropoutMaskParams& p);

}  // namespace nsa::cpu
