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
void fill(const CheckedCall& call, const Positions& in, cpu::NsaCompressParams& p) {
  p.input = call.data(in.input);
  p.weight = call.data(in.weight);
  p.seq_len = call.list(in.actual_seq_len);
  p.dtype = elem_type(call.inputs[in.input].dtype);
  p.T = call.dim(in.input, 0);
  p.N = call.dim(in.input, 1);
  p.D = call.dim(in.input, 2);
  p.B = call.list_length(in.actual_seq_len);
  p.block_size = call.context.int_attr("compress_block_size");
  p.stride = call.context.int_attr("compress_stride");
}

void run(const CheckedCall& call) {
  cpu::NsaCompressParams p{};
  fill(call, kIn, p);
  p.output = call.out(kOut.output);
  p.rows = call.outputs[kOut.output].shape[0];
  cpu::nsa_compress(p);
}

void run_grad(const CheckedCall& call) {
  cpu::NsaCompressGradParams p{};
  fill(call, kGrad, p);
  p.output_grad = call.data(kGrad.output_grad);
  p.rows = call.dim(kGrad.output_grad, 0);
  p.input_grad = call.out(kGradOut.input_grad);
  p.weight_grad = call.out(kGradOut.weight_grad);
  cpu::nsa_compress_grad(p);
}

int64_t work_of(const CheckedCall& call, size_t input) {
  const Context& c = call.context;
  return product({elements(call, input),
                  ceil_div(c.int_attr("compress_block_size"), c.int_attr("compress_stride"))});
}

int64_t work(const CheckedCall& call) { return work_of(call, kIn.input); }
int64_t work_grad(const CheckedCall& call) { return work_of(call, kGrad.input); }

}  // namespace

const OpEntry nsa_compress_entry{run, work};
const OpEntry nsa_compress_grad_entry{run_grad, work_grad};

}  // namespace nsa
