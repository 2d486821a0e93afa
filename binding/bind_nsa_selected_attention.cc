#include "binding/op_call.h"
#include "cpu/nsa_selected_attention/params.h"
#include "infer/nsa_selected_attention.h"

namespace nsa {

namespace {

constexpr const NsaSelectedAttentionInputs& kIn = kNsaSelectedAttentionInputs;
constexpr const NsaSelectedAttentionOutputs& kOut = kNsaSelectedAttentionOutputs;
constexpr const NsaSelectedAttentionGradInputs& kGrad = kNsaSelectedAttentionGradInputs;
constexpr const NsaSelectedAttentionGradOutputs& kGradOut = kNsaSelectedAttentionGradOutputs;

template <class Positions>
void fill(const CheckedCall& call, const Positions& in, cpu::NsaSelectedAttentionParams& p) {
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.topk_indices = call.as<int32_t>(in.topk_indices);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_kv = call.list(in.actual_seq_kvlen);
  p.q_offset = call.list(in.q_offset);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.T1 = call.dim(in.query, 0);
  p.N1 = call.dim(in.query, 1);
  p.D = call.dim(in.query, 2);
  p.T2 = call.dim(in.key, 0);
  p.N2 = call.dim(in.key, 1);
  p.Dv = call.dim(in.value, 2);
  p.B = call.list_length(in.actual_seq_qlen);
  call.set_attrs<NsaSelectedAttentionAttrs>(p);
}

void run_kernel(const CheckedCall& call) {
  cpu::NsaSelectedAttentionParams p{};
  fill(call, kIn, p);
  p.attention_out = call.out(kOut.attention_out);
  p.softmax_max = call.out_as<float>(kOut.softmax_max);
  p.softmax_sum = call.out_as<float>(kOut.softmax_sum);
  cpu::nsa_selected_attention(p);
}

void run_grad_kernel(const CheckedCall& call) {
  cpu::NsaSelectedAttentionGradParams p{};
  fill(call, kGrad, p);
  // The base's outputs are inputs of the gradient, which only reads them.
  p.attention_out = call.in(kGrad.attention_out).data;
  p.softmax_max = static_cast<float*>(call.in(kGrad.softmax_max).data);
  p.softmax_sum = static_cast<float*>(call.in(kGrad.softmax_sum).data);
  p.attention_out_grad = call.data(kGrad.attention_out_grad);
  p.softmax_sum_grad = call.as<float>(kGrad.softmax_sum_grad);
  p.dq = call.out(kGradOut.dq);
  p.dk = call.out(kGradOut.dk);
  p.dv = call.out(kGradOut.dv);
  cpu::nsa_selected_attention_grad(p);
}

int64_t work_of(const CheckedCall& call, size_t query) {
  const auto& attrs = call.attrs<NsaSelectedAttentionAttrs>();
  return product({elements(call, query), attrs.select_block_size, attrs.select_block_count});
}

int64_t work(const CheckedCall& call) { return work_of(call, kIn.query); }
int64_t work_grad(const CheckedCall& call) { return work_of(call, kGrad.query); }

}  // namespace

const CpuKernelEntry nsa_selected_attention_entry{run_kernel, work};
const CpuKernelEntry nsa_selected_attention_grad_entry{run_grad_kernel, work_grad};

}  // namespace nsa
