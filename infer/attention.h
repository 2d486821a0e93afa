// Rules that the packed NSA attention operators share.
#pragma once

#include "infer/sizes.h"

namespace nsa {

// -1 where unknown.
struct AttentionSizes {
  NSA_SIZES(T1, N1, D, T2, N2, Dv)
};

// N1 is a multiple of N2; both may be unknown.
void require_groups(const Context& c, int64_t n1, int64_t n2);
void check_attention_heads(const Context& c, const AttentionSizes& sizes);

// query, key and value.
template <class Positions>
AttentionSizes match_attention_operands(const Context& c, const Positions& in, Sizes& sizes) {
  sizes.match_ranks({in.query, in.key, in.value});
  sizes.match({in.query, in.key, in.value});
  const auto named = sizes.as<AttentionSizes>(in);
  check_attention_heads(c, named);
  return named;
}

// Limits of the ranking in Ascend's kernels: strides of a block, and blocks of a query.
void limit_ranking(const Context& c, const SelectionAttrs& attrs);
// The sizes of blocks fit those of the compression.
void check_block_sizes(const Context& c, const SelectionAttrs& attrs);
// No more blocks are chosen in any case than are chosen at all.
void check_forced_blocks(const Context& c, const SelectionAttrs& attrs);

}  // namespace nsa
