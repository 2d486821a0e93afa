#include <algorithm>

#include "binding/generated/by_hand.h"
#include "cpu/flash_attention_score/params.h"
#include "infer/flash_attention.h"

namespace nsa {

namespace {

constexpr const FlashAttentionScoreGradInputs& kGrad = kFlashAttentionScoreGradInputs;
constexpr const FlashAttentionScoreGradOutputs& kGradOut = kFlashAttentionScoreGradOutputs;

// The dimensions of a mask or position bias at the end of four; 1 in front.
void right_align(const std::vector<int64_t>& shape, int64_t (&aligned)[4]) {
  std::fill(std::begin(aligned), std::end(aligned), 1);
  std::copy_backward(shape.begin(), shape.end(), std::end(aligned));
}

// The sizes by layout, and the forms of a mask and of a position bias.
void fill_forms(const CheckedCall& call, const FlashInputs& in, cpu::FlashAttentionScoreParams& p) {
  const FlashDims dims = check_flash_operands(call.context, in);
  p.B = dims.batch;
  p.N1 = dims.n1;
  p.N2 = dims.n2;
  p.S1 = dims.s1;
  p.S2 = dims.s2;
  p.D = dims.d;
  p.Dv = dims.dv;
  if (call.has(in.q_start)) p.q_starts = call.list_length(in.q_start);
  if (call.has(in.kv_start)) p.kv_starts = call.list_length(in.kv_start);
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

}  // namespace

void run_flash_attention_score(const CheckedCall& call) {
  cpu::FlashAttentionScoreParams p{};
  fill_flash_attention_score(call, p);
  fill_forms(call, FlashInputs(kFlashAttentionScoreInputs), p);
  cpu::flash_attention_score(p);
}

void run_flash_attention_score_grad(const CheckedCall& call) {
  cpu::FlashAttentionScoreGradParams p{};
  fill_flash_attention_score_grad(call, p);
  fill_forms(call, FlashInputs(kGrad), p);
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

}  // namespace nsa
