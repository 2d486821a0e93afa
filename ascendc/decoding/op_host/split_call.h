// The call of an operator that reads one cache, from what CANN describes.
#pragma once

#include "ascendc/common/op_host/described_call.h"
#include "ascendc/decoding/op_host/split_plan.h"

namespace nsa::ascend {

// `lengths`: the input that has a number for every row. What the call says of keys and scores is
// left open.
inline SplitCall split_call(const DescribedCall& call, const char* lengths) {
  const std::vector<int64_t>& query = call.input("query").shape;
  const std::vector<int64_t>& key = call.input("key").shape;
  const std::vector<int64_t>& value = call.input("value").shape;
  const TensorDesc& table = call.input("block_table");
  const int64_t heads = call.int_attr("key_value_head_num");
  SplitCall splits{};
  splits.pages = key[0];
  splits.page = key[1];
  splits.places = table.present ? table.shape[1] : 0;
  splits.batch = call.input(lengths).shape[0];
  splits.queries = query.size() == 3 ? query[0] : query[0] * query[1];
  splits.n1 = call.int_attr("head_num");
  splits.n2 = heads;
  splits.d = query.back();
  splits.dv = value.size() == 4 ? value[3] : value[2] / heads;
  splits.scale = static_cast<float>(call.attrs.get_float("scale_value", 1));
  return splits;
}

}  // namespace nsa::ascend
