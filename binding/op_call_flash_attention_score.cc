#include <algorithm>

#include "binding/op_call.h"
#include "cpu/params.h"
#include "infer/flash_attention.h"

namespace nsa {

namespace {

// The dimensions of a mask or position bias at the end of four; 1 in front.
void right_align(const std::vector<int64_t>& shape, int64_t (&aligned)[4]) {
  std::fill(std::begin(aligned), std::end(aligned), 1);
  std::copy_backward(shape.begin(), shape.end(), std::end(aligned));
}

void fill(const CheckedCall& call, cpu::FlashAttentionScoreParams& p) {
  const Context& c = call.context;
  const FlashInputs in = flash_inputs(c.op());
  const FlashDims dims = check_flash_operands(c, in);
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.real_shift = call.data(in.real_shift);
  p.drop_mask = call.as<uint8_t>(in.drop_mask);
  p.prefix = call.list(in.prefix);
  p.seq_q = call.list(in.seq_q);
  p.seq_kv = call.list(in.seq_kv);
  p.sink = call.as<float>(in.sink);
  p.layout = static_cast<cpu::Layout>(dims.layout);
  p.dtype = static_cast<cpu::ElemType>(call.inputs[in.query].dtype);
  p.B = dims.batch;
  p.N1 = dims.n1;
  p.N2 = dims.n2;
  p.S1 = dims.s1;
  p.S2 = dims.s2;
  p.D = dims.d;
  p.Dv = dims.dv;
  p.sparse_mode = c.int_attr("sparse_mode");
  p.pre_tokens = c.int_attr("pre_tokens");
  p.next_tokens = c.int_attr("next_tokens");
  p.pse_type = c.int_attr("pse_type");
  p.q_start_idx = c.int_attr("q_start_idx");
  p.kv_start_idx = c.int_attr("kv_start_idx");
  p.scale = static_cast<float>(c.float_attr("scalar_value"));
  p.keep_prob = static_cast<float>(c.float_attr("keep_prob"));
  // The other modes are computed; a mask given there is checked for its shape only.
  if (call.has(in.attn_mask) && p.sparse_mode <= 1) {
    p.attn_mask = call.as<uint8_t>(in.attn_mask);
    right_align(call.inputs[in.attn_mask].shape, p.mask_shape);
  }
  if (call.has(in.real_shift)) {
    right_align(call.inputs[in.real_shift].shape, p.pse_shape);
    p.pse_rank = static_cast<int64_t>(call.inputs[in.real_shift].shape.size());
  }
}

}  // namespace

void call_flash_attention_score(const CheckedCall& call) {
  cpu::FlashAttentionScoreParams p{};
  fill(call, p);
  p.attention_out = call.out(0);
  p.softmax_max = call.out_as<float>(1);
  p.softmax_sum = call.out_as<float>(2);
  cpu::flash_attention_score(p);
}

void call_flash_attention_score_grad(const CheckedCall& call) {
  enum : size_t { kDy = 3, kSoftmaxMax = 7, kSoftmaxSum = 8, kAttentionIn = 9, kQOffset = 14 };
  const FlashInputs in = flash_inputs(call.context.op());
  cpu::FlashAttentionScoreGradParams p{};
  fill(call, p);
  p.q_offset = call.list(kQOffset);
  p.compress_block_size = call.context.int_attr("compress_block_size");
  p.compress_stride = call.context.int_attr("compress_stride");
  // The base's outputs are inputs of the gradient, which only reads them.
  p.attention_out = call.inputs[kAttentionIn].data;
  p.softmax_max = static_cast<float*>(call.inputs[kSoftmaxMax].data);
  p.softmax_sum = static_cast<float*>(call.inputs[kSoftmaxSum].data);
  p.dy = call.data(kDy);
  p.dq = call.out(0);
  p.dk = call.out(1);
  p.dv = call.out(2);
  const bool wants_dpse =
      call.context.int_attr("pse_grad") != 0 && call.has(in.real_shift) && p.pse_type <= 1;
  if (wants_dpse) p.dpse = call.out(3);
  if (call.has(in.sink)) p.dsink = call.out_as<float>(4);
  cpu::flash_attention_score_grad(p);

  // Placeholders of gradients that are not asked for have one element and a defined value.
  if (!wants_dpse) std::fill_n(call.out_as<uint8_t>(3), cpu::elem_size(p.dtype), uint8_t{0});
  if (p.dsink == nullptr) *call.out_as<float>(4) = 0.0f;
}

}  // namespace nsa
