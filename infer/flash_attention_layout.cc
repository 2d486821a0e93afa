// Dimensions of FlashAttentionScore by layout, and its sequence lists.
#include "infer/attention.h"
#include "infer/flash_attention.h"

namespace nsa {

namespace {

constexpr size_t kNoAxis = 4;

struct LayoutAxes {
  size_t rank;
  size_t batch, seq, head,
      dim;  // kNoAxis where the layout has none; without a head axis, dim is the hidden axis H
  const char* query;
  const char* key;
  const char* value;
};

// In the order of InputLayout.
constexpr LayoutAxes kLayouts[] = {
    {3, 0, 1, kNoAxis, 2, "(B, S1, N1 * D) with input_layout 'BSH'",
     "(B, S2, N2 * D) with input_layout 'BSH'", "(B, S2, N2 * Dv) with input_layout 'BSH'"},
    {3, 1, 0, kNoAxis, 2, "(S1, B, N1 * D) with input_layout 'SBH'",
     "(S2, B, N2 * D) with input_layout 'SBH'", "(S2, B, N2 * Dv) with input_layout 'SBH'"},
    {4, 0, 1, 2, 3, "(B, S1, N1, D) with input_layout 'BSND'",
     "(B, S2, N2, D) with input_layout 'BSND'", "(B, S2, N2, Dv) with input_layout 'BSND'"},
    {4, 0, 2, 1, 3, "(B, N1, S1, D) with input_layout 'BNSD'",
     "(B, N2, S2, D) with input_layout 'BNSD'", "(B, N2, S2, Dv) with input_layout 'BNSD'"},
    {3, kNoAxis, 0, 1, 2, "(T1, N1, D) with input_layout 'TND'",
     "(T2, N2, D) with input_layout 'TND'", "(T2, N2, Dv) with input_layout 'TND'"},
};

const LayoutAxes& axes_of(InputLayout layout) { return kLayouts[static_cast<int>(layout)]; }

// H of one input as heads * size; `divisor` is the known one of the two.
int64_t split_hidden(const Context& c, size_t input, const LayoutAxes& axes, int64_t divisor,
                     const char* divisor_name) {
  const int64_t hidden = c.dim(input, axes.dim);
  if (hidden < 0 || divisor < 0) return kUnknownDim;
  if (hidden % divisor != 0) {
    c.fail_value(c.name(input),
                 std::string("of a hidden size H divisible by ") + divisor_name + " = " +
                     std::to_string(divisor),
                 "H = " + std::to_string(hidden));
  }
  return hidden / divisor;
}

void fill_heads(const Context& c, const FlashInputs& in, const LayoutAxes& axes, FlashDims& dims) {
  if (axes.head == kNoAxis) {
    dims.d = split_hidden(c, in.query, axes, dims.n1, "head_num");
    dims.n2 = split_hidden(c, in.key, axes, dims.d, "D");
    dims.dv = split_hidden(c, in.value, axes, dims.n2, "N2");
    return;
  }
  const int64_t heads = c.dim(in.query, axes.head);
  if (heads >= 0 && heads != dims.n1) {
    c.fail_value("head_num", "N1 of query (" + std::to_string(heads) + ")",
                 std::to_string(dims.n1));
  }
  dims.n2 = known_of(c.dim(in.key, axes.head), c.dim(in.value, axes.head));
  dims.d = known_of(c.dim(in.query, axes.dim), c.dim(in.key, axes.dim));
  dims.dv = c.dim(in.value, axes.dim);
}

void limit_dims(const Context& c, const FlashDims& dims) {
  c.limit(Quantity::kBatch, dims.batch);
  c.limit(Quantity::kQueryHeads, dims.n1);
  c.limit(Quantity::kHeadDim, dims.d);
  c.limit(Quantity::kValueDim, dims.dv);
  if (dims.layout != InputLayout::kTND) {
    c.limit(Quantity::kQueryLength, dims.s1);
    c.limit(Quantity::kKeyLength, dims.s2);
  }
}

}  // namespace

LayoutShape layout_shape(InputLayout layout, int64_t batch, int64_t length, int64_t heads,
                         int64_t dim) {
  const LayoutAxes& axes = axes_of(layout);
  LayoutShape shape{{}, axes.rank};
  if (axes.batch != kNoAxis) shape.sizes[axes.batch] = batch;
  shape.sizes[axes.seq] = length;
  if (axes.head != kNoAxis) {
    shape.sizes[axes.head] = heads;
    shape.sizes[axes.dim] = dim;
  } else {
    shape.sizes[axes.dim] = product({heads, dim});
  }
  return shape;
}

FlashDims check_flash_operands(const Context& c, const FlashInputs& in) {
  const FlashAttentionScoreAttrs& attrs = flash_attrs(c);
  FlashDims dims{};
  dims.layout = attrs.input_layout;
  const LayoutAxes& axes = axes_of(dims.layout);
  c.require_rank(in.query, axes.rank, axes.query);
  c.require_rank(in.key, axes.rank, axes.key);
  c.require_rank(in.value, axes.rank, axes.value);
  for (size_t input : {in.query, in.key, in.value}) {
    if (axes.head != kNoAxis)
      c.require_positive_dim(input, axes.head, input == in.query ? "N1" : "N2");
    c.require_positive_dim(input, axes.dim,
                           axes.head == kNoAxis ? "H"
                           : input == in.value  ? "Dv"
                                                : "D");
  }
  dims.n1 = attrs.head_num;
  fill_heads(c, in, axes, dims);
  dims.s1 = c.dim(in.query, axes.seq);
  dims.s2 = known_of(c.dim(in.key, axes.seq), c.dim(in.value, axes.seq));
  dims.batch = kUnknownDim;
  if (axes.batch != kNoAxis) {
    dims.batch = known_of(c.dim(in.query, axes.batch),
                          known_of(c.dim(in.key, axes.batch), c.dim(in.value, axes.batch)));
  } else {
    dims.batch = known_of(c.list_length(in.seq_q), c.list_length(in.seq_kv));
  }
  const auto require = [&](size_t input, const char* names, int64_t length, int64_t heads,
                           int64_t dim) {
    const LayoutShape expected = layout_shape(dims.layout, dims.batch, length, heads, dim);
    c.require_shape(input, names, expected.sizes.data(), expected.rank);
  };
  require(in.query, axes.query, dims.s1, dims.n1, dims.d);
  require(in.key, axes.key, dims.s2, dims.n2, dims.d);
  require(in.value, axes.value, dims.s2, dims.n2, dims.dv);
  require_groups(c, dims.n1, dims.n2);
  limit_dims(c, dims);
  return dims;
}

void check_flash_lists(const Context& c, const FlashInputs& in, const FlashDims& dims,
                       CompressedKind compressed) {
  const bool packed = dims.layout == InputLayout::kTND;
  for (size_t list : {in.seq_q, in.seq_kv}) {
    if (packed != c.has(list)) {
      c.fail_value(c.name(list),
                   packed ? "given with input_layout 'TND'" : "None without input_layout 'TND'",
                   packed ? "None" : std::string("a list with '") + name_of(dims.layout) + "'");
    }
  }
  if (!packed) return;
  c.require_same_length(in.seq_kv, in.seq_q);
  c.require_prefix_sums(in.seq_q, "T1", dims.s1, ListEnd::kExact);
  c.require_prefix_sums(in.seq_kv, "T2", dims.s2,
                        compressed.on ? ListEnd::kAtMost : ListEnd::kExact);
}

}  // namespace nsa
