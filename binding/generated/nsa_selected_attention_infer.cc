// How the CPU's kernels of NsaSelectedAttentionInfer are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/nsa_selected_attention_infer.h"

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/nsa_decode/params.h"

namespace nsa {

namespace {

int64_t work_of_nsa_selected_attention_infer(const CheckedCall& call) {
  constexpr const NsaSelectedAttentionInferInputs& in = kNsaSelectedAttentionInferInputs;
  const auto& attrs = call.attrs<NsaSelectedAttentionInferAttrs>();
  return product({elements(call, in.query), attrs.select_block_size, attrs.select_block_count});
}

}  // namespace

void fill_nsa_selected_attention_infer(const CheckedCall& call,
                                       cpu::NsaSelectedAttentionInferParams& p) {
  constexpr const NsaSelectedAttentionInferInputs& in = kNsaSelectedAttentionInferInputs;
  constexpr const NsaSelectedAttentionInferOutputs& out = kNsaSelectedAttentionInferOutputs;
  const auto& attrs = call.attrs<NsaSelectedAttentionInferAttrs>();
  p.query = call.data(in.query);
  p.attention_out = call.out(out.attention_out);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.T = call.rows(in.query, 2);
  p.B = call.list_length(in.actual_seq_kvlen);
  p.N1 = call.dim_from_end(in.query, 2);
  p.D = call.dim_from_end(in.query, 1);
  p.scale = attrs.scale_value;
  p.topk_indices = call.as<int32_t>(in.topk_indices);
  p.kv_len = call.list(in.actual_seq_kvlen);
  p.select_block_size = attrs.select_block_size;
  p.select_block_count = attrs.select_block_count;
}

const CpuKernelEntry nsa_selected_attention_infer_entry{
    run_nsa_selected_attention_infer, work_of_nsa_selected_attention_infer, nullptr,
    check_nsa_selected_attention_infer};

}  // namespace nsa
