// Rules of NsaCacheStep, which the cached layers call: their own code makes the sizes fit, so the
// rules only keep a wrong call from reading or writing where it should not.
#include "infer/nsa_cache_step.h"

#include "infer/attention.h"

namespace nsa {

namespace {

constexpr const NsaCacheStepInputs& kIn = kNsaCacheStepInputs;

// -1 where unknown.
struct CacheStepSizes {
  NSA_SIZES(T, N1, D, Dv, B, N2, capacity)
};

constexpr size_t kHeads = kIn.shapes().at("N2"), kSetHeads = kIn.shapes().at("sets * N2"),
                 kWidth = kIn.shapes().at("D + Dv"), kPlaces = kIn.shapes().at("places"),
                 kHeader = kIn.shapes().at("header");

void check_sparse(const Context& c, int64_t capacity, Sizes& sizes) {
  const auto& attrs = c.attrs<NsaCacheStepAttrs>();
  limit_ranking(c, attrs);
  sizes.match({kIn.gates, kIn.weight_k, kIn.weight_v, kIn.position_k, kIn.position_v});
  if (capacity >= 0) sizes.set(kPlaces, CachePlaces(capacity, attrs).all());
  sizes.match({kIn.others});
}

// A kernel on Ascend takes the angles, one on the CPU computes them.
void check_angles(const Context& c, int64_t capacity, Sizes& sizes) {
  constexpr int64_t kAngleStep = 2048;
  const bool wanted = c.target() == Target::kAscend;
  for (size_t input : {kIn.angles, kIn.fine_angles}) {
    if (c.has(input) != wanted)
      c.fail_value(c.name(input), wanted ? "given on Ascend" : "None on a CPU",
                   wanted ? "None" : "a Tensor");
  }
  if (!wanted) return;
  sizes.match({kIn.angles, kIn.fine_angles});
  const int64_t coarse = c.dim(kIn.angles, 0);
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
  Sizes sizes(c);
  sizes.match_ranks({kIn.query});
  const bool sparse = c.has(kIn.gates);
  // On Ascend what is written cannot be absent, and dense attention has a placeholder for `others`.
  const bool placeholder = !sparse && c.target() == Target::kAscend;
  for (size_t input = kIn.gates; input <= kIn.others; ++input) {
    if (c.has(input) != (sparse || (placeholder && input == kIn.others)))
      c.fail_value(c.name(input), sparse ? "given with gates" : "None without gates",
                   sparse ? "None" : "a Tensor");
  }
  // The heads of the key are what the value is compared with.
  sizes.take({kIn.key});
  sizes.match_ranks({kIn.value, kIn.selected, kIn.key});
  const bool three_sets = sparse && !c.attrs<NsaCacheStepAttrs>().shared_kv;
  if (sizes[kSetHeads] >= 0) sizes.set(kHeads, sizes[kSetHeads] / (three_sets ? 3 : 1));
  const auto named = sizes.as<CacheStepSizes>(kIn);
  if (named.D >= 0 && named.Dv >= 0) sizes.set(kWidth, named.D + named.Dv);
  sizes.set(kHeader, kCacheHeader);
  sizes.match({kIn.selected, kIn.key, kIn.value, kIn.state});
  if (sparse) check_sparse(c, named.capacity, sizes);
  if (named.N1 > 0 && named.N2 > 0) c.limit(Quantity::kGroup, named.N1 / named.N2);
  c.limit(Quantity::kHeadDim, named.D);
  c.limit(Quantity::kValueDim, named.Dv);
  check_angles(c, named.capacity, sizes);
  check_counts(c, named.B, named.T);
  return sizes.outputs();
}

}  // namespace

const OpRules& nsa_cache_step_rules() {
  static const OpRules rules{
      {OpId::kNsaCacheStep, kIn, attr_specs<NsaCacheStepAttrs>(), kNsaCacheStepOutputs},
      infer_step};
  return rules;
}

}  // namespace nsa
