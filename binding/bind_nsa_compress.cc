#include "binding/op_call.h"
#include "cpu/nsa_compress/params.h"
#include "infer/nsa_compress.h"

namespace nsa {

namespace {

constexpr const NsaCompressInputs& kIn = kNsaCompressInputs;
constexpr const NsaCompressOutputs& kOut = kNsaCompressOutputs;
constexpr const NsaCompressGradInputs& kGrad = kNsaCompressGradInputs;
constexpr const NsaCompressGradOutputs& kGradOut = kNsaCompressGradOutputs;

template <class Positions>
void fill(const CheckedCall& call, const Positions& in, const NsaCompressGradAttrs& attrs,
          cpu::NsaCompressParams& p) {
  static_cast<NsaCompressGradAttrs&>(p) = attrs;
  p.input = call.data(in.input);
  p.weight = call.data(in.weight);
  p.seq_len = call.list(in.actual_seq_len);
  p.dtype = elem_type(call.in(in.input).dtype);
  p.T = call.dim(in.input, 0);
  p.N = call.dim(in.input, 1);
  p.D = call.dim(in.input, 2);
  p.B = call.list_length(in.actual_seq_len);
}

void run_kernel(const CheckedCall& call) {
  cpu::NsaCompressParams p{};
  fill(call, kIn, call.attrs<NsaCompressAttrs>(), p);
  p.output = call.out(kOut.output);
  p.rows = call.outputs[kOut.output].shape[0];
  cpu::nsa_compress(p);
}

void run_grad_kernel(const CheckedCall& call) {
  cpu::NsaCompressGradParams p{};
  fill(call, kGrad, call.attrs<NsaCompressGradAttrs>(), p);
  p.output_grad = call.data(kGrad.output_grad);
  p.rows = call.dim(kGrad.output_grad, 0);
  p.input_grad = call.out(kGradOut.input_grad);
  p.weight_grad = call.out(kGradOut.weight_grad);
  cpu::nsa_compress_grad(p);
}

int64_t work_of(const CheckedCall& call, size_t input, const NsaCompressGradAttrs& attrs) {
  return product(
      {elements(call, input), ceil_div(attrs.compress_block_size, attrs.compress_stride)});
}

int64_t work(const CheckedCall& call) {
  return work_of(call, kIn.input, call.attrs<NsaCompressAttrs>());
}
int64_t work_grad(const CheckedCall& call) {
  return work_of(call, kGrad.input, call.attrs<NsaCompressGradAttrs>());
}

}  // namespace

const CpuKernelEntry nsa_compress_entry{run_kernel, work};
const CpuKernelEntry nsa_compress_grad_entry{run_grad_kernel, work_grad};

}  // namespace nsa
