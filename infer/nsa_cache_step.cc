// Rules of NsaCacheStep, which the cached layers call: their own code makes the sizes fit, so the
// rules only keep a wrong call from reading or writing where it should not.
#include "infer/nsa_cache_step.h"

#include "infer/attention.h"
#include "infer/check.h"

namespace nsa {

namespace {

constexpr const NsaCacheStepInputs& kIn = kNsaCacheStepInputs;

void check_sparse(const Context& c, int64_t batch, int64_t heads, int64_t d, int64_t dv) {
  const auto& attrs = c.attrs<NsaCacheStepAttrs>();
  const int64_t l = attrs.compress_block_size;
  limit_ranking(c, attrs);
  c.require_shape(kIn.gates, "(T, 3, N1)", {c.dim(kIn.query, 0), 3, c.dim(kIn.query, 1)});
  for (size_t input : {kIn.weight_k, kIn.weight_v})
    c.require_shape(input, "(compress_block_size, N2)", {l, heads});
  c.require_shape(kIn.position_k, "(compress_block_size, N2, D)", {l, heads, d});
  c.require_shape(kIn.position_v, "(compress_block_size, N2, Dv)", {l, heads, dv});
  const int64_t capacity = c.dim(kIn.selected, 2);
  const int64_t places = capacity < 0 ? kUnknownDim : CachePlaces(capacity, attrs).all();
  c.require_shape(kIn.others, "(B, N2, places, D + Dv)",
                  {batch, heads, places, c.dim(kIn.selected, 3)});
}

// A kernel on Ascend takes the angles, one on the CPU computes them.
void check_angles(const Context& c, int64_t d) {
  constexpr int64_t kAngleStep = 2048;
  const bool wanted = c.target() == Target::kAscend;
  for (size_t input : {kIn.angles, kIn.fine_angles}) {
    if (c.has(input) != wanted)
      c.fail_value(c.name(input), wanted ? "given on Ascend" : "None on a CPU",
                   wanted ? "None" : "a Tensor");
  }
  if (!wanted) return;
  const int64_t width = d < 0 ? kUnknownDim : 2 * d;
  c.require_shape(kIn.angles, "(positions / 2048, 2 D)", {kUnknownDim, width});
  c.require_shape(kIn.fine_angles, "(2048, 2 D)", {kAngleStep, width});
  const int64_t capacity = c.dim(kIn.selected, 2), coarse = c.dim(kIn.angles, 0);
  if (capacity > coarse * kAngleStep && coarse >= 0) {
    c.fail_value("cache",
                 "of a capacity of at most " + std::to_string(coarse * kAngleStep) +
                     " tokens on Ascend, for which there are rotary angles",
                 std::to_string(capacity));
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
  c.require_rank(kIn.query, 3, "(T, N1, D)");
  const bool sparse = c.has(kIn.gates);
  // On Ascend what is written cannot be absent, and dense attention has a placeholder for `others`.
  const bool placeholder = !sparse && c.target() == Target::kAscend;
  for (size_t input = kIn.gates; input <= kIn.others; ++input) {
    if (c.has(input) != (sparse || (placeholder && input == kIn.others)))
      c.fail_value(c.name(input), sparse ? "given with gates" : "None without gates",
                   sparse ? "None" : "a Tensor");
  }
  const int64_t tokens = c.dim(kIn.query, 0), d = c.dim(kIn.query, 2);
  c.require_rank(kIn.value, 3, "(T, sets * N2, Dv)");
  c.require_rank(kIn.selected, 4, "(B, N2, capacity, D + Dv)");
  c.require_rank(kIn.key, 3, "(T, sets * N2, D)");
  const int64_t batch = c.dim(kIn.selected, 0), all = c.dim(kIn.key, 1);
  const int64_t heads = all < 0 ? c.dim(kIn.selected, 1)
                                : all / (sparse && !c.attrs<NsaCacheStepAttrs>().shared_kv ? 3 : 1);
  const int64_t dv = c.dim(kIn.value, 2);
  c.require_shape(kIn.selected, "(B, N2, capacity, D + Dv)",
                  {batch, heads, kUnknownDim, d < 0 || dv < 0 ? kUnknownDim : d + dv});
  c.require_shape(kIn.key, "(T, sets * N2, D)", {tokens, all, d});
  c.require_shape(kIn.value, "(T, sets * N2, Dv)", {tokens, all, dv});
  constexpr int64_t kHeader = kCacheHeader;
  c.require_shape(kIn.state, "(B, header + 2)", {batch, kHeader + 2});
  if (sparse) check_sparse(c, batch, heads, d, dv);
  if (c.dim(kIn.query, 1) > 0 && heads > 0) c.limit(Quantity::kGroup, c.dim(kIn.query, 1) / heads);
  c.limit(Quantity::kHeadDim, d);
  c.limit(Quantity::kValueDim, dv);
  check_angles(c, d);
  check_counts(c, batch, tokens);
  return {{c.dtype(kIn.selected), {tokens, c.dim(kIn.query, 1), dv}}};
}

}  // namespace

const OpRules& nsa_cache_step_rules() {
  static const OpRules rules{
      {OpId::kNsaCacheStep, kIn, attr_specs<NsaCacheStepAttrs>(), kNsaCacheStepOutputs},
      infer_step};
  return rules;
}

}  // namespace nsa
