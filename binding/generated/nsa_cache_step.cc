// How the CPU's kernels of NsaCacheStep are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/nsa_cache_step.h"

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/nsa_decode/cache_step.h"

namespace nsa {

namespace {

int64_t work_of_nsa_cache_step(const CheckedCall& call) {
  constexpr const NsaCacheStepInputs& in = kNsaCacheStepInputs;
  const auto& attrs = call.attrs<NsaCacheStepAttrs>();
  return product({elements(call, in.query), attrs.select_block_size, attrs.select_block_count});
}

uint32_t float32_inputs_of_nsa_cache_step(const BoundAttrs&) {
  constexpr const NsaCacheStepInputs& in = kNsaCacheStepInputs;
  return input_bit(in.query) | input_bit(in.key) | input_bit(in.value) | input_bit(in.gates) |
         input_bit(in.weight_k) | input_bit(in.weight_v) | input_bit(in.position_k) |
         input_bit(in.position_v) | input_bit(in.angles) | input_bit(in.fine_angles);
}

}  // namespace

void fill_nsa_cache_step(const CheckedCall& call, cpu::NsaCacheStepParams& p) {
  constexpr const NsaCacheStepInputs& in = kNsaCacheStepInputs;
  constexpr const NsaCacheStepOutputs& out = kNsaCacheStepOutputs;
  const auto& attrs = call.attrs<NsaCacheStepAttrs>();
  p.query = call.as<float>(in.query);
  p.key = call.as<float>(in.key);
  p.value = call.as<float>(in.value);
  p.gates = call.as<float>(in.gates);
  p.weight_k = call.as<float>(in.weight_k);
  p.weight_v = call.as<float>(in.weight_v);
  p.position_k = call.as<float>(in.position_k);
  p.position_v = call.as<float>(in.position_v);
  p.attention_out = call.out(out.attention_out);
  p.dtype = elem_type(call.in(in.selected).dtype);
  p.T = call.dim(in.query, 0);
  p.B = call.dim(in.selected, 0);
  p.N1 = call.dim(in.query, 1);
  p.N2 = call.dim(in.selected, 1);
  p.D = call.dim(in.query, 2);
  p.Dv = call.dim(in.value, 2);
  p.window_size = attrs.window_size;
  p.rule = attrs;
  p.scale = attrs.scale_value;
  p.theta = attrs.theta;
  p.rope_factor = attrs.rope_factor;
  p.rope_low = attrs.rope_low;
  p.rope_high = attrs.rope_high;
  p.shared = attrs.shared_kv;
}

const CpuKernelEntry nsa_cache_step_entry{run_nsa_cache_step, work_of_nsa_cache_step,
                                          float32_inputs_of_nsa_cache_step, check_nsa_cache_step};

}  // namespace nsa
