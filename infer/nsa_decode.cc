// Rules of NsaDecode.
#include "infer/nsa_decode.h"

#include <algorithm>

#include "infer/attention.h"
#include "infer/decoding.h"

namespace nsa {

namespace {

constexpr const NsaDecodeInputs& kIn = kNsaDecodeInputs;

void require_same_heads(const Context& c, size_t input, const CacheDims& cache,
                        const CacheDims& first) {
  const auto differ = [](int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; };
  if (differ(cache.heads, first.heads) || differ(cache.dim, first.dim)) {
    c.fail_value(c.name(input), "of the heads and the head size of value_cmp",
                 format_shape(c.in(input).shape));
  }
}

// A row's compressed tokens, its tokens, and those that its windows reach back to, each in the
// cache that holds them.
void check_capacities(const Context& c, const CacheDims& cmp, const CacheDims& slc,
                      const CacheDims& win, const SeqList& counts, const NsaDecodeAttrs& attrs) {
  check_row_lengths(c, kIn.actual_seq_kvlen, row_capacity(c, kIn.block_table, slc));
  const SeqList* lengths = c.values(kIn.actual_seq_kvlen);
  if (lengths == nullptr) return;
  const int64_t places = row_capacity(c, kIn.cmp_block_table, cmp);
  for (size_t b = 0; b < lengths->size(); ++b) {
    const int64_t length = (*lengths)[b],
                  windows =
                      complete_windows(length, attrs.compress_block_size, attrs.compress_stride);
    if (places >= 0 && windows > places) {
      c.fail_value("key_cmp",
                   "of at least " + std::to_string(windows) + " tokens per row, for the " +
                       std::to_string(length) + " tokens of row " + std::to_string(b),
                   std::to_string(places));
    }
    if (counts.empty() || counts[b] == 0 || win.page < 0) continue;
    const int64_t reach = std::min(length, attrs.window_size + counts[b] - 1);
    if (reach <= win.page) continue;
    c.fail_value("key_win",
                 "a ring of at least " + std::to_string(reach) +
                     " tokens, which the windows of row " + std::to_string(b) + " read",
                 std::to_string(win.page));
  }
}

std::vector<OutputDesc> infer_decode(const Context& c) {
  const auto& attrs = c.attrs<NsaDecodeAttrs>();
  Sizes sizes(c);
  const QueryDims query = match_row_queries(kIn, attrs.layout, sizes);
  check_block_sizes(c, attrs);
  check_forced_blocks(c, attrs);
  const CacheLayout layout = attrs.cache_layout;
  const CacheDims cmp = check_cache_pair(c, kIn.key_cmp, kIn.value_cmp, query, layout, kUnknownDim);
  const CacheDims slc = check_cache_pair(c, kIn.key_slc, kIn.value_slc, query, layout, kUnknownDim);
  const CacheDims win = check_cache_pair(c, kIn.key_win, kIn.value_win, query, layout, kUnknownDim);
  limit_ranking(c, attrs);
  c.limit(Quantity::kHeadDim, query.d);
  c.limit(Quantity::kValueDim, known_of(slc.dim, cmp.dim));
  require_same_heads(c, kIn.value_slc, slc, cmp);
  require_same_heads(c, kIn.value_win, win, cmp);
  check_block_table(c, kIn.block_table, kIn.actual_seq_kvlen, slc, kIn.key_slc);
  check_block_table(c, kIn.cmp_block_table, kIn.actual_seq_kvlen, cmp, kIn.key_cmp);
  const int64_t batch = c.list_length(kIn.actual_seq_kvlen);
  if (batch >= 0 && win.pages >= 0 && batch != win.pages) {
    c.fail_value(
        "key_win",
        "of one ring for each of the " + std::to_string(batch) + " rows of actual_seq_kvlen",
        format_shape(c.in(kIn.key_win).shape));
  }
  sizes.match({kIn.gates});
  const SeqList counts =
      check_row_counts(c, kIn.actual_seq_qlen, kIn.actual_seq_kvlen, query, true);
  check_capacities(c, cmp, slc, win, counts, attrs);
  std::vector<OutputDesc> outputs = sizes.outputs();
  outputs[kNsaDecodeOutputs.attention_out].shape.back() = known_of(slc.dim, cmp.dim);
  return outputs;
}

}  // namespace

const OpRules& nsa_decode_rules() {
  static const OpRules rules{
      {OpId::kNsaDecode, kIn, attr_specs<NsaDecodeAttrs>(), kNsaDecodeOutputs}, infer_decode};
  return rules;
}

}  // namespace nsa
