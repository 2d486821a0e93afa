#include "binding/op_call.h"
#include "cpu/params.h"
#include "infer/lightning_indexer_kl_loss.h"

namespace nsa {

namespace {

constexpr const SparseLightningIndexerGradKLLossInputs& kSparse =
    kSparseLightningIndexerGradKLLossInputs;
constexpr const IndexerKLLossOutputs& kOut = kIndexerKLLossOutputs;

// What both losses share.
template <class Positions>
void fill(const CheckedCall& call, const Positions& in, cpu::IndexerKLLossParams& p) {
  const Context& c = call.context;
  c.read_attrs<IndexerKLLossAttrs>(p);
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.query_rope = call.data(in.query_rope);
  p.key_rope = call.data(in.key_rope);
  p.query_index = call.data(in.query_index);
  p.key_index = call.data(in.key_index);
  p.weights = call.as<float>(in.weights);
  p.softmax_max = call.as<float>(in.softmax_max);
  p.softmax_sum = call.as<float>(in.softmax_sum);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_k = call.list(in.actual_seq_klen);
  p.dq = call.out(kOut.d_query_index);
  p.dk = call.out(kOut.d_key_index);
  p.dweights = call.out_as<float>(kOut.d_weights);
  p.loss = call.out_as<float>(kOut.loss);
  p.dtype = elem_type(call.inputs[in.query].dtype);
  p.packed = c.str_attr("layout") == "TND";
  const size_t heads = p.packed ? 1 : 2;
  p.B = p.packed ? call.list_length(in.actual_seq_qlen) : call.dim(in.query, 0);
  p.Sq = p.packed ? 0 : call.dim(in.query, 1);
  p.Sk = p.packed ? 0 : call.dim(in.key, 1);
  p.rows = p.packed ? call.dim(in.query, 0) : p.B * p.Sq;
  p.keys = p.packed ? call.dim(in.key, 0) : p.B * p.Sk;
  p.N = call.dim(in.query, heads);
  p.D = call.dim(in.query, heads + 1);
  p.N2 = call.dim(in.key, heads);
  p.R = call.has(in.key_rope) ? call.inputs[in.key_rope].shape.back() : 0;
  p.H = call.dim(in.query_index, heads);
  p.d = call.dim(in.query_index, heads + 1);
  p.groups = call.dim(in.key_index, heads);
}

void run_sparse(const CheckedCall& call) {
  cpu::IndexerKLLossParams p{};
  fill(call, kSparse, p);
  p.sparse_indices = call.as<int32_t>(kSparse.sparse_indices);
  p.count = call.inputs[kSparse.sparse_indices].shape.back();
  cpu::sparse_indexer_kl_loss(p);
}

int64_t sparse_work(const CheckedCall& call) {
  const int64_t count = call.inputs[kSparse.sparse_indices].shape.back();
  return product({elements(call, kSparse.query), count}) +
         product({elements(call, kSparse.query_index), count});
}

uint32_t sparse_float32(const Attrs&) {
  return input_bit(kSparse.weights) | input_bit(kSparse.softmax_max) |
         input_bit(kSparse.softmax_sum);
}

}  // namespace

const OpEntry sparse_lightning_indexer_grad_kl_loss_entry{run_sparse, sparse_work, sparse_float32};

}  // namespace nsa
