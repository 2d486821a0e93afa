// Rules of NsaCompressAttention.
#include "infer/nsa_compress_attention.h"

#include "infer/attention.h"

namespace nsa {

namespace {

constexpr const NsaCompressAttentionInputs& kIn = kNsaCompressAttentionInputs;

SelectionRule check_blocks(const Context& c, const NsaCompressAttentionAttrs& a) {
  check_block_sizes(c, a);
  limit_ranking(c, a);
  return {a.compress_block_size, a.compress_stride, a.select_block_size, a.causal, a.importance};
}

void check_without_causal(const Context& c, const NsaCompressAttentionAttrs& a) {
  if (a.causal) return;
  for (const auto& [name, blocks] :
       {std::pair{"init_blocks", a.init_blocks}, std::pair{"local_blocks", a.local_blocks}}) {
    if (blocks != 0) c.fail_value(name, "0 without causal", std::to_string(blocks));
  }
}

void check_list_forms(const Context& c, const AttentionSizes& sizes, bool causal) {
  c.require_prefix_sums(kIn.actual_seq_qlen, "T1", sizes.T1, ListEnd::kExact);
  if (c.has(kIn.actual_cmp_seq_kvlen)) {
    c.require_same_length(kIn.actual_cmp_seq_kvlen, kIn.actual_seq_qlen);
    c.require_prefix_sums(kIn.actual_cmp_seq_kvlen, "T2", sizes.T2, ListEnd::kAtMost);
  } else if (!causal) {
    c.fail_value("actual_cmp_seq_kvlen", "given unless causal=True", "None");
  }
  if (c.has(kIn.actual_sel_seq_kvlen)) {
    c.require_same_length(kIn.actual_sel_seq_kvlen, kIn.actual_seq_qlen);
    c.require_prefix_sums(kIn.actual_sel_seq_kvlen, "", kUnknownDim, ListEnd::kAny);
  }
  c.require_query_offset(kIn.q_offset, kIn.actual_seq_qlen);
}

// The longest rows and columns that a mask shared by the segments must cover.
struct MaskExtent {
  int64_t queries = 0, compressed = 0, blocks = 0;
};

void require_covering(const Context& c, size_t mask, const char* axes, int64_t rows,
                      int64_t columns) {
  const int64_t got_rows = c.dim(mask, 0);
  const int64_t got_columns = c.dim(mask, 1);
  if ((got_rows < 0 || got_rows >= rows) && (got_columns < 0 || got_columns >= columns)) return;
  c.fail_value(c.name(mask),
               std::string("of at least ") + axes + " = " + format_shape({rows, columns}),
               format_shape(c.in(mask).shape));
}

// Keys as many as the queries are no compressed ones: most of them no query would see. With offsets
// the queries may be a part of a longer sequence, and a few queries see little anyway.
void check_compressed(const Context& c, const AttentionSizes& sizes, const SelectionRule& rule,
                      const SeqList& seq_q, const SeqList& seq_cmp) {
  const int64_t queries = seq_q.back(), l = rule.compress_block_size, s = rule.compress_stride;
  if (!rule.causal || c.has(kIn.q_offset) || s == 1 || queries / 4 < l) return;
  const std::string windows = std::to_string(compressed_rows(seq_q, l, s));
  if (!c.has(kIn.actual_cmp_seq_kvlen)) {
    if (sizes.T2 != queries) return;
    c.fail_value("key", "what nsa_compress makes of the keys, " + windows + " rows",
                 format_shape(c.in(kIn.key).shape) + ", as many as queries");
  }
  if (seq_cmp != seq_q) return;
  c.fail_value(
      c.name(kIn.actual_cmp_seq_kvlen),
      "the prefix sums of the compressed tokens, compressed_seq_len(actual_seq_qlen, ...), "
      "which end at " +
          windows,
      "those of the queries, which end at " + std::to_string(queries));
}

// Checks that need the values of the lists.
void check_segments(const Context& c, const AttentionSizes& sizes, const SelectionRule& rule) {
  const SeqList* seq_q = c.values(kIn.actual_seq_qlen);
  if (seq_q == nullptr) return;
  const bool derived = !c.has(kIn.actual_cmp_seq_kvlen);
  SeqList derived_cmp;
  if (derived) {
    derived_cmp = compressed_seq_len(*seq_q, rule.compress_block_size, rule.compress_stride);
    if (sizes.T2 >= 0 && derived_cmp.back() > sizes.T2) {
      c.fail_value("key",
                   "of at least " + std::to_string(derived_cmp.back()) +
                       " rows, the windows of actual_seq_qlen where actual_cmp_seq_kvlen is None",
                   format_shape(c.in(kIn.key).shape));
    }
  }
  const SeqList* seq_cmp = derived ? &derived_cmp : c.values(kIn.actual_cmp_seq_kvlen);
  if (seq_cmp == nullptr) return;
  check_compressed(c, sizes, rule, *seq_q, *seq_cmp);
  const SeqList* offsets = c.values(kIn.q_offset);
  const bool blocks_known = !rule.causal || !c.has(kIn.q_offset) || offsets != nullptr;

  MaskExtent extent;
  for (size_t b = 0; b < seq_q->size(); ++b) {
    const int64_t queries = segment_length(*seq_q, b);
    const int64_t compressed = segment_length(*seq_cmp, b);
    if (queries == 0) continue;
    extent.queries = std::max(extent.queries, queries);
    extent.compressed = std::max(extent.compressed, compressed);
    if (!blocks_known) continue;
    const int64_t query_end = queries + (offsets != nullptr ? (*offsets)[b] : 0);
    const int64_t blocks = selection_blocks(rule, compressed, query_end);
    if (blocks > INT32_MAX) {
      c.fail_value("q_offset", "small enough for block indices of int32",
                   std::to_string(query_end - queries) + " at index " + std::to_string(b));
    }
    extent.blocks = std::max(extent.blocks, blocks);
  }
  if (c.has(kIn.atten_mask))
    require_covering(c, kIn.atten_mask, "(max Sq, max CmpSkv)", extent.queries, extent.compressed);
  if (c.has(kIn.topk_mask))
    require_covering(c, kIn.topk_mask, "(max Sq, max blocks)", extent.queries, extent.blocks);
}

std::vector<OutputDesc> infer_attention(const Context& c) {
  const auto& attrs = c.attrs<NsaCompressAttentionAttrs>();
  Sizes sizes(c);
  const AttentionSizes named = match_attention_operands(c, kIn, sizes);
  const SelectionRule rule = check_blocks(c, attrs);
  check_without_causal(c, attrs);
  check_forced_blocks(c, attrs);
  sizes.match({kIn.topk_mask, kIn.atten_mask});
  check_list_forms(c, named, rule.causal);
  check_segments(c, named, rule);
  return sizes.outputs();
}

}  // namespace

const OpRules& nsa_compress_attention_rules() {
  static const OpRules rules{
      {OpId::kNsaCompressAttention, kIn, attr_specs<NsaCompressAttentionAttrs>(),
       kNsaCompressAttentionOutputs},
      infer_attention};
  return rules;
}

}  // namespace nsa
