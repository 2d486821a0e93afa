// How the CPU's kernels of NsaCompressAttention are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/nsa_compress_attention.h"

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/nsa_compress_attention/params.h"

namespace nsa {

namespace {

int64_t work_of_nsa_compress_attention(const CheckedCall& call) {
  constexpr const NsaCompressAttentionInputs& in = kNsaCompressAttentionInputs;
  return product({elements(call, in.query), call.dim(in.key, 0)});
}

}  // namespace

void fill_nsa_compress_attention(const CheckedCall& call, cpu::NsaCompressAttentionParams& p) {
  constexpr const NsaCompressAttentionInputs& in = kNsaCompressAttentionInputs;
  constexpr const NsaCompressAttentionOutputs& out = kNsaCompressAttentionOutputs;
  const auto& attrs = call.attrs<NsaCompressAttentionAttrs>();
  static_cast<NsaCompressAttentionAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.topk_mask = call.as<uint8_t>(in.topk_mask);
  p.atten_mask = call.as<uint8_t>(in.atten_mask);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_cmp_kv = call.list(in.actual_cmp_seq_kvlen);
  p.q_offset = call.list(in.q_offset);
  p.attention_out = call.out(out.attention_out);
  p.topk_indices = call.out_as<int32_t>(out.topk_indices);
  p.softmax_max = call.out_as<float>(out.softmax_max);
  p.softmax_sum = call.out_as<float>(out.softmax_sum);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.T1 = call.dim(in.query, 0);
  p.T2 = call.dim(in.key, 0);
  p.B = call.list_length(in.actual_seq_qlen);
  p.N1 = call.dim(in.query, 1);
  p.N2 = call.dim(in.key, 1);
  p.D = call.dim(in.query, 2);
  p.Dv = call.dim(in.value, 2);
  p.topk_mask_cols = call.has(in.topk_mask) ? call.dim(in.topk_mask, 1) : 0;
  p.atten_mask_cols = call.has(in.atten_mask) ? call.dim(in.atten_mask, 1) : 0;
}

const CpuKernelEntry nsa_compress_attention_entry{run_nsa_compress_attention,
                                                  work_of_nsa_compress_attention};

}  // namespace nsa
