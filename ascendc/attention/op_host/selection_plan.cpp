#include "ascendc/attention/op_host/selection_plan.h"

namespace nsa::ascend {

FlashCall SelectedCall::attention() const {
  FlashCall call;
  call.dims = {InputLayout::kTND, static_cast<int64_t>(query_ends.size()), n2, n2, t1, t2, d, dv};
  call.query_ends = query_ends;
  call.key_ends = key_ends;
  call.query_offsets = query_offsets;
  call.sparse_mode = causal ? 2 : 1;
  call.scale = scale;
  call.most_keys = block_count * block_size;
  return call;
}

SelectionTiling SelectedCall::selection() const {
  const int64_t group = n1 / n2, columns = block_count * block_size;
  return {t1 * n2,
          n2,
          group,
          RoundUp(static_cast<int32_t>(group), 16),
          block_size,
          block_count,
          RoundUp(static_cast<int32_t>(columns), kRepeatFloats)};
}

}  // namespace nsa::ascend
