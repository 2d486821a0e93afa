// Inputs, attributes and outputs of NsaDecode.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaDecodeInputs : Inputs {
  size_t query = required("query", Elements::kFloat,
                          "T, N1 = head_num > 0, D > 0 with layout 'TND' | "
                          "B, S, N1 = head_num > 0, D > 0 with layout 'BSND'");
  size_t gates = required("gates", Elements::kFloat32, "T, 3, N1 | B, S, 3, N1");
  size_t key_cmp = required("key_cmp", Elements::kSameFloat);
  size_t value_cmp = required("value_cmp", Elements::kSameFloat);
  size_t key_slc = required("key_slc", Elements::kSameFloat);
  size_t value_slc = required("value_slc", Elements::kSameFloat);
  size_t key_win = required("key_win", Elements::kSameFloat);
  size_t value_win = required("value_win", Elements::kSameFloat);
  size_t block_table = optional("block_table", Elements::kInt32);
  size_t cmp_block_table = optional("cmp_block_table", Elements::kInt32);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kRowList);
  size_t actual_seq_kvlen = required("actual_seq_kvlen", Elements::kRowList);
};
inline constexpr NsaDecodeInputs kNsaDecodeInputs;

struct NsaDecodeAttrs : SelectionAttrs {
  float scale_value;
  int64_t head_num;
  int64_t window_size;  // tokens that a query sees of the window, itself among them
  RowLayout layout = RowLayout::kTND;
  CacheLayout cache_layout = CacheLayout::kBSND;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaDecodeAttrs;
    attr.required("scale_value", &Self::scale_value);
    attr.required("head_num", &Self::head_num, 1);
    attr.required("compress_block_size", &Self::compress_block_size, 1);
    attr.required("compress_stride", &Self::compress_stride, 1);
    attr.required("select_block_size", &Self::select_block_size, 1);
    attr.required("select_block_count", &Self::select_block_count, 1);
    attr.required("window_size", &Self::window_size, 1);
    attr.optional("layout", &Self::layout);
    attr.optional("cache_layout", &Self::cache_layout);
    attr.optional("init_blocks", &Self::init_blocks, 0);
    attr.optional("local_blocks", &Self::local_blocks, 0);
    attr.optional("importance", &Self::importance);
  }
};

struct NsaDecodeOutputs : Outputs {
  size_t attention_out = add("attention_out", Result::kFloat, "T, N1, Dv | B, S, N1, Dv");
};
inline constexpr NsaDecodeOutputs kNsaDecodeOutputs;

}  // namespace nsa
