// Inputs and outputs of NsaDecode.
#pragma once

#include "infer/op.h"

namespace nsa {

struct NsaDecodeInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t gates = required("gates", Elements::kFloat32);
  size_t key_cmp = required("key_cmp", Elements::kSameFloat);
  size_t value_cmp = required("value_cmp", Elements::kSameFloat);
  size_t key_slc = required("key_slc", Elements::kSameFloat);
  size_t value_slc = required("value_slc", Elements::kSameFloat);
  size_t key_win = required("key_win", Elements::kSameFloat);
  size_t value_win = required("value_win", Elements::kSameFloat);
  size_t block_table = optional("block_table", Elements::kInt32);
  size_t cmp_block_table = optional("cmp_block_table", Elements::kInt32);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kList);
  size_t actual_seq_kvlen = required("actual_seq_kvlen", Elements::kList);
};
inline constexpr NsaDecodeInputs kNsaDecodeInputs;

struct NsaDecodeOutputs : Outputs {
  size_t attention_out = add("attention_out");
};
inline constexpr NsaDecodeOutputs kNsaDecodeOutputs;

}  // namespace nsa
