// Rules of NsaCacheStep, which the cached layers call: their own code makes the sizes fit, so the
// rules only keep a wrong call from reading or writing where it should not.
#include "infer/nsa_cache_step.h"

#include "infer/check.h"

namespace nsa {

namespace {

constexpr const NsaCacheStepInputs& kIn = kNsaCacheStepInputs;

void check_sparse(const Context& c, int64_t batch, int64_t heads, int64_t d, int64_t dv) {
  const int64_t l = c.int_attr("compress_block_size");
  c.require_shape(kIn.gates, "(T, 3, N1)", {c.dim(kIn.query, 0), 3, c.dim(kIn.query, 1)});
  for (size_t input : {kIn.weight_k, kIn.weight_v})
    c.require_shape(input, "(compress_block_size, N2)", {l, heads});
  c.require_shape(kIn.position_k, "(compress_block_size, N2, D)", {l, heads, d});
  c.require_shape(kIn.position_v, "(compress_block_size, N2, Dv)", {l, heads, dv});
  const size_t pairs[][2] = {
      {kIn.key_cmp, kIn.value_cmp}, {kIn.key_win, kIn.value_win}, {kIn.key_raw, kIn.value_raw}};
  for (const auto& [key, value] : pairs) {
    c.require_shape(key, "(B, N2, places, D)", {batch, heads, kUnknownDim, d});
    c.require_shape(value, "(B, N2, places, Dv)", {batch, heads, c.dim(key, 2), dv});
  }
}

// Where the values are not known yet, the kernel's caller checks them.
void check_counts(const Context& c, int64_t batch, int64_t tokens) {
  if (!c.has(kIn.actual_seq_len)) {
    if (batch > 0 && tokens >= 0 && tokens % batch != 0)
      c.fail_value("x",
                   "of the same number of tokens for each of " + std::to_string(batch) +
                       " rows of the cache",
                   std::to_string(tokens) + " tokens");
    return;
  }
  if (batch >= 0 && c.list_length(kIn.actual_seq_len) >= 0 &&
      c.list_length(kIn.actual_seq_len) != batch) {
    c.fail_value("actual_seq_len", "as long as the cache has rows (" + std::to_string(batch) + ")",
                 "length " + std::to_string(c.list_length(kIn.actual_seq_len)));
  }
  c.require_prefix_sums(kIn.actual_seq_len, "T", tokens, ListEnd::kExact);
}

std::vector<OutputDesc> infer_step(const Context& c) {
  c.require_finite("scale_value");
  c.require_finite("theta");
  c.require_choice("importance", {"cann", "overlap"});
  c.require_rank(kIn.query, 3, "(T, N1, D)");
  const bool sparse = c.has(kIn.gates);
  for (size_t input = kIn.gates; input <= kIn.value_raw; ++input) {
    if (c.has(input) != sparse)
      c.fail_value(c.name(input), sparse ? "given with gates" : "None without gates",
                   sparse ? "None" : "a Tensor");
  }
  const int64_t tokens = c.dim(kIn.query, 0), d = c.dim(kIn.query, 2);
  c.require_rank(kIn.key_slc, 4, "(B, N2, capacity, D)");
  const int64_t batch = c.dim(kIn.key_slc, 0), heads = c.dim(kIn.key_slc, 1);
  const int64_t dv = c.dim(kIn.value_slc, 3);
  const int64_t all = heads < 0 ? kUnknownDim : heads * (sparse ? 3 : 1);
  c.require_shape(kIn.key_slc, "(B, N2, capacity, D)", {batch, heads, kUnknownDim, d});
  c.require_shape(kIn.value_slc, "(B, N2, capacity, Dv)",
                  {batch, heads, c.dim(kIn.key_slc, 2), kUnknownDim});
  c.require_shape(kIn.key, "(T, sets * N2, D)", {tokens, all, d});
  c.require_shape(kIn.value, "(T, sets * N2, Dv)", {tokens, all, dv});
  for (size_t input : {kIn.lengths, kIn.written}) c.require_shape(input, "(B,)", {batch});
  if (sparse) check_sparse(c, batch, heads, d, dv);
  check_counts(c, batch, tokens);
  return {{c.dtype(kIn.key_slc), {tokens, c.dim(kIn.query, 1), dv}}};
}

}  // namespace

const OpRules& nsa_cache_step_rules() {
  static const OpRules rules{
      {OpId::kNsaCacheStep, kIn, attr_specs<NsaCacheStepAttrs>(), kNsaCacheStepOutputs},
      infer_step};
  return rules;
}

}  // namespace nsa
