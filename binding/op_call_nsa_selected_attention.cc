#include "binding/op_call.h"
#include "cpu/params.h"

namespace nsa {

namespace {

void fill(const CheckedCall& call, size_t topk, cpu::NsaSelectedAttentionParams& p) {
  enum : size_t { kQuery, kKey, kValue };
  const size_t seq_q = topk + 1, seq_kv = topk + 2, q_offset = topk + 3;
  const Context& c = call.context;
  p.query = call.data(kQuery);
  p.key = call.data(kKey);
  p.value = call.data(kValue);
  p.topk_indices = call.as<int32_t>(topk);
  p.seq_q = call.list(seq_q);
  p.seq_kv = call.list(seq_kv);
  p.q_offset = call.list(q_offset);
  p.dtype = static_cast<cpu::ElemType>(call.inputs[kQuery].dtype);
  p.T1 = call.dim(kQuery, 0);
  p.N1 = call.dim(kQuery, 1);
  p.D = call.dim(kQuery, 2);
  p.T2 = call.dim(kKey, 0);
  p.N2 = call.dim(kKey, 1);
  p.Dv = call.dim(kValue, 2);
  p.B = call.list_length(seq_q);
  p.select_block_size = c.int_attr("select_block_size");
  p.select_block_count = c.int_attr("select_block_count");
  p.scale = static_cast<float>(c.float_attr("scale_value"));
  p.causal = c.int_attr("causal") != 0;
}

}  // namespace

void call_nsa_selected_attention(const CheckedCall& call) {
  cpu::NsaSelectedAttentionParams p{};
  fill(call, 3, p);
  p.attention_out = call.out(0);
  p.softmax_max = call.out_as<float>(1);
  p.softmax_sum = call.out_as<float>(2);
  cpu::nsa_selected_attention(p);
}

void call_nsa_selected_attention_grad(const CheckedCall& call) {
  enum : size_t { kAttentionOut = 3, kAttentionOutGrad, kSoftmaxMax, kSoftmaxSum, kTopkIndices };
  cpu::NsaSelectedAttentionGradParams p{};
  fill(call, kTopkIndices, p);
  // The base's outputs are inputs of the gradient, which only reads them.
  p.attention_out = call.inputs[kAttentionOut].data;
  p.softmax_max = static_cast<float*>(call.inputs[kSoftmaxMax].data);
  p.softmax_sum = static_cast<float*>(call.inputs[kSoftmaxSum].data);
  p.attention_out_grad = call.data(kAttentionOutGrad);
  p.dq = call.out(0);
  p.dk = call.out(1);
  p.dv = call.out(2);
  cpu::nsa_selected_attention_grad(p);
}

}  // namespace nsa
