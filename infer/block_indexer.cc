// Rules of BlockIndexer.
#include "infer/block_indexer.h"

#include <utility>

#include "infer/sizes.h"

namespace nsa {

namespace {

constexpr const BlockIndexerInputs& kIn = kBlockIndexerInputs;

// -1 where unknown.
struct IndexerSizes {
  NSA_SIZES(T1, H, T2, Nk)
};

// Heads of the query and of the key, and the groups that choose blocks: their number.
int64_t check_groups(const Context& c, const BlockIndexerAttrs& attrs, const IndexerSizes& sizes) {
  const int64_t heads = sizes.H, key_heads = sizes.Nk;
  const int64_t asked = attrs.head_groups;
  const int64_t groups = asked > 0 ? asked : key_heads;
  if (asked > 0 && key_heads > 1 && key_heads != asked) {
    c.fail_value("head_groups", "Nk of key (" + std::to_string(key_heads) + ") where that is not 1",
                 std::to_string(asked));
  }
  if (heads >= 0 && groups >= 0 && heads % groups != 0) {
    const bool of_key = asked == 0;
    c.fail_value(of_key ? "key" : "head_groups",
                 (of_key ? "of a head count Nk that divides H = " : "a divisor of H = ") +
                     std::to_string(heads),
                 (of_key ? "Nk = " : "") + std::to_string(groups));
  }
  return groups;
}

// Checks the inputs and attributes that a score needs, and those that it must not have.
void check_score(const Context& c, const BlockIndexerAttrs& attrs) {
  const bool compressed = attrs.score == BlockScore::kSoftmaxMax;
  const std::string with = std::string(" with score='") + name_of(attrs.score) + "'";
  for (const auto& [name, size] : {std::pair{"compress_block_size", attrs.compress_block_size},
                                   std::pair{"compress_stride", attrs.compress_stride}}) {
    if (compressed && size == 0) c.fail_value(name, "given" + with, "None");
    if (!compressed && size != 0) c.fail_value(name, "None" + with, std::to_string(size));
  }
  if (!compressed) return;
  check_window(c.function(), attrs.compress_block_size, attrs.compress_stride);
  if (c.has(kIn.weights)) c.fail_value("weights", "None" + with, "a Tensor");
}

void check_forced_blocks(const Context& c, const BlockIndexerAttrs& attrs) {
  const int64_t init = attrs.init_blocks, local = attrs.local_blocks, count = attrs.block_count;
  if (init <= count && local <= count - init) return;
  c.fail_value("init_blocks + local_blocks", "at most block_count (" + std::to_string(count) + ")",
               std::to_string(init) + " + " + std::to_string(local));
}

// Indices of blocks are int32.
void check_positions(const Context& c, int64_t block_size) {
  const SeqList* queries = c.values(kIn.actual_seq_qlen);
  const SeqList* offsets = c.values(kIn.q_offset);
  if (queries == nullptr || offsets == nullptr) return;
  for (size_t b = 0; b < queries->size(); ++b) {
    const int64_t length = segment_length(*queries, b);
    if (length == 0) continue;
    if (ceil_div((*offsets)[b] + length, block_size) <= INT32_MAX) continue;
    c.fail_value("q_offset", "small enough for block indices of int32",
                 std::to_string((*offsets)[b]) + " at index " + std::to_string(b));
  }
}

// Keys as many as the queries are no compressed ones, as in NsaCompressAttention.
void check_compressed(const Context& c, const BlockIndexerAttrs& attrs, const IndexerSizes& sizes) {
  const SeqList* queries = c.values(kIn.actual_seq_qlen);
  const SeqList* keys = c.values(kIn.actual_seq_kvlen);
  const int64_t l = attrs.compress_block_size, s = attrs.compress_stride;
  if (attrs.score != BlockScore::kSoftmaxMax || c.has(kIn.q_offset) || s == 1) return;
  if (queries == nullptr || keys == nullptr || sizes.T1 / 4 < l || *queries != *keys) return;
  c.fail_value(c.name(kIn.actual_seq_kvlen),
               "the prefix sums of the compressed tokens, which end at " +
                   std::to_string(compressed_rows(*queries, l, s)),
               "those of the queries, which end at " + std::to_string(queries->back()));
}

std::vector<OutputDesc> infer_indexer(const Context& c) {
  const auto& attrs = c.attrs<BlockIndexerAttrs>();
  check_score(c, attrs);
  Sizes sizes(c);
  sizes.match_ranks({kIn.query, kIn.key});
  sizes.match({kIn.query, kIn.key});
  const auto named = sizes.as<IndexerSizes>(kIn);
  const int64_t groups = check_groups(c, attrs, named);
  sizes.match({kIn.weights});
  check_forced_blocks(c, attrs);
  const bool compressed = attrs.score == BlockScore::kSoftmaxMax;
  c.require_same_length(kIn.actual_seq_kvlen, kIn.actual_seq_qlen);
  c.require_prefix_sums(kIn.actual_seq_qlen, "T1", named.T1, ListEnd::kExact);
  c.require_prefix_sums(kIn.actual_seq_kvlen, "T2", named.T2,
                        compressed ? ListEnd::kAtMost : ListEnd::kExact);
  c.require_query_offset(kIn.q_offset, kIn.actual_seq_qlen);
  check_compressed(c, attrs, named);
  check_positions(c, attrs.block_size);
  std::vector<OutputDesc> outputs = sizes.outputs();
  outputs[kBlockIndexerOutputs.topk_indices].shape[1] = groups;
  return outputs;
}

}  // namespace

const OpRules& block_indexer_rules() {
  static const OpRules rules{
      {OpId::kBlockIndexer, kIn, attr_specs<BlockIndexerAttrs>(), kBlockIndexerOutputs},
      infer_indexer};
  return rules;
}

}  // namespace nsa
