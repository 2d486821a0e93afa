#include "infer/attention.h"

#include <utility>

namespace nsa {

void limit_ranking(const Context& c, const SelectionAttrs& attrs) {
  constexpr int64_t kMostStrides = 64;
  const int64_t select = attrs.select_block_size;
  c.limit(Quantity::kBlockStridesExcess, select / attrs.compress_stride - kMostStrides, select);
  c.limit(Quantity::kSelectBlockCount, attrs.select_block_count);
}

void require_groups(const Context& c, int64_t n1, int64_t n2) {
  if (n1 < 0 || n2 < 0) return;
  if (n1 % n2 != 0) {
    c.fail_value("key", "of a head count N2 that divides N1 = " + std::to_string(n1),
                 "N2 = " + std::to_string(n2));
  }
  c.limit(Quantity::kGroup, n1 / n2);
}

AttentionDims check_attention_operands(const Context& c, AttentionOperands in, int64_t head_num) {
  c.require_rank(in.query, 3, "(T1, N1, D)");
  c.require_rank(in.key, 3, "(T2, N2, D)");
  c.require_rank(in.value, 3, "(T2, N2, Dv)");
  for (size_t input : {in.query, in.key, in.value}) {
    c.require_positive_dim(input, 1, input == in.query ? "N1" : "N2");
    c.require_positive_dim(input, 2, input == in.value ? "Dv" : "D");
  }
  if (c.dim(in.query, 1) >= 0 && c.dim(in.query, 1) != head_num) {
    c.fail_value("head_num", "N1 of query (" + std::to_string(c.dim(in.query, 1)) + ")",
                 std::to_string(head_num));
  }
  AttentionDims dims;
  dims.t1 = c.dim(in.query, 0);
  dims.t2 = known_of(c.dim(in.key, 0), c.dim(in.value, 0));
  dims.n1 = head_num;
  dims.n2 = known_of(c.dim(in.key, 1), c.dim(in.value, 1));
  dims.d = known_of(c.dim(in.query, 2), c.dim(in.key, 2));
  dims.dv = c.dim(in.value, 2);
  c.require_shape(in.key, "(T2, N2, D)", {kUnknownDim, dims.n2, dims.d});
  c.require_shape(in.value, "(T2, N2, Dv)", {dims.t2, dims.n2, kUnknownDim});
  require_groups(c, dims.n1, dims.n2);
  c.limit(Quantity::kQueryHeads, dims.n1);
  c.limit(Quantity::kHeadDim, dims.d);
  c.limit(Quantity::kValueDim, dims.dv);
  return dims;
}

void check_block_sizes(const Context& c, const SelectionAttrs& attrs) {
  const int64_t l = attrs.compress_block_size, s = attrs.compress_stride;
  for (const auto& [name, size] : {std::pair{"compress_block_size", l},
                                   std::pair{"select_block_size", attrs.select_block_size}}) {
    if (size % s != 0) {
      c.fail_value(name, "a multiple of compress_stride (" + std::to_string(s) + ")",
                   std::to_string(size));
    }
  }
  if (attrs.select_block_size < l) {
    c.fail_value("select_block_size", "at least compress_block_size (" + std::to_string(l) + ")",
                 std::to_string(attrs.select_block_size));
  }
}

void check_forced_blocks(const Context& c, const SelectionAttrs& attrs) {
  const int64_t init = attrs.init_blocks, local = attrs.local_blocks;
  const int64_t count = attrs.select_block_count;
  if (init <= count && local <= count - init) return;
  c.fail_value("init_blocks + local_blocks",
               "at most select_block_count (" + std::to_string(count) + ")",
               std::to_string(init) + " + " + std::to_string(local));
}

}  // namespace nsa
