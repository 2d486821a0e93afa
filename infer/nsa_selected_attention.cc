// Rules of NsaSelectedAttention and NsaSelectedAttentionGrad.
#include "infer/nsa_selected_attention.h"

#include "infer/attention.h"

namespace nsa {

namespace {

constexpr const NsaSelectedAttentionInputs& kIn = kNsaSelectedAttentionInputs;
constexpr const NsaSelectedAttentionGradInputs& kGrad = kNsaSelectedAttentionGradInputs;

// The inputs that the operator and its gradient share.
template <class Positions>
void match_shared(const Context& c, const Positions& in, Sizes& sizes) {
  const auto& attrs = c.attrs<NsaSelectedAttentionAttrs>();
  const AttentionSizes named = match_attention_operands(c, in, sizes);
  c.limit(Quantity::kSelectBlockSize, attrs.select_block_size);
  c.limit(Quantity::kSelectBlockCount, attrs.select_block_count);
  sizes.match({in.topk_indices});
  c.require_same_length(in.actual_seq_kvlen, in.actual_seq_qlen);
  c.require_prefix_sums(in.actual_seq_qlen, "T1", named.T1, ListEnd::kExact);
  c.require_prefix_sums(in.actual_seq_kvlen, "T2", named.T2, ListEnd::kExact);
  if (c.values(in.actual_seq_kvlen) != nullptr)
    c.limit(Quantity::kKeySegment, longest_segment(*c.values(in.actual_seq_kvlen)));
  c.require_query_offset(in.q_offset, in.actual_seq_qlen);
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  Sizes sizes(c);
  match_shared(c, kIn, sizes);
  return sizes.outputs();
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  Sizes sizes(c);
  match_shared(c, kGrad, sizes);
  sizes.match({kGrad.attention_out, kGrad.attention_out_grad, kGrad.softmax_max, kGrad.softmax_sum,
               kGrad.softmax_sum_grad});
  return sizes.outputs();
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
