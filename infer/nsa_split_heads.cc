// Rules of NsaSplitHeads and its gradient, which the layers call: their own code makes the sizes
// fit, so the rules only keep a wrong call from reading or writing where it should not.
#include "infer/nsa_split_heads.h"

#include "infer/sizes.h"

namespace nsa {

namespace {

constexpr const NsaSplitHeadsInputs& kIn = kNsaSplitHeadsInputs;
constexpr const NsaSplitHeadsGradInputs& kGrad = kNsaSplitHeadsGradInputs;

void check_attrs(const Context& c, const NsaSplitHeadsGradAttrs& attrs) {
  if (attrs.branches == 2) c.fail_value("branches", "1 or 3", "2");
  if (attrs.head_dim % 2 != 0) c.fail_value("head_dim", "even", std::to_string(attrs.head_dim));
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const auto& attrs = c.attrs<NsaSplitHeadsAttrs>();
  check_attrs(c, attrs);
  Sizes sizes(c);
  sizes.match_ranks({kIn.query});
  c.require_rank(kIn.key_value, 2, "(T, columns)");
  sizes.take({kIn.key_value});
  sizes.match({kIn.query, kIn.key_value, kIn.cos, kIn.sin});
  std::vector<OutputDesc> outputs = sizes.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    // Placeholders are float32: MindSpore 2.7 cannot make the zeros that are their gradients of
    // bfloat16.
    const bool used = static_cast<int64_t>(i % 3) < attrs.branches;
    outputs[i].dtype = used ? dtype_of(attrs.dtype) : DType::kFloat32;
    if (!used) outputs[i].shape = {1};
  }
  return outputs;
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  const auto& attrs = c.attrs<NsaSplitHeadsGradAttrs>();
  check_attrs(c, attrs);
  Sizes sizes(c);
  sizes.match_ranks({kGrad.query_cmp_grad});
  for (int64_t branch = 0; branch < 3; ++branch) {
    for (size_t input : {kGrad.query_cmp_grad, kGrad.key_cmp_grad, kGrad.value_cmp_grad}) {
      const bool given = c.has(input + branch), used = branch < attrs.branches;
      if (given != used)
        c.fail_value(c.name(input + branch), used ? "given with 3 branches" : "None with 1 branch",
                     used ? "None" : "a Tensor");
    }
    sizes.match({kGrad.query_cmp_grad + branch, kGrad.key_cmp_grad + branch,
                 kGrad.value_cmp_grad + branch});
  }
  sizes.match({kGrad.cos, kGrad.sin});
  return sizes.outputs();
}

}  // namespace

const OpRules& nsa_split_heads_rules() {
  static const OpRules rules{
      {OpId::kNsaSplitHeads, kIn, attr_specs<NsaSplitHeadsAttrs>(), kNsaSplitHeadsOutputs},
      infer_forward};
  return rules;
}

const OpRules& nsa_split_heads_grad_rules() {
  static const OpRules rules{{OpId::kNsaSplitHeadsGrad, kGrad, attr_specs<NsaSplitHeadsGradAttrs>(),
                              kNsaSplitHeadsGradOutputs},
                             infer_backward};
  return rules;
}

}  // namespace nsa
