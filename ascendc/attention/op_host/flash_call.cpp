#include "ascendc/attention/op_host/flash_call.h"

#include <functional>
#include <numeric>

namespace nsa::ascend {

FlashCall flash_call(const DescribedCall& call, const char* op, const FlashInputs& in) {
  const std::vector<TensorDesc>& inputs = call.inputs();
  const auto shape = [&](size_t input) {
    return inputs[input].present ? inputs[input].shape : std::vector<int64_t>{};
  };
  const BoundAttrs bound(schema(op), call.attrs);
  const Context context(bound, inputs, Target::kAscend);
  const FlashAttentionScoreAttrs& attrs = flash_attrs(context);
  FlashCall flash;
  flash.dims = check_flash_operands(context, in);
  flash.element_bytes = static_cast<int32_t>(dtype_size(inputs[in.query].dtype));
  flash.query_ends = call.values("actual_seq_qlen");
  flash.key_ends = call.values("actual_seq_kvlen");
  flash.mask_shape = shape(in.attn_mask);
  flash.pse_shape = shape(in.real_shift);
  const std::vector<int64_t> drop = shape(in.drop_mask);
  if (!drop.empty())
    flash.drop_bytes = std::accumulate(drop.begin(), drop.end(), int64_t{1}, std::multiplies<>());
  flash.sparse_mode = attrs.sparse_mode;
  // The other modes do not read it.
  if (flash.sparse_mode == 5 || flash.sparse_mode == 6) flash.prefix = call.values("prefix");
  flash.pre_tokens = attrs.pre_tokens;
  flash.next_tokens = attrs.next_tokens;
  flash.pse_type = attrs.pse_type;
  flash.q_start = call.values("q_start_idx");
  flash.kv_start = call.values("kv_start_idx");
  flash.scale = attrs.scalar_value;
  flash.keep_prob = static_cast<float>(attrs.keep_prob);
  flash.sink = inputs[in.sink].present;
  return flash;
}

}  // namespace nsa::ascend
