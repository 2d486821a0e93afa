// Rules of LightningIndexer and LightningIndexerGrad.
#include "infer/lightning_indexer.h"

#include "infer/token_rows.h"

namespace nsa {

namespace {

constexpr const LightningIndexerInputs& kIn = kLightningIndexerInputs;
constexpr const LightningIndexerGradInputs& kGrad = kLightningIndexerGradInputs;

// Tokens that the last key of a batch element lacks, of those that a key has.
void check_residual(const Context& c, const TokenDims& dims, int64_t ratio) {
  if (!c.has(kIn.compress_residual)) return;
  const int64_t length = c.list_length(kIn.compress_residual);
  if (length >= 0 && dims.batch >= 0 && length != dims.batch) {
    c.fail_value(c.name(kIn.compress_residual),
                 "of one entry for each of the " + std::to_string(dims.batch) + " batch elements",
                 std::to_string(length) + " of them");
  }
  const SeqList* values = c.values(kIn.compress_residual);
  if (values == nullptr) return;
  for (size_t b = 0; b < values->size(); ++b) {
    if ((*values)[b] >= 0 && (*values)[b] < ratio) continue;
    c.fail_value(c.name(kIn.compress_residual),
                 "in [0, compress_ratio), which is " + std::to_string(ratio),
                 std::to_string((*values)[b]) + " at index " + std::to_string(b));
  }
}

// Limits of MindSpore's own operator, which runs on Ascend.
void check_built_in(const Context& c, const LightningIndexerAttrs& attrs, const TokenDims& dims) {
  const auto require = [&](bool right, const char* name, const char* expected, int64_t got) {
    if (!right) c.fail_value(name, std::string(expected) + " on Ascend", std::to_string(got));
  };
  c.require_dtype(kIn.query, kHalfDTypes);
  require(dims.heads <= 64, "H of query", "at most 64", dims.heads);
  require(dims.key_heads < 0 || dims.key_heads == 1, "N2 of key", "1", dims.key_heads);
  require(dims.d < 0 || dims.d == 128, "d of query", "128", dims.d);
  const int64_t count = attrs.sparse_count;
  require(count <= 2048 || (count <= 8192 && count % 1024 == 0), "sparse_count",
          "at most 2048, or a multiple of 1024 up to 8192,", count);
  require(attrs.compress_ratio == 1, "compress_ratio", "1", attrs.compress_ratio);
  if (!c.has(kIn.weights)) c.fail_value("weights", "given on Ascend", "None");
  if (attrs.layout_key != KeyLayout::kPaged) return;
  const int64_t page = c.dim(kIn.key, 1);
  require(page < 0 || (page % 16 == 0 && page <= 1024), "page of key",
          "a multiple of 16 up to 1024", page);
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const auto& attrs = c.attrs<LightningIndexerAttrs>();
  const TokenDims dims = check_token_rows(
      c, {kIn.query, kIn.key, kIn.actual_seq_lengths_query, kIn.actual_seq_lengths_key,
          attrs.layout_query, attrs.layout_key, kIn.block_table});
  const int64_t mode = attrs.sparse_mode;
  if (mode != 0 && mode != 3) c.fail_value("sparse_mode", "0 or 3", std::to_string(mode));
  const bool values = attrs.return_value;
  if (values && attrs.layout_key == KeyLayout::kPaged)
    c.fail_value("return_value", "False with layout_key='PA_BSND'", "True");
  require_token_shape(c, kIn.weights, dims, {dims.heads}, "(T1, H)", "(B, Sq, H)");
  check_residual(c, dims, attrs.compress_ratio);
  if (c.target() == Target::kAscend) check_built_in(c, attrs, dims);
  const std::vector<int64_t> shape = dims.shape({dims.key_heads, attrs.sparse_count});
  return {{DType::kInt32, shape}, {c.dtype(kIn.query), values ? shape : std::vector<int64_t>{0}}};
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  const auto& attrs = c.attrs<LightningIndexerGradAttrs>();
  const TokenDims dims = check_token_rows(
      c, {kGrad.query, kGrad.key, kGrad.actual_seq_lengths_query, kGrad.actual_seq_lengths_key,
          attrs.layout_query, as_key_layout(attrs.layout_key), std::nullopt});
  require_token_shape(c, kGrad.weights, dims, {dims.heads}, "(T1, H)", "(B, Sq, H)");
  const size_t last = dims.packed ? 2 : 3;
  const int64_t count =
      c.in(kGrad.sparse_indices).known_rank && c.in(kGrad.sparse_indices).shape.size() == last + 1
          ? c.dim(kGrad.sparse_indices, last)
          : kUnknownDim;
  for (size_t input : {kGrad.sparse_indices, kGrad.sparse_values_grad})
    require_token_shape(c, input, dims, {dims.key_heads, count}, "(T1, N2, k)", "(B, Sq, N2, k)");
  return {{c.dtype(kGrad.query), dims.shape({dims.heads, dims.d})},
          {c.dtype(kGrad.query),
           c.in(kGrad.key).known_rank ? c.in(kGrad.key).shape : std::vector<int64_t>{-2}},
          {DType::kFloat32, dims.shape({dims.heads})}};
}

}  // namespace

const OpRules& lightning_indexer_rules() {
  static const OpRules rules{
      {OpId::kLightningIndexer, kIn, attr_specs<LightningIndexerAttrs>(), kLightningIndexerOutputs},
      infer_forward};
  return rules;
}

const OpRules& lightning_indexer_grad_rules() {
  static const OpRules rules{
      {OpId::kLightningIndexerGrad, kGrad, attr_specs<LightningIndexerGradAttrs>(),
       kLightningIndexerGradOutputs},
      infer_backward};
  return rules;
}

}  // namespace nsa
