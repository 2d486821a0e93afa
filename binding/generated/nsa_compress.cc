// How the CPU's kernels of NsaCompress and NsaCompressGrad are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/nsa_compress.h"

#include "binding/op_call.h"
#include "cpu/nsa_compress/params.h"

namespace nsa {

namespace {

void fill_nsa_compress(const CheckedCall& call, cpu::NsaCompressParams& p) {
  constexpr const NsaCompressInputs& in = kNsaCompressInputs;
  constexpr const NsaCompressOutputs& out = kNsaCompressOutputs;
  const auto& attrs = call.attrs<NsaCompressAttrs>();
  static_cast<NsaCompressGradAttrs&>(p) = attrs;
  p.input = call.data(in.input);
  p.weight = call.data(in.weight);
  p.output = call.out(out.output);
  p.seq_len = call.list(in.actual_seq_len);
  p.dtype = elem_type(call.in(in.input).dtype);
  p.T = call.dim(in.input, 0);
  p.N = call.dim(in.input, 1);
  p.D = call.dim(in.input, 2);
  p.B = call.list_length(in.actual_seq_len);
  p.rows = call.outputs[out.output].shape[0];
}

void run_nsa_compress(const CheckedCall& call) {
  cpu::NsaCompressParams p{};
  fill_nsa_compress(call, p);
  cpu::nsa_compress(p);
}

int64_t work_of_nsa_compress(const CheckedCall& call) {
  constexpr const NsaCompressInputs& in = kNsaCompressInputs;
  const auto& attrs = call.attrs<NsaCompressAttrs>();
  return product(
      {elements(call, in.input), ceil_div(attrs.compress_block_size, attrs.compress_stride)});
}

void fill_nsa_compress_grad(const CheckedCall& call, cpu::NsaCompressGradParams& p) {
  constexpr const NsaCompressGradInputs& in = kNsaCompressGradInputs;
  constexpr const NsaCompressGradOutputs& out = kNsaCompressGradOutputs;
  const auto& attrs = call.attrs<NsaCompressGradAttrs>();
  static_cast<NsaCompressGradAttrs&>(p) = attrs;
  p.input = call.data(in.input);
  p.weight = call.data(in.weight);
  p.seq_len = call.list(in.actual_seq_len);
  p.dtype = elem_type(call.in(in.input).dtype);
  p.T = call.dim(in.input, 0);
  p.N = call.dim(in.output_grad, 1);
  p.D = call.dim(in.output_grad, 2);
  p.B = call.list_length(in.actual_seq_len);
  p.rows = call.dim(in.output_grad, 0);
  p.output_grad = call.data(in.output_grad);
  p.input_grad = call.out(out.input_grad);
  p.weight_grad = call.out(out.weight_grad);
}

void run_nsa_compress_grad(const CheckedCall& call) {
  cpu::NsaCompressGradParams p{};
  fill_nsa_compress_grad(call, p);
  cpu::nsa_compress_grad(p);
}

int64_t work_of_nsa_compress_grad(const CheckedCall& call) {
  constexpr const NsaCompressGradInputs& in = kNsaCompressGradInputs;
  const auto& attrs = call.attrs<NsaCompressGradAttrs>();
  return product(
      {elements(call, in.input), ceil_div(attrs.compress_block_size, attrs.compress_stride)});
}

}  // namespace

const CpuKernelEntry nsa_compress_entry{run_nsa_compress, work_of_nsa_compress};
const CpuKernelEntry nsa_compress_grad_entry{run_nsa_compress_grad, work_of_nsa_compress_grad};

}  // namespace nsa
