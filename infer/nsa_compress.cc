// Rules of NsaCompress and NsaCompressGrad.
#include "infer/nsa_compress.h"

#include "infer/check.h"

namespace nsa {

namespace {

void check_windows(const Context& c, const NsaCompressGradAttrs& attrs) {
  const int64_t l = attrs.compress_block_size, s = attrs.compress_stride;
  check_window(c.function(), l, s);
  c.limit(Quantity::kCompressBlockSize, l);
  c.limit(Quantity::kCompressStride, s);
}

struct CompressDims {
  int64_t t, n, d;
};

constexpr const NsaCompressInputs& kIn = kNsaCompressInputs;
constexpr const NsaCompressGradInputs& kGrad = kNsaCompressGradInputs;

// input [T, N, D], weight [l, N] and the list: the same for the operator and its gradient.
CompressDims check_operands(const Context& c, const NsaCompressGradAttrs& attrs, size_t input,
                            size_t weight, size_t list) {
  c.require_rank(input, 3, "(T, N, D)");
  c.require_positive_dim(input, 1, "N");
  c.require_positive_dim(input, 2, "D");
  check_windows(c, attrs);
  const CompressDims dims{c.dim(input, 0), known_of(c.dim(input, 1), c.dim(weight, 1)),
                          c.dim(input, 2)};
  c.require_shape(weight, "(compress_block_size, N)", {attrs.compress_block_size, dims.n});
  c.limit(Quantity::kQueryHeads, dims.n);
  c.limit(Quantity::kHeadDim, dims.d);
  c.require_prefix_sums(list, "T", dims.t, ListEnd::kExact);
  return dims;
}

// Rows that the windows fill; -1 while the list is unknown.
int64_t needed_rows(const Context& c, const NsaCompressGradAttrs& attrs, size_t list) {
  const SeqList* values = c.values(list);
  if (values == nullptr) return kUnknownDim;
  return compressed_rows(*values, attrs.compress_block_size, attrs.compress_stride);
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const auto& attrs = c.attrs<NsaCompressAttrs>();
  const CompressDims dims = check_operands(c, attrs, kIn.input, kIn.weight, kIn.actual_seq_len);
  int64_t rows = attrs.num_windows;
  const int64_t needed = needed_rows(c, attrs, kIn.actual_seq_len);
  if (rows >= 0 && rows < needed) {
    c.fail_value("num_windows",
                 "at least " + std::to_string(needed) + ", the windows of actual_seq_len",
                 std::to_string(rows));
  }
  // T // s rows always suffice, because l >= s.
  if (rows < 0 && dims.t >= 0) rows = dims.t / attrs.compress_stride;
  return {{c.dtype(kIn.input), {rows, dims.n, dims.d}}};
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  const auto& attrs = c.attrs<NsaCompressGradAttrs>();
  const CompressDims dims =
      check_operands(c, attrs, kGrad.input, kGrad.weight, kGrad.actual_seq_len);
  c.require_shape(kGrad.output_grad, "(T', N, D)", {kUnknownDim, dims.n, dims.d});
  const int64_t rows = c.dim(kGrad.output_grad, 0);
  const int64_t needed = needed_rows(c, attrs, kGrad.actual_seq_len);
  if (rows >= 0 && rows < needed) {
    c.fail_value("output_grad",
                 "of at least " + std::to_string(needed) + " rows, the windows of actual_seq_len",
                 format_shape(c.in(kGrad.output_grad).shape));
  }
  const DType dtype = c.dtype(kGrad.input);
  return {{dtype, {dims.t, dims.n, known_of(dims.d, c.dim(kGrad.output_grad, 2))}},
          {dtype, {attrs.compress_block_size, dims.n}}};
}

}  // namespace

const OpRules& nsa_compress_rules() {
  static const OpRules rules{
      {OpId::kNsaCompress, kIn, attr_specs<NsaCompressAttrs>(), kNsaCompressOutputs},
      infer_forward};
  return rules;
}

const OpRules& nsa_compress_grad_rules() {
  static const OpRules rules{
      {OpId::kNsaCompressGrad, kGrad, attr_specs<NsaCompressGradAttrs>(), kNsaCompressGradOutputs},
      infer_backward};
  return rules;
}

}  // namespace nsa
