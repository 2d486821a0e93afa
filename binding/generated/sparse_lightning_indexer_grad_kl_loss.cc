// How the CPU's kernels of SparseLightningIndexerGradKLLoss are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "binding/op_call.h"
#include "cpu/lightning_indexer/params.h"
#include "infer/lightning_indexer_kl_loss.h"

namespace nsa {

namespace {

void fill_sparse_lightning_indexer_grad_kl_loss(const CheckedCall& call,
                                                cpu::IndexerKLLossParams& p) {
  constexpr const SparseLightningIndexerGradKLLossInputs& in =
      kSparseLightningIndexerGradKLLossInputs;
  constexpr const IndexerKLLossOutputs& out = kIndexerKLLossOutputs;
  const auto& attrs = call.attrs<IndexerKLLossAttrs>();
  static_cast<IndexerKLLossAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.query_rope = call.data(in.query_rope);
  p.key_rope = call.data(in.key_rope);
  p.query_index = call.data(in.query_index);
  p.key_index = call.data(in.key_index);
  p.weights = call.as<float>(in.weights);
  p.sparse_indices = call.as<int32_t>(in.sparse_indices);
  p.softmax_max = call.as<float>(in.softmax_max);
  p.softmax_sum = call.as<float>(in.softmax_sum);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_k = call.list(in.actual_seq_klen);
  p.dq = call.out(out.d_query_index);
  p.dk = call.out(out.d_key_index);
  p.dweights = call.out_as<float>(out.d_weights);
  p.loss = call.out_as<float>(out.loss);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.packed = call.in(in.query_index).shape.size() == 3;
  p.rows = call.rows(in.query_index, 2);
  p.keys = call.rows(in.key_index, 2);
  p.B = call.in(in.query_index).shape.size() == 3 ? call.list_length(in.actual_seq_qlen)
                                                  : call.dim(in.query_index, 0);
  p.Sq = call.in(in.query_index).shape.size() == 3 ? 0 : call.dim(in.query_index, 1);
  p.Sk = call.in(in.key_index).shape.size() == 3 ? 0 : call.dim(in.key_index, 1);
  p.N = call.dim_from_end(in.query, 2);
  p.N2 = call.dim_from_end(in.key, 2);
  p.D = call.dim_from_end(in.query, 1);
  p.R = call.has(in.key_rope) ? call.dim_from_end(in.key_rope, 1) : 0;
  p.H = call.dim_from_end(in.query_index, 2);
  p.groups = call.dim_from_end(in.key_index, 2);
  p.d = call.dim_from_end(in.query_index, 1);
  p.count = call.dim_from_end(in.sparse_indices, 1);
}

void run_sparse_lightning_indexer_grad_kl_loss(const CheckedCall& call) {
  cpu::IndexerKLLossParams p{};
  fill_sparse_lightning_indexer_grad_kl_loss(call, p);
  cpu::sparse_indexer_kl_loss(p);
}

int64_t work_of_sparse_lightning_indexer_grad_kl_loss(const CheckedCall& call) {
  constexpr const SparseLightningIndexerGradKLLossInputs& in =
      kSparseLightningIndexerGradKLLossInputs;
  return product({elements(call, in.query), call.dim_from_end(in.sparse_indices, 1)}) +
         product({elements(call, in.query_index), call.dim_from_end(in.sparse_indices, 1)});
}

uint32_t float32_inputs_of_sparse_lightning_indexer_grad_kl_loss(const BoundAttrs&) {
  constexpr const SparseLightningIndexerGradKLLossInputs& in =
      kSparseLightningIndexerGradKLLossInputs;
  return input_bit(in.weights) | input_bit(in.softmax_max) | input_bit(in.softmax_sum);
}

}  // namespace

const CpuKernelEntry sparse_lightning_indexer_grad_kl_loss_entry{
    run_sparse_lightning_indexer_grad_kl_loss, work_of_sparse_lightning_indexer_grad_kl_loss,
    float32_inputs_of_sparse_lightning_indexer_grad_kl_loss};

}  // namespace nsa
