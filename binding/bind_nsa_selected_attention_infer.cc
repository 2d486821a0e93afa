#include "binding/bind_rows.h"
#include "infer/nsa_selected_attention_infer.h"

namespace nsa {

namespace {

constexpr const NsaSelectedAttentionInferInputs& kIn = kNsaSelectedAttentionInferInputs;

int64_t heads(const CheckedCall& call) {
  return call.attrs<NsaSelectedAttentionInferAttrs>().key_value_head_num;
}

}  // namespace

void check_nsa_selected_attention_infer(const CheckedCall& call) {
  const CacheDims dims = check_cache(call.context, kIn.key, CacheLayout::kBSND, heads(call));
  check_pages(call, kIn.block_table, dims, *call.context.values(kIn.actual_seq_kvlen));
}

void run_nsa_selected_attention_infer(const CheckedCall& call) {
  cpu::NsaSelectedAttentionInferParams p{};
  fill_nsa_selected_attention_infer(call, p);
  SeqList counts;
  fill_rows(call, kIn.actual_seq_qlen, fill_caches(call, kIn, heads(call), p.key, p.value), counts,
            p);
  cpu::nsa_selected_attention_infer(p);
}

}  // namespace nsa
