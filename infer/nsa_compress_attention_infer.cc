// Rules of NsaCompressAttentionInfer.
#include "infer/nsa_compress_attention_infer.h"

#include <algorithm>
#include <utility>

#include "infer/attention.h"
#include "infer/decoding.h"

namespace nsa {

namespace {

constexpr const NsaCompressAttentionInferInputs& kIn = kNsaCompressAttentionInferInputs;

// Both lists describe the same rows: the compressed tokens are the windows of the tokens.
void check_windows(const Context& c, const SelectionAttrs& attrs) {
  const SeqList* tokens = c.values(kIn.actual_sel_seq_kvlen);
  const SeqList* compressed = c.values(kIn.actual_cmp_seq_kvlen);
  if (tokens == nullptr || compressed == nullptr) return;
  for (size_t b = 0; b < tokens->size(); ++b) {
    const int64_t windows =
        complete_windows((*tokens)[b], attrs.compress_block_size, attrs.compress_stride);
    if ((*compressed)[b] == windows) continue;
    c.fail_value(c.name(kIn.actual_cmp_seq_kvlen),
                 "the " + std::to_string(windows) + " windows that are complete in the " +
                     std::to_string((*tokens)[b]) + " tokens of actual_sel_seq_kvlen",
                 std::to_string((*compressed)[b]) + " at index " + std::to_string(b));
  }
}

// Without the lengths of the rows nobody knows where a query stands.
void check_positions(const Context& c, const SelectionAttrs& attrs, const SeqList& counts) {
  if (c.has(kIn.actual_sel_seq_kvlen)) {
    c.require_same_length(kIn.actual_sel_seq_kvlen, kIn.actual_cmp_seq_kvlen);
    // Block indices are int32.
    check_row_lengths(c, kIn.actual_sel_seq_kvlen,
                      std::min(kLargestSize, product({INT32_MAX, attrs.compress_stride})));
    check_windows(c, attrs);
    return;
  }
  for (const auto& [name, blocks] : {std::pair{"init_blocks", attrs.init_blocks},
                                     std::pair{"local_blocks", attrs.local_blocks}}) {
    if (blocks != 0) c.fail_value(name, "0 without actual_sel_seq_kvlen", std::to_string(blocks));
  }
  for (size_t b = 0; b < counts.size(); ++b) {
    if (counts[b] <= 1) continue;
    c.fail_value("actual_sel_seq_kvlen", "given where a row has more than one query", "None");
  }
}

std::vector<OutputDesc> infer_attention(const Context& c) {
  const auto& attrs = c.attrs<NsaCompressAttentionInferAttrs>();
  Sizes sizes(c);
  const QueryDims query = match_row_queries(kIn, attrs.layout, sizes);
  check_block_sizes(c, attrs);
  check_forced_blocks(c, attrs);
  const int64_t heads = attrs.key_value_head_num;
  const CacheDims cache = check_cache_pair(c, kIn.key, kIn.value, query, CacheLayout::kBSND, heads);
  limit_ranking(c, attrs);
  if (heads > 0 && query.n1 > 0) c.limit(Quantity::kGroup, query.n1 / heads);
  c.limit(Quantity::kHeadDim, query.d);
  c.limit(Quantity::kValueDim, cache.dim);
  check_page_size(c, cache, attrs.page_block_size);
  check_block_table(c, kIn.block_table, kIn.actual_cmp_seq_kvlen, cache, kIn.key);
  check_row_lengths(c, kIn.actual_cmp_seq_kvlen, row_capacity(c, kIn.block_table, cache));
  const bool known = c.has(kIn.actual_sel_seq_kvlen);
  if (known) c.require_same_length(kIn.actual_sel_seq_kvlen, kIn.actual_cmp_seq_kvlen);
  const SeqList counts =
      check_row_counts(c, kIn.actual_seq_qlen,
                       known ? kIn.actual_sel_seq_kvlen : kIn.actual_cmp_seq_kvlen, query, known);
  check_positions(c, attrs, counts);
  std::vector<OutputDesc> outputs = sizes.outputs();
  outputs[kNsaCompressAttentionInferOutputs.attention_out].shape.back() = cache.dim;
  return outputs;
}

}  // namespace

const OpRules& nsa_compress_attention_infer_rules() {
  static const OpRules rules{
      {OpId::kNsaCompressAttentionInfer, kIn, attr_specs<NsaCompressAttentionInferAttrs>(),
       kNsaCompressAttentionInferOutputs},
      infer_attention};
  return rules;
}

}  // namespace nsa
