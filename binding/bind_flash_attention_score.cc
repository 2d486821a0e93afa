#include <algorithm>

#include "binding/op_call.h"
#include "cpu/flash_attention_score/params.h"
#include "infer/flash_attention.h"

namespace nsa {

namespace {

constexpr const FlashAttentionScoreInputs& kIn = kFlashAttentionScoreInputs;
constexpr const FlashAttentionScoreOutputs& kOut = kFlashAttentionScoreOutputs;
constexpr const FlashAttentionScoreGradInputs& kGrad = kFlashAttentionScoreGradInputs;
constexpr const FlashAttentionScoreGradOutputs& kGradOut = kFlashAttentionScoreGradOutputs;

// The dimensions of a mask or position bias at the end of four; 1 in front.
void right_align(const std::vector<int64_t>& shape, int64_t (&aligned)[4]) {
  std::fill(std::begin(aligned), std::end(aligned), 1);
  std::copy_backward(shape.begin(), shape.end(), std::end(aligned));
}

void fill(const CheckedCall& call, const FlashInputs& in, cpu::FlashAttentionScoreParams& p) {
  const FlashDims dims = check_flash_operands(call.context, in);
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.real_shift = call.data(in.real_shift);
  p.drop_mask = call.as<uint8_t>(in.drop_mask);
  p.prefix = call.list(in.prefix);
  p.seq_q = call.list(in.seq_q);
  p.seq_kv = call.list(in.seq_kv);
  p.sink = call.as<float>(in.sink);
  p.q_start = call.list(in.q_start);
  if (call.has(in.q_start)) p.q_starts = call.list_length(in.q_start);
  p.kv_start = call.list(in.kv_start);
  if (call.has(in.kv_start)) p.kv_starts = call.list_length(in.kv_start);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.B = dims.batch;
  p.N1 = dims.n1;
  p.N2 = dims.n2;
  p.S1 = dims.s1;
  p.S2 = dims.s2;
  p.D = dims.d;
  p.Dv = dims.dv;
  // The other modes are computed; a mask given there is checked for its shape only.
  if (call.has(in.attn_mask) && p.sparse_mode <= 1) {
    p.attn_mask = call.as<uint8_t>(in.attn_mask);
    right_align(call.in(in.attn_mask).shape, p.mask_shape);
  }
  if (call.has(in.real_shift)) {
    right_align(call.in(in.real_shift).shape, p.pse_shape);
    p.pse_rank = static_cast<int64_t>(call.in(in.real_shift).shape.size());
  }
}

void run_kernel(const CheckedCall& call) {
  cpu::FlashAttentionScoreParams p{};
  call.set_attrs<FlashAttentionScoreAttrs>(p);
  fill(call, FlashInputs(kIn), p);
  p.attention_out = call.out(kOut.attention_out);
  p.softmax_max = call.out_as<float>(kOut.softmax_max);
  p.softmax_sum = call.out_as<float>(kOut.softmax_sum);
  cpu::flash_attention_score(p);
}

void run_grad_kernel(const CheckedCall& call) {
  cpu::FlashAttentionScoreGradParams p{};
  call.set_attrs<FlashAttentionScoreGradAttrs>(p);
  fill(call, FlashInputs(kGrad), p);
  p.q_offset = call.list(kGrad.q_offset);
  // The base's outputs are inputs of the gradient, which only reads them.
  p.attention_out = call.in(kGrad.attention_in).data;
  p.softmax_max = static_cast<float*>(call.in(kGrad.softmax_max).data);
  p.softmax_sum = static_cast<float*>(call.in(kGrad.softmax_sum).data);
  p.dy = call.data(kGrad.dy);
  p.softmax_sum_grad = call.as<float>(kGrad.softmax_sum_grad);
  p.dq = call.out(kGradOut.dq);
  p.dk = call.out(kGradOut.dk);
  p.dv = call.out(kGradOut.dv);
  const bool wants_dpse = p.pse_grad && call.has(kGrad.real_shift) && p.pse_type <= 1;
  if (wants_dpse) p.dpse = call.out(kGradOut.dpse);
  if (call.has(kGrad.sink)) p.dsink = call.out_as<float>(kGradOut.dsink);
  cpu::flash_attention_score_grad(p);

  // Placeholders of gradients that are not asked for have one element and a defined value.
  if (!wants_dpse) {
    std::fill_n(call.out_as<uint8_t>(kGradOut.dpse), cpu::elem_size(p.dtype), uint8_t{0});
  }
  if (p.dsink == nullptr) *call.out_as<float>(kGradOut.dsink) = 0.0f;
}

int64_t work_of(const CheckedCall& call, const FlashInputs& in) {
  // One of the key's dimensions but the last is S2, in every layout.
  const std::vector<int64_t>& key = call.in(in.key).shape;
  return product({elements(call, in.query), *std::max_element(key.begin(), key.end() - 1)});
}

int64_t work(const CheckedCall& call) { return work_of(call, FlashInputs(kIn)); }
int64_t work_grad(const CheckedCall& call) { return work_of(call, FlashInputs(kGrad)); }

// The slopes of a position bias, and the sink.
uint32_t float32_inputs_of(const FlashAttentionScoreAttrs& attrs, const FlashInputs& in) {
  const bool slopes = attrs.pse_type >= 2;
  return input_bit(in.sink) | (slopes ? input_bit(in.real_shift) : 0);
}

uint32_t float32_inputs(const BoundAttrs& attrs) {
  return float32_inputs_of(attrs.as<FlashAttentionScoreAttrs>(), FlashInputs(kIn));
}
uint32_t float32_inputs_grad(const BoundAttrs& attrs) {
  return float32_inputs_of(attrs.as<FlashAttentionScoreGradAttrs>(), FlashInputs(kGrad));
}

}  // namespace

const CpuKernelEntry flash_attention_score_entry{run_kernel, work, float32_inputs};
const CpuKernelEntry flash_attention_score_grad_entry{run_grad_kernel, work_grad,
                                                      float32_inputs_grad};

}  // namespace nsa
