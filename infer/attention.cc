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

void check_attention_heads(const Context& c, const AttentionSizes& sizes) {
  require_groups(c, sizes.N1, sizes.N2);
  c.limit(Quantity::kQueryHeads, sizes.N1);
  c.limit(Quantity::kHeadDim, sizes.D);
  c.limit(Quantity::kValueDim, sizes.Dv);
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
