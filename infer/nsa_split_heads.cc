// Rules of NsaSplitHeads and its gradient, which the layers call: their own code makes the sizes
// fit, so the rules only keep a wrong call from reading or writing where it should not.
#include "infer/nsa_split_heads.h"

#include "infer/check.h"

namespace nsa {

namespace {

constexpr const NsaSplitHeadsInputs& kIn = kNsaSplitHeadsInputs;
constexpr const NsaSplitHeadsGradInputs& kGrad = kNsaSplitHeadsGradInputs;

struct HeadDims {
  int64_t branches, heads, kv_heads, d, dv;

  HeadDims(const Context& c, const NsaSplitHeadsGradAttrs& attrs)
      : branches(attrs.branches),
        heads(attrs.head_num),
        kv_heads(attrs.kv_head_num),
        d(attrs.head_dim),
        dv(attrs.value_head_dim) {
    if (branches == 2) c.fail_value("branches", "1 or 3", "2");
    if (d % 2 != 0) c.fail_value("head_dim", "even", std::to_string(d));
  }

  int64_t query() const { return product({heads, d}); }
  int64_t key_value() const { return product({branches, kv_heads, d + dv}); }
};

void check_angles(const Context& c, size_t cos, size_t sin, int64_t tokens, int64_t d) {
  for (size_t input : {cos, sin}) c.require_shape(input, "(T, 1, head_dim)", {tokens, 1, d});
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const auto& attrs = c.attrs<NsaSplitHeadsAttrs>();
  const HeadDims dims(c, attrs);
  c.require_rank(kIn.query, 2, "(T, head_num * head_dim)");
  c.require_rank(kIn.key_value, 2, "(T, columns)");
  const int64_t tokens = known_of(c.dim(kIn.query, 0), c.dim(kIn.key_value, 0));
  c.require_shape(kIn.query, "(T, head_num * head_dim)", {tokens, dims.query()});
  c.require_shape(kIn.key_value, "(T, branches * kv_head_num * (head_dim + value_head_dim))",
                  {tokens, dims.key_value()});
  check_angles(c, kIn.cos, kIn.sin, tokens, dims.d);
  const DType dtype = dtype_of(attrs.dtype);
  const std::vector<int64_t> shapes[] = {{tokens, dims.heads, dims.d},
                                         {tokens, dims.kv_heads, dims.d},
                                         {tokens, dims.kv_heads, dims.dv}};
  std::vector<OutputDesc> outputs;
  // Placeholders are float32: MindSpore 2.7 cannot make the zeros that are their gradients of
  // bfloat16.
  for (const std::vector<int64_t>& shape : shapes) {
    for (int64_t branch = 0; branch < 3; ++branch) {
      const bool used = branch < dims.branches;
      outputs.push_back({used ? dtype : DType::kFloat32, used ? shape : std::vector<int64_t>{1}});
    }
  }
  return outputs;
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  const HeadDims dims(c, c.attrs<NsaSplitHeadsGradAttrs>());
  c.require_rank(kGrad.query_cmp_grad, 3, "(T, head_num, head_dim)");
  const int64_t tokens = c.dim(kGrad.query_cmp_grad, 0);
  for (int64_t branch = 0; branch < 3; ++branch) {
    for (size_t input : {kGrad.query_cmp_grad, kGrad.key_cmp_grad, kGrad.value_cmp_grad}) {
      const bool given = c.has(input + branch), used = branch < dims.branches;
      if (given != used)
        c.fail_value(c.name(input + branch), used ? "given with 3 branches" : "None with 1 branch",
                     used ? "None" : "a Tensor");
    }
    if (branch >= dims.branches) continue;
    c.require_shape(kGrad.query_cmp_grad + branch, "(T, head_num, head_dim)",
                    {tokens, dims.heads, dims.d});
    c.require_shape(kGrad.key_cmp_grad + branch, "(T, kv_head_num, head_dim)",
                    {tokens, dims.kv_heads, dims.d});
    c.require_shape(kGrad.value_cmp_grad + branch, "(T, kv_head_num, value_head_dim)",
                    {tokens, dims.kv_heads, dims.dv});
  }
  check_angles(c, kGrad.cos, kGrad.sin, tokens, dims.d);
  return {{DType::kFloat32, {tokens, dims.query()}}, {DType::kFloat32, {tokens, dims.key_value()}}};
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
