// How the CPU's kernels of DenseLightningIndexerSoftmaxLse are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "binding/op_call.h"
#include "cpu/lightning_indexer/params.h"
#include "infer/lightning_indexer_kl_loss.h"

namespace nsa {

namespace {

void fill_dense_lightning_indexer_softmax_lse(const CheckedCall& call,
                                              cpu::IndexerKLLossParams& p) {
  constexpr const DenseLightningIndexerSoftmaxLseInputs& in =
      kDenseLightningIndexerSoftmaxLseInputs;
  constexpr const DenseLightningIndexerSoftmaxLseOutputs& out =
      kDenseLightningIndexerSoftmaxLseOutputs;
  const auto& attrs = call.attrs<DenseLightningIndexerSoftmaxLseAttrs>();
  static_cast<DenseLightningIndexerSoftmaxLseAttrs&>(p) = attrs;
  p.query_index = call.data(in.query_index);
  p.key_index = call.data(in.key_index);
  p.weights = call.as<float>(in.weights);
  p.softmax_max_index = call.out_as<float>(out.softmax_max_index);
  p.softmax_sum_index = call.out_as<float>(out.softmax_sum_index);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_k = call.list(in.actual_seq_klen);
  p.dtype = elem_type(call.in(in.query_index).dtype);
  p.packed = call.in(in.query_index).shape.size() == 3;
  p.rows = call.rows(in.query_index, 2);
  p.keys = call.rows(in.key_index, 2);
  p.B = call.in(in.query_index).shape.size() == 3 ? call.list_length(in.actual_seq_qlen)
                                                  : call.dim(in.query_index, 0);
  p.Sq = call.in(in.query_index).shape.size() == 3 ? 0 : call.dim(in.query_index, 1);
  p.Sk = call.in(in.key_index).shape.size() == 3 ? 0 : call.dim(in.key_index, 1);
  p.H = call.dim_from_end(in.query_index, 2);
  p.groups = call.dim_from_end(in.key_index, 2);
  p.d = call.dim_from_end(in.query_index, 1);
}

void run_dense_lightning_indexer_softmax_lse(const CheckedCall& call) {
  cpu::IndexerKLLossParams p{};
  fill_dense_lightning_indexer_softmax_lse(call, p);
  cpu::dense_indexer_softmax_lse(p);
}

int64_t work_of_dense_lightning_indexer_softmax_lse(const CheckedCall& call) {
  constexpr const DenseLightningIndexerSoftmaxLseInputs& in =
      kDenseLightningIndexerSoftmaxLseInputs;
  return product({elements(call, in.query_index), call.rows(in.key_index, 1)});
}

uint32_t float32_inputs_of_dense_lightning_indexer_softmax_lse(const BoundAttrs&) {
  constexpr const DenseLightningIndexerSoftmaxLseInputs& in =
      kDenseLightningIndexerSoftmaxLseInputs;
  return input_bit(in.weights);
}

}  // namespace

const CpuKernelEntry dense_lightning_indexer_softmax_lse_entry{
    run_dense_lightning_indexer_softmax_lse, work_of_dense_lightning_indexer_softmax_lse,
    float32_inputs_of_dense_lightning_indexer_softmax_lse};

}  // namespace nsa
