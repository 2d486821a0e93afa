// Inputs, attributes and outputs of NsaCacheStep.
#pragma once

#include "infer/declare.h"

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

struct NsaCacheStepAttrs {
  float scale_value;
  float theta;  // base of the rotary angles
  int64_t window_size;
  int64_t compress_block_size = 1;
  int64_t compress_stride = 1;
  int64_t select_block_size = 1;
  int64_t select_block_count = 1;
  int64_t init_blocks = 0;
  int64_t local_blocks = 0;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaCacheStepAttrs;
    attr.required("scale_value", &Self::scale_value);
    attr.required("theta", &Self::theta);
    attr.required("window_size", &Self::window_size, 1);
    attr.optional("compress_block_size", &Self::compress_block_size, 1);
    attr.optional("compress_stride", &Self::compress_stride, 1);
    attr.optional("select_block_size", &Self::select_block_size, 1);
    attr.optional("select_block_count", &Self::select_block_count, 1);
    attr.optional("init_blocks", &Self::init_blocks, 0);
    attr.optional("local_blocks", &Self::local_blocks, 0);
    attr.text("importance", "overlap");
  }
};

struct NsaCacheStepOutputs : Outputs {
  size_t attention_out = add("attention_out");
};
inline constexpr NsaCacheStepOutputs kNsaCacheStepOutputs;

}  // namespace nsa
