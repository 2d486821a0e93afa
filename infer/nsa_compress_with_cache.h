// Inputs and outputs of NsaCompressWithCache.
#pragma once

#include "infer/op.h"

namespace nsa {

struct NsaCompressWithCacheInputs : Inputs {
  size_t input = required("input", Elements::kFloat);
  size_t weight = required("weight", Elements::kSameFloat);
  size_t slot_mapping = required("slot_mapping", Elements::kList);
  size_t block_table = optional("block_table", Elements::kInt32);
  size_t actual_seq_len = required("actual_seq_len", Elements::kList);
  size_t cache = required("cache", Elements::kSameFloat);  // written in place
};
inline constexpr NsaCompressWithCacheInputs kNsaCompressWithCacheInputs;

struct NsaCompressWithCacheOutputs : Outputs {
  size_t rows = add("rows");  // what was written, zeros for a row that fills no window
};
inline constexpr NsaCompressWithCacheOutputs kNsaCompressWithCacheOutputs;

}  // namespace nsa
