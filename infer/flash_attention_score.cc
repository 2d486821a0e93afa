// Rules of FlashAttentionScore and FlashAttentionScoreGrad.
#include "infer/flash_attention.h"

namespace nsa {

namespace {

constexpr const FlashAttentionScoreInputs& kIn = kFlashAttentionScoreInputs;
constexpr const FlashAttentionScoreGradInputs& kGrad = kFlashAttentionScoreGradInputs;

struct FlashCall {
  FlashDims dims;
  PseForm pse;
};

// The rules of the inputs that the operator and its gradient share.
FlashCall check_call(const Context& c, CompressedKind compressed) {
  const FlashInputs in = flash_inputs(c.op());
  FlashCall call;
  call.dims = check_flash_operands(c, in);
  check_flash_lists(c, in, call.dims, compressed);
  check_flash_mask(c, in, call.dims, compressed);
  check_flash_prefix(c, in, call.dims);
  call.pse = check_flash_pse(c, in, call.dims);
  check_flash_dropout(c, in, call.dims);
  if (c.has(in.sink)) c.require_shape(in.sink, "(N1,)", {call.dims.n1});
  return call;
}

LayoutShape output_shape(const FlashDims& dims) {
  return layout_shape(dims.layout, dims.batch, dims.s1, dims.n1, dims.dv);
}

std::vector<int64_t> softmax_shape(const FlashDims& dims) {
  if (dims.layout == InputLayout::kTND) return {dims.s1, dims.n1, kSoftmaxLanes};
  return {dims.batch, dims.n1, dims.s1, kSoftmaxLanes};
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const FlashDims dims = check_call(c, {false}).dims;
  return {{c.dtype(kIn.query), output_shape(dims).vec()},
          {DType::kFloat32, softmax_shape(dims)},
          {DType::kFloat32, softmax_shape(dims)}};
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
                                const FlashCall& call) {
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
  const FlashCall call = check_call(c, check_compressed(c, attrs));
  c.require_query_offset(kGrad.q_offset, kGrad.actual_seq_qlen);
  const FlashDims& dims = call.dims;
  const bool packed = dims.layout == InputLayout::kTND;
  const LayoutShape out = output_shape(dims);
  for (size_t input : {kGrad.dy, kGrad.attention_in}) {
    c.require_shape(input, "attention_out", out.sizes.data(), out.rank);
  }
  for (size_t input : {kGrad.softmax_max, kGrad.softmax_sum, kGrad.softmax_sum_grad}) {
    if (!c.has(input)) continue;
    if (packed) {
      c.require_shape(input, "(T1, N1, 8)", {dims.s1, dims.n1, kSoftmaxLanes});
    } else {
      c.require_shape(input, "(B, N1, S1, 8)", {dims.batch, dims.n1, dims.s1, kSoftmaxLanes});
    }
  }
  const DType dtype = c.dtype(kGrad.query);
  const auto shape = [&](int64_t length, int64_t heads, int64_t dim) {
    return layout_shape(dims.layout, dims.batch, length, heads, dim).vec();
  };
  return {{dtype, shape(dims.s1, dims.n1, dims.d)},
          {dtype, shape(dims.s2, dims.n2, dims.d)},
          {dtype, shape(dims.s2, dims.n2, dims.dv)},
          {dtype, dpse_shape(c, attrs, call)},
          {DType::kFloat32, {c.has(kGrad.sink) ? dims.n1 : 1}}};
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
