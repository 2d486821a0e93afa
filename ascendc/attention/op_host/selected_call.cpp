#include "ascendc/attention/op_host/selected_call.h"

namespace nsa::ascend {

SelectedCall selected_call(const DescribedCall& call) {
  const std::vector<int64_t>&query = call.input("query").shape, &key = call.input("key").shape;
  SelectedCall selected;
  selected.t1 = query[0];
  selected.n1 = query[1];
  selected.d = query[2];
  selected.t2 = key[0];
  selected.n2 = key[1];
  selected.dv = call.input("value").shape[2];
  selected.query_ends = call.values("actual_seq_qlen");
  selected.key_ends = call.values("actual_seq_kvlen");
  selected.query_offsets = call.values("q_offset");
  selected.block_size = call.int_attr("select_block_size");
  selected.block_count = call.int_attr("select_block_count");
  selected.causal = call.int_attr("causal") != 0;
  selected.scale = static_cast<float>(call.attrs.get_float("scale_value", 1));
  if (call.has_unread("atten_mask") && !selected.causal) {
    throw OpError(OpError::kValue,
                  "nsa_selected_attention: sparseMode must be 2 where attenMask is given, which "
                  "stands for a causal mask, got 0");
  }
  return selected;
}

}  // namespace nsa::ascend
