// How the CPU's kernels of FlashAttentionScore and FlashAttentionScoreGrad are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/flash_attention_score.h"

#include <algorithm>

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/flash_attention_score/params.h"

namespace nsa {

namespace {

int64_t work_of_flash_attention_score(const CheckedCall& call) {
  constexpr const FlashAttentionScoreInputs& in = kFlashAttentionScoreInputs;
  return product({elements(call, in.query), *std::max_element(call.in(in.key).shape.begin(),
                                                              call.in(in.key).shape.end() - 1)});
}

uint32_t float32_inputs_of_flash_attention_score(const BoundAttrs& bound) {
  constexpr const FlashAttentionScoreInputs& in = kFlashAttentionScoreInputs;
  const auto& attrs = bound.as<FlashAttentionScoreAttrs>();
  return input_bit(in.sink) | (attrs.pse_type >= 2 ? input_bit(in.real_shift) : 0);
}

int64_t work_of_flash_attention_score_grad(const CheckedCall& call) {
  constexpr const FlashAttentionScoreGradInputs& in = kFlashAttentionScoreGradInputs;
  return product({elements(call, in.query), *std::max_element(call.in(in.key).shape.begin(),
                                                              call.in(in.key).shape.end() - 1)});
}

uint32_t float32_inputs_of_flash_attention_score_grad(const BoundAttrs& bound) {
  constexpr const FlashAttentionScoreGradInputs& in = kFlashAttentionScoreGradInputs;
  const auto& attrs = bound.as<FlashAttentionScoreGradAttrs>();
  return input_bit(in.sink) | (attrs.pse_type >= 2 ? input_bit(in.real_shift) : 0);
}

}  // namespace

void fill_flash_attention_score(const CheckedCall& call, cpu::FlashAttentionScoreParams& p) {
  constexpr const FlashAttentionScoreInputs& in = kFlashAttentionScoreInputs;
  constexpr const FlashAttentionScoreOutputs& out = kFlashAttentionScoreOutputs;
  const auto& attrs = call.attrs<FlashAttentionScoreAttrs>();
  static_cast<FlashAttentionScoreAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.real_shift = call.data(in.real_shift);
  p.drop_mask = call.as<uint8_t>(in.drop_mask);
  p.prefix = call.list(in.prefix);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_kv = call.list(in.actual_seq_kvlen);
  p.q_start = call.list(in.q_start_idx);
  p.kv_start = call.list(in.kv_start_idx);
  p.sink = call.as<float>(in.sink);
  p.attention_out = call.out(out.attention_out);
  p.softmax_max = call.out_as<float>(out.softmax_max);
  p.softmax_sum = call.out_as<float>(out.softmax_sum);
  p.dtype = elem_type(call.in(in.query).dtype);
}

void fill_flash_attention_score_grad(const CheckedCall& call,
                                     cpu::FlashAttentionScoreGradParams& p) {
  constexpr const FlashAttentionScoreGradInputs& in = kFlashAttentionScoreGradInputs;
  constexpr const FlashAttentionScoreGradOutputs& out = kFlashAttentionScoreGradOutputs;
  const auto& attrs = call.attrs<FlashAttentionScoreGradAttrs>();
  static_cast<FlashAttentionScoreGradAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.real_shift = call.data(in.real_shift);
  p.drop_mask = call.as<uint8_t>(in.drop_mask);
  p.prefix = call.list(in.prefix);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_kv = call.list(in.actual_seq_kvlen);
  p.q_offset = call.list(in.q_offset);
  p.q_start = call.list(in.q_start_idx);
  p.kv_start = call.list(in.kv_start_idx);
  p.sink = call.as<float>(in.sink);
  p.attention_out = call.in(in.attention_in).data;
  p.softmax_max = static_cast<float*>(call.in(in.softmax_max).data);
  p.softmax_sum = static_cast<float*>(call.in(in.softmax_sum).data);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.dy = call.data(in.dy);
  p.softmax_sum_grad = call.as<float>(in.softmax_sum_grad);
  p.dq = call.out(out.dq);
  p.dk = call.out(out.dk);
  p.dv = call.out(out.dv);
}

const CpuKernelEntry flash_attention_score_entry{run_flash_attention_score,
                                                 work_of_flash_attention_score,
                                                 float32_inputs_of_flash_attention_score};
const CpuKernelEntry flash_attention_score_grad_entry{run_flash_attention_score_grad,
                                                      work_of_flash_attention_score_grad,
                                                      float32_inputs_of_flash_attention_score_grad};

}  // namespace nsa
