#include <algorithm>

#include "binding/op_call_rows.h"
#include "infer/nsa_compress_attention_infer.h"

namespace nsa {

namespace {

constexpr const NsaCompressAttentionInferInputs& kIn = kNsaCompressAttentionInferInputs;
constexpr const NsaCompressAttentionInferOutputs& kOut = kNsaCompressAttentionInferOutputs;

void run(const CheckedCall& call) {
  const Context& c = call.context;
  const int64_t heads = c.int_attr("key_value_head_num");
  const CacheDims key = check_cache(c, kIn.key, CacheLayout::kBSND, heads);
  const CacheDims value = check_cache(c, kIn.value, CacheLayout::kBSND, heads);
  check_pages(call, kIn.block_table, key, list_values(call, kIn.actual_cmp_seq_kvlen));
  cpu::NsaCompressAttentionInferParams p{};
  std::vector<int64_t> counts;
  fill_rows(call, kIn.query, kIn.actual_seq_qlen, kIn.actual_cmp_seq_kvlen, value, counts, p);
  p.key = cache_view(call, kIn.key, kIn.block_table, key, CacheLayout::kBSND);
  p.value = cache_view(call, kIn.value, kIn.block_table, value, CacheLayout::kBSND);
  p.cmp_len = call.list(kIn.actual_cmp_seq_kvlen);
  p.sel_len = call.list(kIn.actual_sel_seq_kvlen);
  p.rule = selection_rule(c);
  p.attention_out = call.out(kOut.attention_out);
  p.topk_indices = call.out_as<int32_t>(kOut.topk_indices);
  cpu::nsa_compress_attention_infer(p);
}

int64_t work(const CheckedCall& call) {
  const std::vector<int64_t> lengths = list_values(call, kIn.actual_cmp_seq_kvlen);
  if (lengths.empty()) return 0;
  return product({elements(call, kIn.query), *std::max_element(lengths.begin(), lengths.end())});
}

}  // namespace

const OpEntry nsa_compress_attention_infer_entry{run, work};

}  // namespace nsa
