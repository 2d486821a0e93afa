// Rules of FlashAttentionScore and FlashAttentionScoreGrad.
#include "infer/flash_attention.h"

namespace nsa {

namespace {

constexpr const FlashAttentionScoreInputs& kIn = kFlashAttentionScoreInputs;
constexpr const FlashAttentionScoreGradInputs& kGrad = kFlashAttentionScoreGradInputs;

struct CheckedFlash {
  FlashDims dims;
  PseForm pse;
};

// The rules of the inputs that the operator and its gradient share.
CheckedFlash check_call(const Context& c, CompressedKind compressed, Sizes& sizes) {
  const FlashInputs in = flash_inputs(c.op());
  CheckedFlash call;
  call.dims = match_flash_operands(c, in, sizes);
  check_flash_lists(c, in, call.dims, compressed);
  check_flash_mask(c, in, call.dims, compressed);
  check_flash_prefix(c, in, call.dims);
  call.pse = check_flash_pse(c, in, call.dims);
  check_flash_dropout(c, in, call.dims);
  sizes.match({in.sink});
  return call;
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  Sizes sizes(c);
  check_call(c, {false}, sizes);
  return sizes.outputs();
}

CompressedKind check_compressed(const Context& c, const FlashAttentionScoreGradAttrs& attrs) {
  c.require_int("compress_stride", attrs.compress_stride, 0, attrs.compress_block_size);
  if (attrs.compress_block_size == 0) {
    if (c.has(kGrad.q_offset))
      c.fail_value("q_offset", "None without compress_block_size", "a list");
    return {false};
  }
  if (attrs.input_layout != InputLayout::kTND) {
    c.fail_value("input_layout", "'TND' with compress_block_size",
                 std::string("'") + name_of(attrs.input_layout) + "'");
  }
  if (attrs.sparse_mode > 1) {
    c.fail_value("sparse_mode", "0 or 1 with compress_block_size",
                 std::to_string(attrs.sparse_mode));
  }
  return {true};
}

// The gradient of real_shift: a placeholder where none is asked for or there is no bias.
std::vector<int64_t> dpse_shape(const Context& c, const FlashAttentionScoreGradAttrs& attrs,
                                const CheckedFlash& call) {
  if (!attrs.pse_grad || call.pse == PseForm::kNone) return {1};
  if (call.pse == PseForm::kSlopes) {
    c.fail_value("real_shift", "a position bias where its gradient is asked for",
                 "slopes, with pse_type " + std::to_string(attrs.pse_type));
  }
  if (call.pse == PseForm::kCompressedAlibi) {
    c.fail_value("real_shift", "a full position bias where its gradient is asked for",
                 "the compressed alibi form " + format_shape(c.in(kGrad.real_shift).shape));
  }
  const TensorDesc& pse = c.in(kGrad.real_shift);
  return pse.known_rank ? pse.shape : std::vector<int64_t>{-2};
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  const auto& attrs = c.attrs<FlashAttentionScoreGradAttrs>();
  Sizes sizes(c);
  const CheckedFlash call = check_call(c, check_compressed(c, attrs), sizes);
  c.require_query_offset(kGrad.q_offset, kGrad.actual_seq_qlen);
  sizes.match(
      {kGrad.dy, kGrad.attention_in, kGrad.softmax_max, kGrad.softmax_sum, kGrad.softmax_sum_grad});
  std::vector<OutputDesc> outputs = sizes.outputs();
  outputs[kFlashAttentionScoreGradOutputs.dpse].shape = dpse_shape(c, attrs, call);
  const size_t dsink = kFlashAttentionScoreGradOutputs.dsink;
  outputs[dsink].shape = {c.has(kGrad.sink) ? call.dims.n1 : 1};
  return outputs;
}

}  // namespace

FlashInputs flash_inputs(OpId op) {
  return op == OpId::kFlashAttentionScore ? FlashInputs(kIn) : FlashInputs(kGrad);
}

const FlashAttentionScoreAttrs& flash_attrs(const Context& c) {
  if (c.op() == OpId::kFlashAttentionScore) return c.attrs<FlashAttentionScoreAttrs>();
  return c.attrs<FlashAttentionScoreGradAttrs>();
}

const OpRules& flash_attention_score_rules() {
  static const OpRules rules{{OpId::kFlashAttentionScore, kIn,
                              attr_specs<FlashAttentionScoreAttrs>(), kFlashAttentionScoreOutputs},
                             infer_forward};
  return rules;
}

const OpRules& flash_attention_score_grad_rules() {
  static const OpRules rules{
      {OpId::kFlashAttentionScoreGrad, kGrad, attr_specs<FlashAttentionScoreGradAttrs>(),
       kFlashAttentionScoreGradOutputs},
      infer_backward};
  return rules;
}

}  // namespace nsa
