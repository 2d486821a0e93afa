// Rules of NsaSelectedAttention and NsaSelectedAttentionGrad.
#include "infer/nsa_selected_attention.h"

#include "infer/attention.h"

namespace nsa {

namespace {

constexpr const NsaSelectedAttentionInputs& kIn = kNsaSelectedAttentionInputs;
constexpr const NsaSelectedAttentionGradInputs& kGrad = kNsaSelectedAttentionGradInputs;

// The inputs that the operator and its gradient share.
template <class Positions>
AttentionDims check_shared(const Context& c, const Positions& in) {
  const auto& attrs = c.attrs<NsaSelectedAttentionAttrs>();
  const AttentionDims dims =
      check_attention_operands(c, {in.query, in.key, in.value}, attrs.head_num);
  c.limit(Quantity::kSelectBlockSize, attrs.select_block_size);
  c.limit(Quantity::kSelectBlockCount, attrs.select_block_count);
  c.require_shape(in.topk_indices, "(T1, N2, select_block_count)",
                  {dims.t1, dims.n2, attrs.select_block_count});
  c.require_same_length(in.actual_seq_kvlen, in.actual_seq_qlen);
  c.require_prefix_sums(in.actual_seq_qlen, "T1", dims.t1, ListEnd::kExact);
  c.require_prefix_sums(in.actual_seq_kvlen, "T2", dims.t2, ListEnd::kExact);
  if (c.values(in.actual_seq_kvlen) != nullptr)
    c.limit(Quantity::kKeySegment, longest_segment(*c.values(in.actual_seq_kvlen)));
  c.require_query_offset(in.q_offset, in.actual_seq_qlen);
  return dims;
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const AttentionDims dims = check_shared(c, kIn);
  return {{c.dtype(kIn.query), {dims.t1, dims.n1, dims.dv}},
          {DType::kFloat32, {dims.t1, dims.n1, kSoftmaxLanes}},
          {DType::kFloat32, {dims.t1, dims.n1, kSoftmaxLanes}}};
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  const AttentionDims dims = check_shared(c, kGrad);
  for (size_t input : {kGrad.attention_out, kGrad.attention_out_grad}) {
    c.require_shape(input, "(T1, N1, Dv)", {dims.t1, dims.n1, dims.dv});
  }
  for (size_t input : {kGrad.softmax_max, kGrad.softmax_sum, kGrad.softmax_sum_grad}) {
    if (!c.has(input)) continue;
    c.require_shape(input, "(T1, N1, 8)", {dims.t1, dims.n1, kSoftmaxLanes});
  }
  const DType dtype = c.dtype(kGrad.query);
  return {{dtype, {dims.t1, dims.n1, dims.d}},
          {dtype, {dims.t2, dims.n2, dims.d}},
          {dtype, {dims.t2, dims.n2, dims.dv}}};
}

}  // namespace

const OpRules& nsa_selected_attention_rules() {
  static const OpRules rules{
      {OpId::kNsaSelectedAttention, kIn, attr_specs<NsaSelectedAttentionAttrs>(),
       kNsaSelectedAttentionOutputs},
      infer_forward};
  return rules;
}

const OpRules& nsa_selected_attention_grad_rules() {
  static const OpRules rules{
      {OpId::kNsaSelectedAttentionGrad, kGrad, attr_specs<NsaSelectedAttentionAttrs>(),
       kNsaSelectedAttentionGradOutputs},
      infer_backward};
  return rules;
}

}  // namespace nsa
