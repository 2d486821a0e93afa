// How the CPU's kernels of NsaCompressAttentionInfer are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/nsa_compress_attention_infer.h"

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/nsa_decode/params.h"

namespace nsa {

namespace {

int64_t work_of_nsa_compress_attention_infer(const CheckedCall& call) {
  constexpr const NsaCompressAttentionInferInputs& in = kNsaCompressAttentionInferInputs;
  return product({elements(call, in.query), call.longest(in.actual_cmp_seq_kvlen)});
}

}  // namespace

void fill_nsa_compress_attention_infer(const CheckedCall& call,
                                       cpu::NsaCompressAttentionInferParams& p) {
  constexpr const NsaCompressAttentionInferInputs& in = kNsaCompressAttentionInferInputs;
  constexpr const NsaCompressAttentionInferOutputs& out = kNsaCompressAttentionInferOutputs;
  const auto& attrs = call.attrs<NsaCompressAttentionInferAttrs>();
  p.query = call.data(in.query);
  p.attention_out = call.out(out.attention_out);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.T = call.rows(in.query, 2);
  p.B = call.list_length(in.actual_cmp_seq_kvlen);
  p.N1 = call.dim_from_end(in.query, 2);
  p.D = call.dim_from_end(in.query, 1);
  p.scale = attrs.scale_value;
  p.cmp_len = call.list(in.actual_cmp_seq_kvlen);
  p.sel_len = call.list(in.actual_sel_seq_kvlen);
  p.topk_indices = call.out_as<int32_t>(out.topk_indices);
  p.rule = attrs;
}

const CpuKernelEntry nsa_compress_attention_infer_entry{
    run_nsa_compress_attention_infer, work_of_nsa_compress_attention_infer, nullptr,
    check_nsa_compress_attention_infer};

}  // namespace nsa
