// Rules of NsaDropoutMask.
#include "infer/check.h"

namespace nsa {

namespace {

enum Input : size_t { kSeed };

std::vector<OutputDesc> infer_mask(const Context& c) {
  c.require_dtype(kSeed, dtype_set(DType::kInt64));
  c.require_shape(kSeed, "(1,)", {1});
  c.require_keep_prob();
  c.require_int("numel", 0);
  return {{DType::kUint8, {ceil_div(c.int_attr("numel"), 8)}}};
}

}  // namespace

const OpRules& nsa_dropout_mask_rules() {
  static const OpRules rules{
      {OpId::kNsaDropoutMask,
       "NsaDropoutMask",
       "dropout_mask",
       {{"seed"}},
       {{"keep_prob", AttrType::kFloat, true, {}}, {"numel", AttrType::kInt, true, {}}},
       {"mask"}},
      infer_mask};
  return rules;
}

}  // namespace nsa
