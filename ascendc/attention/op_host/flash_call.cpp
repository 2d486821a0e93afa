#include "ascendc/attention/op_host/flash_call.h"

#include <functional>
#include <numeric>

namespace nsa::ascend {

FlashCall flash_call(const DescribedCall& call, const char* op, const FlashInputs& in) {
  const std::vector<TensorDesc>& inputs = call.inputs();
  const auto shape = [&](size_t input) {
    return inputs[input].present ? inputs[input].shape : std::vector<int64_t>{};
  };
  const Attrs& attrs = call.attrs;
  FlashCall flash;
  flash.dims = check_flash_operands(Context(schema(op), inputs, attrs, Target::kAscend), in);
  flash.element_bytes = static_cast<int32_t>(dtype_size(inputs[in.query].dtype));
  flash.query_ends = call.values("actual_seq_qlen");
  flash.key_ends = call.values("actual_seq_kvlen");
  flash.mask_shape = shape(in.attn_mask);
  flash.pse_shape = shape(in.real_shift);
  const std::vector<int64_t> drop = shape(in.drop_mask);
  if (!drop.empty())
    flash.drop_bytes = std::accumulate(drop.begin(), drop.end(), int64_t{1}, std::multiplies<>());
  flash.sparse_mode = attrs.get_int("sparse_mode", 0);
  // The other modes do not read it.
  if (flash.sparse_mode == 5 || flash.sparse_mode == 6) flash.prefix = call.values("prefix");
  flash.pre_tokens = attrs.get_int("pre_tokens", 0);
  flash.next_tokens = attrs.get_int("next_tokens", 0);
  flash.pse_type = attrs.get_int("pse_type", 1);
  flash.q_start = call.values("q_start_idx");
  flash.kv_start = call.values("kv_start_idx");
  flash.scale = static_cast<float>(attrs.get_float("scalar_value", 1));
  flash.keep_prob = static_cast<float>(attrs.get_float("keep_prob", 1));
  flash.sink = inputs[in.sink].present;
  return flash;
}

}  // namespace nsa::ascend
