#include "binding/op_call.h"
#include "cpu/params.h"

namespace nsa {

namespace {

void fill(const CheckedCall& call, size_t input, cpu::NsaCompressParams& p) {
  const size_t weight = input + 1, list = input + 2;
  p.input = call.data(input);
  p.weight = call.data(weight);
  p.seq_len = call.list(list);
  p.dtype = static_cast<cpu::ElemType>(call.inputs[input].dtype);
  p.T = call.dim(input, 0);
  p.N = call.dim(input, 1);
  p.D = call.dim(input, 2);
  p.B = call.list_length(list);
  p.block_size = call.context.int_attr("compress_block_size");
  p.stride = call.context.int_attr("compress_stride");
}

}  // namespace

void call_nsa_compress(const CheckedCall& call) {
  cpu::NsaCompressParams p{};
  fill(call, 0, p);
  p.output = call.out(0);
  p.rows = call.outputs[0].shape[0];
  cpu::nsa_compress(p);
}

void call_nsa_compress_grad(const CheckedCall& call) {
  cpu::NsaCompressGradParams p{};
  fill(call, 1, p);
  p.output_grad = call.data(0);
  p.rows = call.dim(0, 0);
  p.input_grad = call.out(0);
  p.weight_grad = call.out(1);
  cpu::nsa_compress_grad(p);
}

}  // namespace nsa
