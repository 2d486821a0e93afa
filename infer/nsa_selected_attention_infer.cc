// Rules of NsaSelectedAttentionInfer.
#include "infer/nsa_selected_attention_infer.h"

#include "infer/decoding.h"

namespace nsa {

namespace {

constexpr const NsaSelectedAttentionInferInputs& kIn = kNsaSelectedAttentionInferInputs;

std::vector<OutputDesc> infer_attention(const Context& c) {
  const auto& attrs = c.attrs<NsaSelectedAttentionInferAttrs>();
  Sizes sizes(c);
  const QueryDims query = match_row_queries(kIn, attrs.layout, sizes);
  const int64_t heads = attrs.key_value_head_num, count = attrs.select_block_count;
  const CacheDims cache = check_cache_pair(c, kIn.key, kIn.value, query, CacheLayout::kBSND, heads);
  if (heads > 0 && query.n1 > 0) c.limit(Quantity::kGroup, query.n1 / heads);
  c.limit(Quantity::kSelectBlockCount, count);
  c.limit(Quantity::kHeadDim, query.d);
  c.limit(Quantity::kValueDim, cache.dim);
  check_page_size(c, cache, attrs.page_block_size);
  check_block_table(c, kIn.block_table, kIn.actual_seq_kvlen, cache, kIn.key);
  check_row_lengths(c, kIn.actual_seq_kvlen, row_capacity(c, kIn.block_table, cache));
  check_row_counts(c, kIn.actual_seq_qlen, kIn.actual_seq_kvlen, query, true);
  // One query per row may go without the dimension S, as CANN has it.
  const bool one = !query.packed && (query.per_row == 1 || query.per_row < 0);
  sizes.set(kIn.shapes().at("N2"), heads);
  if (!one || !c.may_have_shape(kIn.topk_indices, {query.batch, heads, count}))
    sizes.match({kIn.topk_indices});
  std::vector<OutputDesc> outputs = sizes.outputs();
  outputs[kNsaSelectedAttentionInferOutputs.attention_out].shape.back() = cache.dim;
  return outputs;
}

}  // namespace

const OpRules& nsa_selected_attention_infer_rules() {
  static const OpRules rules{
      {OpId::kNsaSelectedAttentionInfer, kIn, attr_specs<NsaSelectedAttentionInferAttrs>(),
       kNsaSelectedAttentionInferOutputs},
      infer_attention};
  return rules;
}

}  // namespace nsa
