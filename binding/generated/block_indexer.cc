// How the CPU's kernels of BlockIndexer are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/block_indexer.h"

#include "binding/op_call.h"
#include "cpu/block_indexer/params.h"

namespace nsa {

namespace {

void fill_block_indexer(const CheckedCall& call, cpu::BlockIndexerParams& p) {
  constexpr const BlockIndexerInputs& in = kBlockIndexerInputs;
  constexpr const BlockIndexerOutputs& out = kBlockIndexerOutputs;
  const auto& attrs = call.attrs<BlockIndexerAttrs>();
  static_cast<BlockIndexerAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.weights = call.as<float>(in.weights);
  p.seq_q = call.list(in.actual_seq_qlen);
  p.seq_kv = call.list(in.actual_seq_kvlen);
  p.q_offset = call.list(in.q_offset);
  p.topk_indices = call.out_as<int32_t>(out.topk_indices);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.T1 = call.dim(in.query, 0);
  p.T2 = call.dim(in.key, 0);
  p.B = call.list_length(in.actual_seq_qlen);
  p.H = call.dim(in.query, 1);
  p.Nk = call.dim(in.key, 1);
  p.D = call.dim(in.query, 2);
  p.groups = call.outputs[out.topk_indices].shape[1];
}

void run_block_indexer(const CheckedCall& call) {
  cpu::BlockIndexerParams p{};
  fill_block_indexer(call, p);
  cpu::block_indexer(p);
}

int64_t work_of_block_indexer(const CheckedCall& call) {
  constexpr const BlockIndexerInputs& in = kBlockIndexerInputs;
  return product({elements(call, in.query), call.dim(in.key, 0)});
}

uint32_t float32_inputs_of_block_indexer(const BoundAttrs&) {
  constexpr const BlockIndexerInputs& in = kBlockIndexerInputs;
  return input_bit(in.weights);
}

}  // namespace

const CpuKernelEntry block_indexer_entry{run_block_indexer, work_of_block_indexer,
                                         float32_inputs_of_block_indexer};

}  // namespace nsa
