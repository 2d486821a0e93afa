// Inputs, attributes and outputs of NsaCompressWithCache.
#pragma once

#include "infer/declare.h"

namespace nsa {

struct NsaCompressWithCacheInputs : Inputs {
  size_t input =
      required("input", Elements::kFloat,
               "pages, page_block_size?, N > 0, D > 0 | T, N > 0, D > 0 without block_table");
  size_t weight = required("weight", Elements::kSameFloat, "compress_block_size, N");
  size_t slot_mapping = required("slot_mapping", Elements::kRowList);
  size_t block_table = optional("block_table", Elements::kInt32);
  size_t actual_seq_len = required("actual_seq_len", Elements::kRowList);
  size_t cache = required("cache", Elements::kSameFloat, "slots?, N, D");  // written in place
};
inline constexpr NsaCompressWithCacheInputs kNsaCompressWithCacheInputs;

struct NsaCompressWithCacheAttrs {
  int64_t compress_block_size;  // tokens of a window
  int64_t compress_stride;      // tokens between window starts
  int64_t page_block_size;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = NsaCompressWithCacheAttrs;
    attr.required("compress_block_size", &Self::compress_block_size, 1);
    attr.required("compress_stride", &Self::compress_stride, 1);
    attr.required("page_block_size", &Self::page_block_size);
  }
};

struct NsaCompressWithCacheOutputs : Outputs {
  size_t rows = add("rows", Result::kFloat,
                    "B, N, D");  // what was written, zeros for a row that fills no window
};
inline constexpr NsaCompressWithCacheOutputs kNsaCompressWithCacheOutputs;

}  // namespace nsa
