#include <algorithm>

#include "binding/op_call.h"
#include "cpu/lightning_indexer/params.h"
#include "infer/lightning_indexer_kl_loss.h"

namespace nsa {

namespace {

constexpr const SparseLightningIndexerGradKLLossInputs& kSparse =
    kSparseLightningIndexerGradKLLossInputs;
constexpr const DenseLightningIndexerGradKLLossInputs& kDense =
    kDenseLightningIndexerGradKLLossInputs;
constexpr const DenseLightningIndexerSoftmaxLseInputs& kLse =
    kDenseLightningIndexerSoftmaxLseInputs;
constexpr const DenseLightningIndexerSoftmaxLseOutputs& kLseOut =
    kDenseLightningIndexerSoftmaxLseOutputs;
constexpr const IndexerKLLossOutputs& kOut = kIndexerKLLossOutputs;

// Fills the parameters of the indexer.
template <class Positions>
void fill_indexer(const CheckedCall& call, const Positions& in, cpu::IndexerKLLossParams& p) {
  p.query_index = call.data(in.query_index);
  p.key_index = call.data(in.key_index);
  p.weights = call.as<float>(in.weights);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_k = call.list(in.actual_seq_klen);
  p.dtype = elem_type(call.in(in.query_index).dtype);
  p.packed = p.layout == TokenLayout::kTND;
  const size_t heads = p.packed ? 1 : 2;
  p.B = p.packed ? call.list_length(in.actual_seq_qlen) : call.dim(in.query_index, 0);
  p.Sq = p.packed ? 0 : call.dim(in.query_index, 1);
  p.Sk = p.packed ? 0 : call.dim(in.key_index, 1);
  p.rows = p.packed ? call.dim(in.query_index, 0) : p.B * p.Sq;
  p.keys = p.packed ? call.dim(in.key_index, 0) : p.B * p.Sk;
  p.H = call.dim(in.query_index, heads);
  p.d = call.dim(in.query_index, heads + 1);
  p.groups = call.dim(in.key_index, heads);
}

// Fills the parameters that both losses share.
template <class Positions>
void fill(const CheckedCall& call, const Positions& in, cpu::IndexerKLLossParams& p) {
  call.set_attrs<IndexerKLLossAttrs>(p);
  fill_indexer(call, in, p);
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.query_rope = call.data(in.query_rope);
  p.key_rope = call.data(in.key_rope);
  p.softmax_max = call.as<float>(in.softmax_max);
  p.softmax_sum = call.as<float>(in.softmax_sum);
  p.dq = call.out(kOut.d_query_index);
  p.dk = call.out(kOut.d_key_index);
  p.dweights = call.out_as<float>(kOut.d_weights);
  p.loss = call.out_as<float>(kOut.loss);
  const size_t heads = p.packed ? 1 : 2;
  p.N = call.dim(in.query, heads);
  p.D = call.dim(in.query, heads + 1);
  p.N2 = call.dim(in.key, heads);
  p.R = call.has(in.key_rope) ? call.in(in.key_rope).shape.back() : 0;
}

void run_sparse(const CheckedCall& call) {
  cpu::IndexerKLLossParams p{};
  fill(call, kSparse, p);
  p.sparse_indices = call.as<int32_t>(kSparse.sparse_indices);
  p.count = call.in(kSparse.sparse_indices).shape.back();
  cpu::sparse_indexer_kl_loss(p);
}

int64_t sparse_work(const CheckedCall& call) {
  const int64_t count = call.in(kSparse.sparse_indices).shape.back();
  return product({elements(call, kSparse.query), count}) +
         product({elements(call, kSparse.query_index), count});
}

uint32_t sparse_float32(const BoundAttrs&) {
  return input_bit(kSparse.weights) | input_bit(kSparse.softmax_max) |
         input_bit(kSparse.softmax_sum);
}

void run_dense(const CheckedCall& call) {
  cpu::IndexerKLLossParams p{};
  fill(call, kDense, p);
  p.softmax_max_index = const_cast<float*>(call.as<float>(kDense.softmax_max_index));
  p.softmax_sum_index = const_cast<float*>(call.as<float>(kDense.softmax_sum_index));
  cpu::dense_indexer_kl_loss(p);
}

void run_log_sum(const CheckedCall& call) {
  cpu::IndexerKLLossParams p{};
  call.set_attrs<DenseLightningIndexerSoftmaxLseAttrs>(p);
  fill_indexer(call, kLse, p);
  p.softmax_max_index = call.out_as<float>(kLseOut.softmax_max_index);
  p.softmax_sum_index = call.out_as<float>(kLseOut.softmax_sum_index);
  cpu::dense_indexer_softmax_lse(p);
}

// The number of keys, where each has one head.
int64_t keys_of(const CheckedCall& call, size_t key) {
  return elements(call, key) / std::max<int64_t>(1, call.in(key).shape.back());
}

int64_t dense_work(const CheckedCall& call) {
  return product({elements(call, kDense.query), keys_of(call, kDense.key)}) +
         product({elements(call, kDense.query_index), keys_of(call, kDense.key_index)});
}

int64_t log_sum_work(const CheckedCall& call) {
  return product({elements(call, kLse.query_index), keys_of(call, kLse.key_index)});
}

uint32_t dense_float32(const BoundAttrs&) {
  return input_bit(kDense.weights) | input_bit(kDense.softmax_max) | input_bit(kDense.softmax_sum) |
         input_bit(kDense.softmax_max_index) | input_bit(kDense.softmax_sum_index);
}

uint32_t log_sum_float32(const BoundAttrs&) { return input_bit(kLse.weights); }

}  // namespace

const CpuKernelEntry dense_lightning_indexer_softmax_lse_entry{run_log_sum, log_sum_work,
                                                               log_sum_float32};
const CpuKernelEntry dense_lightning_indexer_grad_kl_loss_entry{run_dense, dense_work,
                                                                dense_float32};
const CpuKernelEntry sparse_lightning_indexer_grad_kl_loss_entry{run_sparse, sparse_work,
                                                                 sparse_float32};

}  // namespace nsa
