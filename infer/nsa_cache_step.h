// Inputs and outputs of NsaCacheStep.
#pragma once

#include "infer/op.h"

namespace nsa {

struct NsaCacheStepInputs : Inputs {
  size_t query = required("query", Elements::kFloat32);
  size_t key = required("key", Elements::kFloat32);
  size_t value = required("value", Elements::kFloat32);
  size_t key_slc = required("key_slc", Elements::kFloat);
  size_t value_slc = required("value_slc", Elements::kSameFloat);
  size_t lengths = required("lengths", Elements::kInt64);
  size_t written = required("written", Elements::kInt64);
  size_t actual_seq_len = optional("actual_seq_len", Elements::kList);
  size_t gates = optional("gates", Elements::kFloat32);
  size_t weight_k = optional("weight_k", Elements::kFloat32);
  size_t weight_v = optional("weight_v", Elements::kFloat32);
  size_t position_k = optional("position_k", Elements::kFloat32);
  size_t position_v = optional("position_v", Elements::kFloat32);
  size_t key_cmp = optional("key_cmp", Elements::kSameFloat);
  size_t value_cmp = optional("value_cmp", Elements::kSameFloat);
  size_t key_win = optional("key_win", Elements::kSameFloat);
  size_t value_win = optional("value_win", Elements::kSameFloat);
  size_t key_raw = optional("key_raw", Elements::kSameFloat);
  size_t value_raw = optional("value_raw", Elements::kSameFloat);
};
inline constexpr NsaCacheStepInputs kNsaCacheStepInputs;

struct NsaCacheStepOutputs : Outputs {
  size_t attention_out = add("attention_out");
};
inline constexpr NsaCacheStepOutputs kNsaCacheStepOutputs;

}  // namespace nsa
