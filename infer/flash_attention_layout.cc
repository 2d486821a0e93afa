// Dimensions of FlashAttentionScore by layout, and its sequence lists.
#include "infer/attention.h"
#include "infer/flash_attention.h"

namespace nsa {

namespace {

constexpr const FlashAttentionScoreInputs& kIn = kFlashAttentionScoreInputs;
constexpr const FlashAttentionScoreGradInputs& kGrad = kFlashAttentionScoreGradInputs;

// -1 where unknown.
struct FlashSizes {
  NSA_SIZES(T1, N1, D, B, S1, T2, N2, S2, Dv)
};

// The place of a size in the shapes of both operators.
constexpr size_t place_of(std::string_view name) {
  if (kIn.shapes().at(name) != kGrad.shapes().at(name)) wrong_shape("the operators begin alike");
  return kIn.shapes().at(name);
}
constexpr size_t kHeads = place_of("N1"), kHeadDim = place_of("D"), kKeyHeads = place_of("N2"),
                 kValueDim = place_of("Dv");

bool has_head_axis(InputLayout layout) {
  return layout != InputLayout::kBSH && layout != InputLayout::kSBH;
}

// The last axis of all three layouts without heads.
constexpr size_t kHidden = 2;

// H of one input as heads * size; `divisor` is the known one of the two.
int64_t split_hidden(const Context& c, size_t input, int64_t divisor, const char* divisor_name) {
  const int64_t hidden = c.dim(input, kHidden);
  if (hidden < 0 || divisor < 0) return kUnknownDim;
  if (hidden % divisor != 0) {
    c.fail_value(c.name(input),
                 std::string("of a hidden size H divisible by ") + divisor_name + " = " +
                     std::to_string(divisor),
                 "H = " + std::to_string(hidden));
  }
  return hidden / divisor;
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

FlashDims match_flash_operands(const Context& c, const FlashInputs& in, Sizes& sizes) {
  const InputLayout layout = flash_attrs(c).input_layout;
  const bool packed = layout == InputLayout::kTND;
  sizes.set_form(packed ? 0 : 1 + static_cast<size_t>(layout));
  sizes.match_ranks({in.query, in.key, in.value});
  if (!has_head_axis(layout)) {
    for (size_t input : {in.query, in.key, in.value}) c.require_positive_dim(input, kHidden, "H");
    sizes.set(kHeadDim, split_hidden(c, in.query, sizes[kHeads], "head_num"));
    sizes.set(kKeyHeads, split_hidden(c, in.key, sizes[kHeadDim], "D"));
    sizes.set(kValueDim, split_hidden(c, in.value, sizes[kKeyHeads], "N2"));
  }
  sizes.match({in.query, in.key, in.value});
  const auto named = c.op() == OpId::kFlashAttentionScore ? sizes.as<FlashSizes>(kIn)
                                                          : sizes.as<FlashSizes>(kGrad);
  FlashDims dims{layout,
                 named.B,
                 named.N1,
                 named.N2,
                 packed ? named.T1 : named.S1,
                 packed ? named.T2 : named.S2,
                 named.D,
                 named.Dv};
  if (packed) dims.batch = known_of(c.list_length(in.seq_q), c.list_length(in.seq_kv));
  require_groups(c, dims.n1, dims.n2);
  limit_dims(c, dims);
  return dims;
}

FlashDims check_flash_operands(const Context& c, const FlashInputs& in) {
  Sizes sizes(c);
  return match_flash_operands(c, in, sizes);
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
