// Rules of SparseLightningIndexerGradKLLoss, DenseLightningIndexerGradKLLoss and
// DenseLightningIndexerSoftmaxLse.
#include "infer/lightning_indexer_kl_loss.h"

#include "infer/token_rows.h"

namespace nsa {

namespace {

constexpr const SparseLightningIndexerGradKLLossInputs& kSparse =
    kSparseLightningIndexerGradKLLossInputs;

constexpr const DenseLightningIndexerGradKLLossInputs& kDense =
    kDenseLightningIndexerGradKLLossInputs;
constexpr const DenseLightningIndexerSoftmaxLseInputs& kLse =
    kDenseLightningIndexerSoftmaxLseInputs;

void check_mode(const Context& c, int64_t mode) {
  if (mode != 0 && mode != 3) c.fail_value("sparse_mode", "0 or 3", std::to_string(mode));
}

struct IndexerDims : TokenDims {
  int64_t groups;  // key heads of the indexer; -1 where unknown
};

// The queries and keys of the indexer, whose rows and batches are those of the attention.
template <class Positions>
IndexerDims check_indexer(const Context& c, const Positions& in, TokenLayout layout) {
  IndexerDims dims{};
  static_cast<TokenDims&>(dims) = check_token_rows(
      c, {in.query_index, in.key_index, in.actual_seq_qlen, in.actual_seq_klen, layout,
          as_key_layout(layout), std::nullopt, "layout", "H", "d", "layout"});
  dims.groups = dims.key_heads;
  return dims;
}

// The attention that teaches the indexer, whose key heads are divided among the indexer's.
template <class Positions>
TokenDims check_teacher(const Context& c, const Positions& in, const IndexerDims& index,
                        const IndexerKLLossAttrs& attrs) {
  const TokenDims dims = check_token_rows(
      c, {in.query, in.key, in.actual_seq_qlen, in.actual_seq_klen, attrs.layout,
          as_key_layout(attrs.layout), std::nullopt, "layout", "N", "D", "layout"});
  check_mode(c, attrs.sparse_mode);
  require_token_shape(c, in.query_index, dims, {index.heads, index.d}, "(T1, H, d)",
                      "(B, Sq, H, d)");
  require_token_shape(c, in.weights, dims, {index.heads}, "(T1, H)", "(B, Sq, H)");
  const size_t rows = dims.packed ? 1 : 2;
  if (c.in(in.key).known_rank) {
    std::vector<int64_t> shape = c.in(in.key).shape;
    shape[rows] = shape[rows + 1] = kUnknownDim;
    c.require_shape(in.key_index, dims.packed ? "(T2, N2, d)" : "(B, Sk, N2, d)", shape.data(),
                    shape.size());
  }
  if (index.groups > 0 && dims.key_heads >= 0 && dims.key_heads % index.groups != 0) {
    c.fail_value(c.name(in.key_index),
                 "of a head count that divides N2 of key (" + std::to_string(dims.key_heads) + ")",
                 std::to_string(index.groups));
  }
  return dims;
}

template <class Positions>
void check_teacher_ropes(const Context& c, const Positions& in, const TokenDims& dims) {
  for (const auto& [input, other] :
       {std::pair{in.query_rope, in.key_rope}, std::pair{in.key_rope, in.query_rope}}) {
    if (c.has(input) || !c.has(other)) continue;
    c.fail_value(c.name(input), std::string("given where ") + c.name(other) + " is", "None");
  }
  if (!c.has(in.key_rope)) return;
  const int64_t ropes = check_like_key(c, in.key_rope, in.key, "R");
  require_token_shape(c, in.query_rope, dims, {dims.heads, ropes}, "(T1, N, R)", "(B, Sq, N, R)");
}

// The statistics of the attention lie as those of sparse_flash_attention.
template <class Positions>
void check_statistics(const Context& c, const Positions& in, const TokenDims& dims) {
  const bool known = dims.heads >= 0 && dims.key_heads > 0;
  const int64_t group = known ? dims.heads / dims.key_heads : kUnknownDim;
  const std::vector<int64_t> shape =
      dims.packed ? std::vector<int64_t>{dims.key_heads, dims.rows, group}
                  : std::vector<int64_t>{dims.batch, dims.key_heads, dims.per_batch, group};
  const char* axes = dims.packed ? "(N2, T1, N / N2) ((B, N2, Sq, N / N2) with layout='BSND')"
                                 : "(B, N2, Sq, N / N2) ((N2, T1, N / N2) with layout='TND')";
  for (size_t input : {in.softmax_max, in.softmax_sum})
    c.require_shape(input, axes, shape.data(), shape.size());
}

template <class Positions>
std::vector<OutputDesc> gradients(const Context& c, const Positions& in, const IndexerDims& index) {
  const auto shape_of = [&](size_t input) {
    return c.in(input).known_rank ? c.in(input).shape : std::vector<int64_t>{-2};
  };
  return {{c.dtype(in.query), shape_of(in.query_index)},
          {c.dtype(in.query), shape_of(in.key_index)},
          {DType::kFloat32, index.shape({index.heads})},
          {DType::kFloat32, {1}}};
}

std::vector<OutputDesc> infer_sparse(const Context& c) {
  const auto& attrs = c.attrs<IndexerKLLossAttrs>();
  const IndexerDims index = check_indexer(c, kSparse, attrs.layout);
  const TokenDims dims = check_teacher(c, kSparse, index, attrs);
  check_teacher_ropes(c, kSparse, dims);
  check_statistics(c, kSparse, dims);
  const size_t last = dims.packed ? 2 : 3;
  const int64_t rank = static_cast<int64_t>(c.in(kSparse.sparse_indices).shape.size());
  const bool known = c.in(kSparse.sparse_indices).known_rank && rank > static_cast<int64_t>(last);
  const int64_t count = known ? c.dim(kSparse.sparse_indices, last) : kUnknownDim;
  require_token_shape(c, kSparse.sparse_indices, dims, {index.groups, count},
                      "(T1, heads of key_index, k)", "(B, Sq, heads of key_index, k)");
  c.require_positive_dim(kSparse.sparse_indices, last, "k");
  return gradients(c, kSparse, index);
}

// One statistic for each key head of the indexer and query.
std::vector<int64_t> index_statistics(const IndexerDims& index) {
  if (index.packed) return {index.groups, index.rows};
  return {index.batch, index.groups, index.per_batch};
}

std::vector<OutputDesc> infer_dense(const Context& c) {
  const auto& attrs = c.attrs<IndexerKLLossAttrs>();
  const IndexerDims index = check_indexer(c, kDense, attrs.layout);
  const TokenDims dims = check_teacher(c, kDense, index, attrs);
  check_teacher_ropes(c, kDense, dims);
  check_statistics(c, kDense, dims);
  const std::vector<int64_t> shape = index_statistics(index);
  const char* axes = index.packed ? "(heads of key_index, T1) ((B, heads, Sq) with layout='BSND')"
                                  : "(B, heads of key_index, Sq) ((heads, T1) with layout='TND')";
  for (size_t input : {kDense.softmax_max_index, kDense.softmax_sum_index})
    c.require_shape(input, axes, shape.data(), shape.size());
  return gradients(c, kDense, index);
}

std::vector<OutputDesc> infer_log_sum(const Context& c) {
  const auto& attrs = c.attrs<DenseLightningIndexerSoftmaxLseAttrs>();
  const IndexerDims index = check_indexer(c, kLse, attrs.layout);
  check_mode(c, attrs.sparse_mode);
  require_token_shape(c, kLse.weights, index, {index.heads}, "(T1, H)", "(B, Sq, H)");
  return {{DType::kFloat32, index_statistics(index)}, {DType::kFloat32, index_statistics(index)}};
}

}  // namespace

const OpRules& dense_lightning_indexer_softmax_lse_rules() {
  static const OpRules rules{
      {OpId::kDenseLightningIndexerSoftmaxLse, kLse,
       attr_specs<DenseLightningIndexerSoftmaxLseAttrs>(), kDenseLightningIndexerSoftmaxLseOutputs},
      infer_log_sum};
  return rules;
}

const OpRules& dense_lightning_indexer_grad_kl_loss_rules() {
  static const OpRules rules{{OpId::kDenseLightningIndexerGradKLLoss, kDense,
                              attr_specs<IndexerKLLossAttrs>(), kIndexerKLLossOutputs},
                             infer_dense};
  return rules;
}

const OpRules& sparse_lightning_indexer_grad_kl_loss_rules() {
  static const OpRules rules{{OpId::kSparseLightningIndexerGradKLLoss, kSparse,
                              attr_specs<IndexerKLLossAttrs>(), kIndexerKLLossOutputs},
                             infer_sparse};
  return rules;
}

}  // namespace nsa
