// Rules of SparseFlashAttention and SparseFlashAttentionGrad.
#include "infer/sparse_flash_attention.h"

#include "infer/token_rows.h"

namespace nsa {

namespace {

constexpr const SparseFlashAttentionInputs& kIn = kSparseFlashAttentionInputs;
constexpr const SparseFlashAttentionGradInputs& kGrad = kSparseFlashAttentionGradInputs;

struct SparseDims : TokenDims {
  int64_t dv, ropes;  // -1 where unknown; ropes 0: none
};

template <class Positions>
int64_t check_ropes(const Context& c, const Positions& in, const TokenDims& dims, int64_t mode) {
  if (mode != 0 && mode != 2) c.fail_value("attention_mode", "0 or 2", std::to_string(mode));
  for (size_t input : {in.query_rope, in.key_rope}) {
    if (mode == 2 && !c.has(input))
      c.fail_value(c.name(input), "given with attention_mode=2", "None");
    if (mode == 0 && c.has(input))
      c.fail_value(c.name(input), "None with attention_mode=0", "a Tensor");
  }
  if (mode == 0) return 0;
  const int64_t of_key = check_like_key(c, in.key_rope, in.key, "R");
  require_token_shape(c, in.query_rope, dims, {dims.heads, of_key}, "(T1, N, R)", "(B, Sq, N, R)");
  return known_of(of_key, c.dim(in.query_rope, dims.packed ? 2 : 3));
}

// Rules that the operator and its gradient share.
template <class Positions>
SparseDims check_shared(const Context& c, const Positions& in, std::optional<size_t> pages) {
  const auto& attrs = c.attrs<SparseFlashAttentionAttrs>();
  SparseDims dims{};
  static_cast<TokenDims&>(dims) =
      check_token_rows(c, {in.query, in.key, in.actual_seq_lengths_query, in.actual_seq_lengths_kv,
                           attrs.layout_query, attrs.layout_kv, pages, "layout_kv", "N", "D"});
  const int64_t mode = attrs.sparse_mode;
  if (mode != 0 && mode != 3) c.fail_value("sparse_mode", "0 or 3", std::to_string(mode));
  dims.dv = check_like_key(c, in.value, in.key, "Dv");
  const size_t last = dims.packed ? 2 : 3;
  require_token_shape(c, in.sparse_indices, dims, {dims.key_heads, c.dim(in.sparse_indices, last)},
                      "(T1, N2, k)", "(B, Sq, N2, k)");
  c.require_positive_dim(in.sparse_indices, last, "k");
  if (c.has(in.sinks)) c.require_shape(in.sinks, "(N,)", {dims.heads});
  dims.ropes = check_ropes(c, in, dims, attrs.attention_mode);
  return dims;
}

// Limits of MindSpore's own operator, which runs on Ascend.
void check_built_in(const Context& c, const SparseFlashAttentionAttrs& attrs,
                    const SparseDims& dims) {
  const auto require = [&](bool right, const char* name, const char* expected, int64_t got) {
    if (!right) c.fail_value(name, std::string(expected) + " on Ascend", std::to_string(got));
  };
  c.require_dtype(kIn.query, kHalfDTypes);
  require(attrs.attention_mode == 2, "attention_mode", "2", attrs.attention_mode);
  require(dims.heads < 0 || (dims.heads <= 128 && (dims.heads & (dims.heads - 1)) == 0),
          "N of query", "a power of 2 up to 128", dims.heads);
  require(dims.key_heads < 0 || dims.key_heads == 1, "N2 of key", "1", dims.key_heads);
  require(dims.d < 0 || dims.d == 512, "D of query", "512", dims.d);
  require(dims.dv < 0 || dims.dv == 512, "Dv of value", "512", dims.dv);
  require(dims.ropes < 0 || dims.ropes == 64, "R of key_rope", "64", dims.ropes);
  const int64_t block = attrs.sparse_block_size;
  require(block <= 128 && (block & (block - 1)) == 0, "sparse_block_size", "a power of 2 up to 128",
          block);
}

std::vector<int64_t> statistics_of(const SparseDims& dims) {
  const bool known = dims.heads >= 0 && dims.key_heads > 0;
  const int64_t group = known ? dims.heads / dims.key_heads : kUnknownDim;
  if (dims.packed) return {dims.key_heads, dims.rows, group};
  return {dims.batch, dims.key_heads, dims.per_batch, group};
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const auto& attrs = c.attrs<SparseFlashAttentionAttrs>();
  const SparseDims dims = check_shared(c, kIn, kIn.block_table);
  if (c.target() == Target::kAscend) check_built_in(c, attrs, dims);
  const int64_t block = attrs.sparse_block_size;
  const int64_t page = attrs.layout_kv == KeyLayout::kPaged ? c.dim(kIn.key, 1) : kUnknownDim;
  if (page >= 0 && page % block != 0) {
    c.fail_value("sparse_block_size", "a divisor of a page's tokens (" + std::to_string(page) + ")",
                 std::to_string(block));
  }
  const std::vector<int64_t> statistics =
      attrs.return_softmax_lse ? statistics_of(dims) : std::vector<int64_t>{0};
  return {{c.dtype(kIn.query), dims.shape({dims.heads, dims.dv})},
          {DType::kFloat32, statistics},
          {DType::kFloat32, statistics}};
}

std::vector<int64_t> shape_of(const Context& c, size_t input) {
  if (!c.has(input)) return {1};
  return c.in(input).known_rank ? c.in(input).shape : std::vector<int64_t>{-2};
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  const SparseDims dims = check_shared(c, kGrad, std::nullopt);
  for (size_t input : {kGrad.attention_out, kGrad.attention_out_grad})
    require_token_shape(c, input, dims, {dims.heads, dims.dv}, "(T1, N, Dv)", "(B, Sq, N, Dv)");
  if (c.has(kGrad.softmax_sum_grad)) {
    const std::vector<int64_t> shape = statistics_of(dims);
    c.require_shape(kGrad.softmax_sum_grad,
                    dims.packed ? "(N2, T1, N / N2)" : "(B, N2, Sq, N / N2)", shape.data(),
                    shape.size());
  }
  const DType dtype = c.dtype(kGrad.query);
  return {{dtype, shape_of(c, kGrad.query)},    {dtype, shape_of(c, kGrad.key)},
          {dtype, shape_of(c, kGrad.value)},    {dtype, shape_of(c, kGrad.query_rope)},
          {dtype, shape_of(c, kGrad.key_rope)}, {DType::kFloat32, shape_of(c, kGrad.sinks)}};
}

}  // namespace

const OpRules& sparse_flash_attention_rules() {
  static const OpRules rules{
      {OpId::kSparseFlashAttention, kIn, attr_specs<SparseFlashAttentionAttrs>(),
       kSparseFlashAttentionOutputs},
      infer_forward};
  return rules;
}

const OpRules& sparse_flash_attention_grad_rules() {
  static const OpRules rules{
      {OpId::kSparseFlashAttentionGrad, kGrad, attr_specs<SparseFlashAttentionAttrs>(),
       kSparseFlashAttentionGradOutputs},
      infer_backward};
  return rules;
}

}  // namespace nsa
