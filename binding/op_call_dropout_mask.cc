#include "binding/op_call.h"
#include "cpu/params.h"

namespace nsa {

void call_dropout_mask(const CheckedCall& call) {
  cpu::DropoutMaskParams p{};
  p.seed = static_cast<uint64_t>(*call.as<int64_t>(0));
  p.numel = call.context.int_attr("numel");
  p.keep_prob = static_cast<float>(call.context.float_attr("keep_prob"));
  p.mask = call.out_as<uint8_t>(0);
  cpu::dropout_mask(p);
}

}  // namespace nsa
