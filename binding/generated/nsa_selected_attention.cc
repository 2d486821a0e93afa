// How the CPU's kernels of NsaSelectedAttention and NsaSelectedAttentionGrad are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/nsa_selected_attention.h"

#include "binding/op_call.h"
#include "cpu/nsa_selected_attention/params.h"

namespace nsa {

namespace {

void fill_nsa_selected_attention(const CheckedCall& call, cpu::NsaSelectedAttentionParams& p) {
  constexpr const NsaSelectedAttentionInputs& in = kNsaSelectedAttentionInputs;
  constexpr const NsaSelectedAttentionOutputs& out = kNsaSelectedAttentionOutputs;
  const auto& attrs = call.attrs<NsaSelectedAttentionAttrs>();
  static_cast<NsaSelectedAttentionAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.topk_indices = call.as<int32_t>(in.topk_indices);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_kv = call.list(in.actual_seq_kvlen);
  p.q_offset = call.list(in.q_offset);
  p.attention_out = call.out(out.attention_out);
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
}

void run_nsa_selected_attention(const CheckedCall& call) {
  cpu::NsaSelectedAttentionParams p{};
  fill_nsa_selected_attention(call, p);
  cpu::nsa_selected_attention(p);
}

int64_t work_of_nsa_selected_attention(const CheckedCall& call) {
  constexpr const NsaSelectedAttentionInputs& in = kNsaSelectedAttentionInputs;
  const auto& attrs = call.attrs<NsaSelectedAttentionAttrs>();
  return product({elements(call, in.query), attrs.select_block_size, attrs.select_block_count});
}

void fill_nsa_selected_attention_grad(const CheckedCall& call,
                                      cpu::NsaSelectedAttentionGradParams& p) {
  constexpr const NsaSelectedAttentionGradInputs& in = kNsaSelectedAttentionGradInputs;
  constexpr const NsaSelectedAttentionGradOutputs& out = kNsaSelectedAttentionGradOutputs;
  const auto& attrs = call.attrs<NsaSelectedAttentionAttrs>();
  static_cast<NsaSelectedAttentionAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.topk_indices = call.as<int32_t>(in.topk_indices);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_kv = call.list(in.actual_seq_kvlen);
  p.q_offset = call.list(in.q_offset);
  p.attention_out = call.in(in.attention_out).data;
  p.softmax_max = static_cast<float*>(call.in(in.softmax_max).data);
  p.softmax_sum = static_cast<float*>(call.in(in.softmax_sum).data);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.T1 = call.dim(in.query, 0);
  p.T2 = call.dim(in.key, 0);
  p.B = call.list_length(in.actual_seq_qlen);
  p.N1 = call.dim(in.query, 1);
  p.N2 = call.dim(in.key, 1);
  p.D = call.dim(in.query, 2);
  p.Dv = call.dim(in.value, 2);
  p.attention_out_grad = call.data(in.attention_out_grad);
  p.softmax_sum_grad = call.as<float>(in.softmax_sum_grad);
  p.dq = call.out(out.dq);
  p.dk = call.out(out.dk);
  p.dv = call.out(out.dv);
}

void run_nsa_selected_attention_grad(const CheckedCall& call) {
  cpu::NsaSelectedAttentionGradParams p{};
  fill_nsa_selected_attention_grad(call, p);
  cpu::nsa_selected_attention_grad(p);
}

int64_t work_of_nsa_selected_attention_grad(const CheckedCall& call) {
  constexpr const NsaSelectedAttentionGradInputs& in = kNsaSelectedAttentionGradInputs;
  const auto& attrs = call.attrs<NsaSelectedAttentionAttrs>();
  return product({elements(call, in.query), attrs.select_block_size, attrs.select_block_count});
}

}  // namespace

const CpuKernelEntry nsa_selected_attention_entry{run_nsa_selected_attention,
                                                  work_of_nsa_selected_attention};
const CpuKernelEntry nsa_selected_attention_grad_entry{run_nsa_selected_attention_grad,
                                                       work_of_nsa_selected_attention_grad};

}  // namespace nsa
