// Rules that the packed NSA attention operators share.
#pragma once

#include "infer/check.h"

namespace nsa {

// -1 where unknown.
struct AttentionDims {
  int64_t t1, t2, n1, n2, d, dv;
};

struct AttentionOperands {
  size_t query, key, value;
};

// query [T1, N1, D], key [T2, N2, D], value [T2, N2, Dv] and head_num.
AttentionDims check_attention_operands(const Context& c, AttentionOperands in, int64_t head_num);

// N1 is a multiple of N2; both may be unknown.
void require_groups(const Context& c, int64_t n1, int64_t n2);

// Limits of the ranking in Ascend's kernels: strides of a block, and blocks of a query.
void limit_ranking(const Context& c, const SelectionAttrs& attrs);
// The sizes of blocks fit those of the compression.
void check_block_sizes(const Context& c, const SelectionAttrs& attrs);
// No more blocks are chosen in any case than are chosen at all.
void check_forced_blocks(const Context& c, const SelectionAttrs& attrs);

}  // namespace nsa
