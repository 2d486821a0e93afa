// The call of an operator that reads one cache, from what CANN describes.
#pragma once

#include "ascendc/common/op_host/described_call.h"
#include "ascendc/decoding/op_host/parts_plan.h"

namespace nsa::ascend {

// `lengths`: the input that has a number for every row. What the call says of keys and scores is
// left open.
inline PartsCall parts_call(const DescribedCall& call, const char* lengths) {
  const std::vector<int64_t>& query = call.input("query").shape;
  const std::vector<int64_t>& key = call.input("key").shape;
  const std::vector<int64_t>& value = call.input("value").shape;
  const TensorDesc& table = call.input("block_table");
  const int64_t heads = call.int_attr("key_value_head_num");
  PartsCall parts{};
  parts.pages = key[0];
  parts.page = key[1];
  parts.places = table.present ? table.shape[1] : 0;
  parts.batch = call.input(lengths).shape[0];
  parts.queries = query.size() == 3 ? query[0] : query[0] * query[1];
  parts.n1 = call.int_attr("head_num");
  parts.n2 = heads;
  parts.d = query.back();
  parts.dv = value.size() == 4 ? value[3] : value[2] / heads;
  parts.scale = static_cast<float>(call.attrs.get_float("scale_value", 1));
  return parts;
}

}  // namespace nsa::ascend
