#include "binding/op_call.h"
#include "cpu/block_indexer/params.h"
#include "infer/block_indexer.h"

namespace nsa {

namespace {

constexpr const BlockIndexerInputs& kIn = kBlockIndexerInputs;

void run_kernel(const CheckedCall& call) {
  cpu::BlockIndexerParams p{};
  call.set_attrs<BlockIndexerAttrs>(p);
  p.query = call.data(kIn.query);
  p.key = call.data(kIn.key);
  p.weights = call.as<float>(kIn.weights);
  p.seq_q = call.list(kIn.actual_seq_qlen);
  p.seq_kv = call.list(kIn.actual_seq_kvlen);
  p.q_offset = call.list(kIn.q_offset);
  p.B = call.list_length(kIn.actual_seq_qlen);
  p.dtype = elem_type(call.in(kIn.query).dtype);
  p.T1 = call.dim(kIn.query, 0);
  p.H = call.dim(kIn.query, 1);
  p.D = call.dim(kIn.query, 2);
  p.T2 = call.dim(kIn.key, 0);
  p.Nk = call.dim(kIn.key, 1);
  p.groups = p.head_groups > 0 ? p.head_groups : p.Nk;
  p.topk_indices = call.out_as<int32_t>(kBlockIndexerOutputs.topk_indices);
  cpu::block_indexer(p);
}

int64_t work(const CheckedCall& call) {
  return product({elements(call, kIn.query), call.dim(kIn.key, 0)});
}

uint32_t float32_inputs(const BoundAttrs&) { return input_bit(kIn.weights); }

}  // namespace

const CpuKernelEntry block_indexer_entry{run_kernel, work, float32_inputs};

}  // namespace nsa
