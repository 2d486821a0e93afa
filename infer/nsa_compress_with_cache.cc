// Rules of NsaCompressWithCache.
#include "infer/nsa_compress_with_cache.h"

#include <algorithm>
#include <set>

#include "infer/decoding.h"
#include "infer/sizes.h"

namespace nsa {

namespace {

constexpr const NsaCompressWithCacheInputs& kIn = kNsaCompressWithCacheInputs;

// Slots of rows that fill no window are not read.
void check_slots(const Context& c, const NsaCompressWithCacheAttrs& attrs, int64_t slots) {
  const SeqList *mapping = c.values(kIn.slot_mapping), *lengths = c.values(kIn.actual_seq_len);
  if (mapping == nullptr || lengths == nullptr) return;
  const int64_t l = attrs.compress_block_size, s = attrs.compress_stride;
  std::set<int64_t> taken;
  for (size_t b = 0; b < mapping->size(); ++b) {
    const int64_t slot = (*mapping)[b], length = (*lengths)[b];
    if (length < l || (length - l) % s != 0) continue;
    const std::string got = std::to_string(slot) + " at index " + std::to_string(b);
    if (slot < 0 || (slots >= 0 && slot >= slots)) {
      c.fail_value("slot_mapping", "in [0, " + std::to_string(slots) + "), the rows of cache", got);
    }
    if (!taken.insert(slot).second) {
      c.fail_value("slot_mapping", "without repetition among rows that fill a window", got);
    }
  }
}

// Rows one after another in [T, N, D].
void check_packed(const Context& c) {
  check_row_lengths(c, kIn.actual_seq_len, kUnknownDim);
  const SeqList* lengths = c.values(kIn.actual_seq_len);
  const int64_t tokens = c.dim(kIn.input, 0);
  if (lengths == nullptr || tokens < 0) return;
  int64_t total = 0;
  for (int64_t length : *lengths) total += std::min(length, kLargestSize - total);
  if (total <= tokens) return;
  c.fail_value("actual_seq_len",
               "of a sum that is at most the " + std::to_string(tokens) + " tokens of input",
               std::to_string(total));
}

// -1 where unknown.
struct CacheSizes {
  NSA_SIZES(N, D)
};

std::vector<OutputDesc> infer_rows(const Context& c) {
  const auto& attrs = c.attrs<NsaCompressWithCacheAttrs>();
  c.require_int("compress_block_size", attrs.compress_block_size, attrs.compress_stride);
  const bool paged = c.has(kIn.block_table);
  Sizes sizes(c);
  sizes.set_form(paged ? 0 : 1);
  sizes.match({kIn.input});
  const auto named = sizes.as<CacheSizes>(kIn);
  c.limit(Quantity::kQueryHeads, named.N);
  c.limit(Quantity::kHeadDim, named.D);
  sizes.match({kIn.weight, kIn.cache});
  c.require_same_length(kIn.slot_mapping, kIn.actual_seq_len);
  if (paged) {
    const CacheDims cache{c.dim(kIn.input, 0), c.dim(kIn.input, 1), named.N, named.D};
    c.require_positive_dim(kIn.input, 1, "page_block_size");
    check_page_size(c, cache, attrs.page_block_size);
    check_block_table(c, kIn.block_table, kIn.actual_seq_len, cache, kIn.input);
    check_row_lengths(c, kIn.actual_seq_len, row_capacity(c, kIn.block_table, cache));
  } else {
    check_packed(c);
  }
  check_slots(c, attrs, c.dim(kIn.cache, 0));
  std::vector<OutputDesc> outputs = sizes.outputs();
  outputs[kNsaCompressWithCacheOutputs.rows].shape[0] = c.list_length(kIn.actual_seq_len);
  return outputs;
}

}  // namespace

const OpRules& nsa_compress_with_cache_rules() {
  static const OpRules rules{
      {OpId::kNsaCompressWithCache, kIn, attr_specs<NsaCompressWithCacheAttrs>(),
       kNsaCompressWithCacheOutputs},
      infer_rows};
  return rules;
}

}  // namespace nsa
