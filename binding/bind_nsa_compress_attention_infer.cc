#include <algorithm>

#include "binding/bind_rows.h"
#include "infer/nsa_compress_attention_infer.h"

namespace nsa {

namespace {

constexpr const NsaCompressAttentionInferInputs& kIn = kNsaCompressAttentionInferInputs;
constexpr const NsaCompressAttentionInferOutputs& kOut = kNsaCompressAttentionInferOutputs;

CacheDims dims_of(const CheckedCall& call, size_t cache) {
  return check_cache(call.context, cache, CacheLayout::kBSND,
                     call.attrs<NsaCompressAttentionInferAttrs>().key_value_head_num);
}

void check_contents(const CheckedCall& call) {
  check_pages(call, kIn.block_table, dims_of(call, kIn.key),
              list_values(call, kIn.actual_cmp_seq_kvlen));
}

void run_kernel(const CheckedCall& call) {
  const auto& attrs = call.attrs<NsaCompressAttentionInferAttrs>();
  const CacheDims key = dims_of(call, kIn.key), value = dims_of(call, kIn.value);
  cpu::NsaCompressAttentionInferParams p{};
  std::vector<int64_t> counts;
  fill_rows(call, kIn.query, kIn.actual_seq_qlen, kIn.actual_cmp_seq_kvlen, attrs.layout, value,
            counts, p);
  p.scale = attrs.scale_value;
  p.key = cache_view(call, kIn.key, kIn.block_table, key, CacheLayout::kBSND);
  p.value = cache_view(call, kIn.value, kIn.block_table, value, CacheLayout::kBSND);
  p.cmp_len = call.list(kIn.actual_cmp_seq_kvlen);
  p.sel_len = call.list(kIn.actual_sel_seq_kvlen);
  p.rule = attrs;
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

const CpuKernelEntry nsa_compress_attention_infer_entry{run_kernel, work, nullptr, check_contents};

}  // namespace nsa
