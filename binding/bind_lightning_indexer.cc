#include <algorithm>

#include "binding/op_call.h"
#include "cpu/lightning_indexer/params.h"
#include "infer/lightning_indexer.h"

namespace nsa {

namespace {

constexpr const LightningIndexerInputs& kIn = kLightningIndexerInputs;
constexpr const LightningIndexerOutputs& kOut = kLightningIndexerOutputs;
constexpr const LightningIndexerGradInputs& kGrad = kLightningIndexerGradInputs;
constexpr const LightningIndexerGradOutputs& kGradOut = kLightningIndexerGradOutputs;

// Fills the parameters that forward and gradient share.
template <class Positions>
void fill(const CheckedCall& call, const Positions& in, bool packed, bool packed_keys,
          cpu::LightningIndexerParams& p) {
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.weights = call.as<float>(in.weights);
  p.seq_q = call.list(in.actual_seq_lengths_query);
  p.seq_k = call.list(in.actual_seq_lengths_key);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.packed = packed;
  const size_t heads = p.packed ? 1 : 2;
  p.B = p.packed ? call.list_length(in.actual_seq_lengths_query) : call.dim(in.query, 0);
  p.Sq = p.packed ? 0 : call.dim(in.query, 1);
  p.rows = p.packed ? call.dim(in.query, 0) : p.B * p.Sq;
  p.H = call.dim(in.query, heads);
  p.D = call.dim(in.query, heads + 1);
  p.N2 = call.dim(in.key, packed_keys ? 1 : 2);
  p.Sk = packed_keys ? 0 : call.dim(in.key, 1);
  p.keys = call.dim(in.key, 0) * (packed_keys ? 1 : p.Sk);
}

// The contents of a table are seen here for the first time.
void check_pages(const CheckedCall& call, const cpu::LightningIndexerParams& p, int64_t pages) {
  for (int64_t b = 0; b < p.B; ++b) {
    for (int64_t i = 0; i < ceil_div(p.seq_k[b], p.page); ++i) {
      const int32_t page = p.block_table[b * p.places + i];
      if (page >= 0 && page < pages) continue;
      call.context.fail_value(
          "block_table", "of pages in [0, " + std::to_string(pages) + ")",
          std::to_string(page) + " at place " + std::to_string(i) + " of row " + std::to_string(b));
    }
  }
}

void run_forward(const CheckedCall& call) {
  cpu::LightningIndexerParams p{};
  call.set_attrs<LightningIndexerAttrs>(p);
  fill(call, kIn, p.layout_query == TokenLayout::kTND, p.layout_key == KeyLayout::kTND, p);
  p.residual = call.list(kIn.compress_residual);
  if (call.has(kIn.block_table)) {
    p.block_table = call.as<int32_t>(kIn.block_table);
    p.places = call.dim(kIn.block_table, 1);
    p.page = call.dim(kIn.key, 1);
    check_pages(call, p, call.dim(kIn.key, 0));
  }
  p.sparse_indices = call.out_as<int32_t>(kOut.sparse_indices);
  p.sparse_values = p.return_value ? call.out(kOut.sparse_values) : nullptr;
  cpu::lightning_indexer(p);
}

int64_t forward_work(const CheckedCall& call) {
  const int64_t keys =
      elements(call, kIn.key) / std::max<int64_t>(1, call.in(kIn.key).shape.back());
  return product({elements(call, kIn.query), keys});
}

void run_backward(const CheckedCall& call) {
  cpu::LightningIndexerGradParams p{};
  const auto& attrs = call.attrs<LightningIndexerGradAttrs>();
  fill(call, kGrad, attrs.layout_query == TokenLayout::kTND, attrs.layout_key == TokenLayout::kTND,
       p);
  p.sparse_count = call.in(kGrad.sparse_indices).shape.back();
  p.indices = call.as<int32_t>(kGrad.sparse_indices);
  p.dy = call.data(kGrad.sparse_values_grad);
  p.dq = call.out(kGradOut.dq);
  p.dk = call.out(kGradOut.dk);
  p.dweights = call.out_as<float>(kGradOut.dweights);
  cpu::lightning_indexer_grad(p);
}

int64_t backward_work(const CheckedCall& call) {
  return product({elements(call, kGrad.query), call.in(kGrad.sparse_indices).shape.back()});
}

uint32_t forward_float32(const BoundAttrs&) { return input_bit(kIn.weights); }
uint32_t backward_float32(const BoundAttrs&) { return input_bit(kGrad.weights); }

}  // namespace

const CpuKernelEntry lightning_indexer_entry{run_forward, forward_work, forward_float32};
const CpuKernelEntry lightning_indexer_grad_entry{run_backward, backward_work, backward_float32};

}  // namespace nsa
