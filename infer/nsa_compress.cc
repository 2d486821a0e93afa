// Rules of NsaCompress and NsaCompressGrad.
#include "infer/nsa_compress.h"

#include "infer/sizes.h"

namespace nsa {

namespace {

void check_windows(const Context& c, const NsaCompressGradAttrs& attrs) {
  const int64_t l = attrs.compress_block_size, s = attrs.compress_stride;
  check_window(c.function(), l, s);
  c.limit(Quantity::kCompressBlockSize, l);
  c.limit(Quantity::kCompressStride, s);
}

constexpr const NsaCompressInputs& kIn = kNsaCompressInputs;
constexpr const NsaCompressGradInputs& kGrad = kNsaCompressGradInputs;

struct TokenSizes {
  NSA_SIZES(T, N, D)
};

// The operator and its gradient share these inputs.
template <class Positions>
TokenSizes match_operands(const Context& c, const NsaCompressGradAttrs& attrs, const Positions& in,
                          Sizes& sizes) {
  sizes.match({in.input});
  check_windows(c, attrs);
  sizes.match({in.weight});
  const auto named = sizes.as<TokenSizes>(in);
  c.limit(Quantity::kQueryHeads, named.N);
  c.limit(Quantity::kHeadDim, named.D);
  c.require_prefix_sums(in.actual_seq_len, "T", named.T, ListEnd::kExact);
  return named;
}

// Rows that the windows fill; -1 while the list is unknown.
int64_t needed_rows(const Context& c, const NsaCompressGradAttrs& attrs, size_t list) {
  const SeqList* values = c.values(list);
  if (values == nullptr) return kUnknownDim;
  return compressed_rows(*values, attrs.compress_block_size, attrs.compress_stride);
}

std::vector<OutputDesc> infer_forward(const Context& c) {
  const auto& attrs = c.attrs<NsaCompressAttrs>();
  Sizes sizes(c);
  const TokenSizes named = match_operands(c, attrs, kIn, sizes);
  const int64_t rows = attrs.num_windows, needed = needed_rows(c, attrs, kIn.actual_seq_len);
  if (rows >= 0 && rows < needed) {
    c.fail_value("num_windows",
                 "at least " + std::to_string(needed) + ", the windows of actual_seq_len",
                 std::to_string(rows));
  }
  std::vector<OutputDesc> outputs = sizes.outputs();
  // T // s rows always suffice, because l >= s.
  if (rows < 0 && named.T >= 0)
    outputs[kNsaCompressOutputs.output].shape[0] = named.T / attrs.compress_stride;
  return outputs;
}

std::vector<OutputDesc> infer_backward(const Context& c) {
  const auto& attrs = c.attrs<NsaCompressGradAttrs>();
  Sizes sizes(c);
  match_operands(c, attrs, kGrad, sizes);
  sizes.match({kGrad.output_grad});
  const int64_t rows = c.dim(kGrad.output_grad, 0);
  const int64_t needed = needed_rows(c, attrs, kGrad.actual_seq_len);
  if (rows >= 0 && rows < needed) {
    c.fail_value("output_grad",
                 "of at least " + std::to_string(needed) + " rows, the windows of actual_seq_len",
                 format_shape(c.in(kGrad.output_grad).shape));
  }
  return sizes.outputs();
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
