#include "binding/bind_rows.h"
#include "infer/nsa_selected_attention_infer.h"

namespace nsa {

namespace {

constexpr const NsaSelectedAttentionInferInputs& kIn = kNsaSelectedAttentionInferInputs;
constexpr const NsaSelectedAttentionInferOutputs& kOut = kNsaSelectedAttentionInferOutputs;

CacheDims dims_of(const CheckedCall& call, size_t cache) {
  return check_cache(call.context, cache, CacheLayout::kBSND,
                     call.attrs<NsaSelectedAttentionInferAttrs>().key_value_head_num);
}

void check_contents(const CheckedCall& call) {
  check_pages(call, kIn.block_table, dims_of(call, kIn.key),
              list_values(call, kIn.actual_seq_kvlen));
}

void run_kernel(const CheckedCall& call) {
  const auto& attrs = call.attrs<NsaSelectedAttentionInferAttrs>();
  const CacheDims key = dims_of(call, kIn.key), value = dims_of(call, kIn.value);
  cpu::NsaSelectedAttentionInferParams p{};
  std::vector<int64_t> counts;
  fill_rows(call, kIn.query, kIn.actual_seq_qlen, kIn.actual_seq_kvlen, attrs.layout, value, counts,
            p);
  p.scale = attrs.scale_value;
  p.key = cache_view(call, kIn.key, kIn.block_table, key, CacheLayout::kBSND);
  p.value = cache_view(call, kIn.value, kIn.block_table, value, CacheLayout::kBSND);
  p.topk_indices = call.as<int32_t>(kIn.topk_indices);
  p.kv_len = call.list(kIn.actual_seq_kvlen);
  p.select_block_size = attrs.select_block_size;
  p.select_block_count = attrs.select_block_count;
  p.attention_out = call.out(kOut.attention_out);
  cpu::nsa_selected_attention_infer(p);
}

int64_t work(const CheckedCall& call) {
  const auto& attrs = call.attrs<NsaSelectedAttentionInferAttrs>();
  return product({elements(call, kIn.query), attrs.select_block_size, attrs.select_block_count});
}

}  // namespace

const CpuKernelEntry nsa_selected_attention_infer_entry{run_kernel, work, nullptr, check_contents};

}  // namespace nsa
