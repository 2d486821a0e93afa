// How the CPU's kernels of NsaDecode are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/nsa_decode.h"

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/nsa_decode/params.h"

namespace nsa {

namespace {

int64_t work_of_nsa_decode(const CheckedCall& call) {
  constexpr const NsaDecodeInputs& in = kNsaDecodeInputs;
  const auto& attrs = call.attrs<NsaDecodeAttrs>();
  return product({elements(call, in.query), attrs.select_block_size, attrs.select_block_count});
}

uint32_t float32_inputs_of_nsa_decode(const BoundAttrs&) {
  constexpr const NsaDecodeInputs& in = kNsaDecodeInputs;
  return input_bit(in.gates);
}

}  // namespace

void fill_nsa_decode(const CheckedCall& call, cpu::NsaDecodeParams& p) {
  constexpr const NsaDecodeInputs& in = kNsaDecodeInputs;
  constexpr const NsaDecodeOutputs& out = kNsaDecodeOutputs;
  const auto& attrs = call.attrs<NsaDecodeAttrs>();
  p.query = call.data(in.query);
  p.attention_out = call.out(out.attention_out);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.T = call.rows(in.query, 2);
  p.B = call.list_length(in.actual_seq_kvlen);
  p.N1 = call.dim_from_end(in.query, 2);
  p.D = call.dim_from_end(in.query, 1);
  p.scale = attrs.scale_value;
  p.gates = call.as<float>(in.gates);
  p.kv_len = call.list(in.actual_seq_kvlen);
  p.window_size = attrs.window_size;
  p.rule = attrs;
}

const CpuKernelEntry nsa_decode_entry{run_nsa_decode, work_of_nsa_decode,
                                      float32_inputs_of_nsa_decode, check_nsa_decode};

}  // namespace nsa
