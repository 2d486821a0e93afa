// How the CPU's kernels of LightningIndexer and LightningIndexerGrad are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/lightning_indexer.h"

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/lightning_indexer/params.h"

namespace nsa {

namespace {

int64_t work_of_lightning_indexer(const CheckedCall& call) {
  constexpr const LightningIndexerInputs& in = kLightningIndexerInputs;
  return product({elements(call, in.query), call.rows(in.key, 1)});
}

uint32_t float32_inputs_of_lightning_indexer(const BoundAttrs&) {
  constexpr const LightningIndexerInputs& in = kLightningIndexerInputs;
  return input_bit(in.weights);
}

void fill_lightning_indexer_grad(const CheckedCall& call, cpu::LightningIndexerGradParams& p) {
  constexpr const LightningIndexerGradInputs& in = kLightningIndexerGradInputs;
  constexpr const LightningIndexerGradOutputs& out = kLightningIndexerGradOutputs;
  p.sparse_count = call.dim_from_end(in.sparse_indices, 1);
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.weights = call.as<float>(in.weights);
  p.seq_q = call.list(in.actual_seq_lengths_query);
  p.seq_k = call.list(in.actual_seq_lengths_key);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.packed = call.in(in.query).shape.size() == 3;
  p.rows = call.rows(in.query, 2);
  p.keys = call.rows(in.key, 2);
  p.B = call.in(in.query).shape.size() == 3 ? call.list_length(in.actual_seq_lengths_query)
                                            : call.dim(in.query, 0);
  p.Sq = call.in(in.query).shape.size() == 3 ? 0 : call.dim(in.query, 1);
  p.Sk = call.in(in.key).shape.size() == 3 ? 0 : call.dim(in.key, 1);
  p.H = call.dim_from_end(in.query, 2);
  p.N2 = call.dim_from_end(in.key, 2);
  p.D = call.dim_from_end(in.query, 1);
  p.indices = call.as<int32_t>(in.sparse_indices);
  p.dy = call.data(in.sparse_values_grad);
  p.dq = call.out(out.dq);
  p.dk = call.out(out.dk);
  p.dweights = call.out_as<float>(out.dweights);
}

void run_lightning_indexer_grad(const CheckedCall& call) {
  cpu::LightningIndexerGradParams p{};
  fill_lightning_indexer_grad(call, p);
  cpu::lightning_indexer_grad(p);
}

int64_t work_of_lightning_indexer_grad(const CheckedCall& call) {
  constexpr const LightningIndexerGradInputs& in = kLightningIndexerGradInputs;
  return product({elements(call, in.query), call.dim_from_end(in.sparse_indices, 1)});
}

uint32_t float32_inputs_of_lightning_indexer_grad(const BoundAttrs&) {
  constexpr const LightningIndexerGradInputs& in = kLightningIndexerGradInputs;
  return input_bit(in.weights);
}

}  // namespace

void fill_lightning_indexer(const CheckedCall& call, cpu::LightningIndexerParams& p) {
  constexpr const LightningIndexerInputs& in = kLightningIndexerInputs;
  constexpr const LightningIndexerOutputs& out = kLightningIndexerOutputs;
  const auto& attrs = call.attrs<LightningIndexerAttrs>();
  static_cast<LightningIndexerAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.weights = call.as<float>(in.weights);
  p.seq_q = call.list(in.actual_seq_lengths_query);
  p.seq_k = call.list(in.actual_seq_lengths_key);
  p.residual = call.list(in.compress_residual);
  p.block_table = call.as<int32_t>(in.block_table);
  p.sparse_indices = call.out_as<int32_t>(out.sparse_indices);
  p.sparse_values = attrs.return_value ? call.out(out.sparse_values) : nullptr;
  p.dtype = elem_type(call.in(in.query).dtype);
  p.packed = call.in(in.query).shape.size() == 3;
  p.rows = call.rows(in.query, 2);
  p.keys = call.rows(in.key, 2);
  p.B = call.in(in.query).shape.size() == 3 ? call.list_length(in.actual_seq_lengths_query)
                                            : call.dim(in.query, 0);
  p.Sq = call.in(in.query).shape.size() == 3 ? 0 : call.dim(in.query, 1);
  p.Sk = call.in(in.key).shape.size() == 3 ? 0 : call.dim(in.key, 1);
  p.H = call.dim_from_end(in.query, 2);
  p.N2 = call.dim_from_end(in.key, 2);
  p.D = call.dim_from_end(in.query, 1);
  p.places = call.has(in.block_table) ? call.dim(in.block_table, 1) : 0;
  p.page = call.has(in.block_table) ? call.dim(in.key, 1) : 0;
}

const CpuKernelEntry lightning_indexer_entry{run_lightning_indexer, work_of_lightning_indexer,
                                             float32_inputs_of_lightning_indexer};
const CpuKernelEntry lightning_indexer_grad_entry{run_lightning_indexer_grad,
                                                  work_of_lightning_indexer_grad,
                                                  float32_inputs_of_lightning_indexer_grad};

}  // namespace nsa
