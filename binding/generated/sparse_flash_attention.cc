// How the CPU's kernels of SparseFlashAttention and SparseFlashAttentionGrad are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/sparse_flash_attention.h"

#include <algorithm>

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/sparse_flash_attention/params.h"

namespace nsa {

namespace {

int64_t work_of_sparse_flash_attention(const CheckedCall& call) {
  constexpr const SparseFlashAttentionInputs& in = kSparseFlashAttentionInputs;
  const auto& attrs = call.attrs<SparseFlashAttentionAttrs>();
  return product({elements(call, in.query), call.dim_from_end(in.sparse_indices, 1),
                  std::min(attrs.sparse_block_size, std::max<int64_t>(1, elements(call, in.key)))});
}

uint32_t float32_inputs_of_sparse_flash_attention(const BoundAttrs&) {
  constexpr const SparseFlashAttentionInputs& in = kSparseFlashAttentionInputs;
  return input_bit(in.sinks);
}

int64_t work_of_sparse_flash_attention_grad(const CheckedCall& call) {
  constexpr const SparseFlashAttentionGradInputs& in = kSparseFlashAttentionGradInputs;
  const auto& attrs = call.attrs<SparseFlashAttentionAttrs>();
  return product({elements(call, in.query), call.dim_from_end(in.sparse_indices, 1),
                  std::min(attrs.sparse_block_size, std::max<int64_t>(1, elements(call, in.key)))});
}

uint32_t float32_inputs_of_sparse_flash_attention_grad(const BoundAttrs&) {
  constexpr const SparseFlashAttentionGradInputs& in = kSparseFlashAttentionGradInputs;
  return input_bit(in.sinks) | input_bit(in.softmax_sum_grad);
}

}  // namespace

void fill_sparse_flash_attention(const CheckedCall& call, cpu::SparseFlashAttentionParams& p) {
  constexpr const SparseFlashAttentionInputs& in = kSparseFlashAttentionInputs;
  constexpr const SparseFlashAttentionOutputs& out = kSparseFlashAttentionOutputs;
  const auto& attrs = call.attrs<SparseFlashAttentionAttrs>();
  static_cast<SparseFlashAttentionAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.sparse_indices = call.as<int32_t>(in.sparse_indices);
  p.query_rope = call.data(in.query_rope);
  p.key_rope = call.data(in.key_rope);
  p.sinks = call.as<float>(in.sinks);
  p.seq_q = call.list(in.actual_seq_lengths_query);
  p.seq_k = call.list(in.actual_seq_lengths_kv);
  p.block_table = call.as<int32_t>(in.block_table);
  p.attention_out = call.out(out.attention_out);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.packed = call.in(in.query).shape.size() == 3;
  p.rows = call.rows(in.query, 2);
  p.keys = call.rows(in.key, 2);
  p.B = call.in(in.query).shape.size() == 3 ? call.list_length(in.actual_seq_lengths_query)
                                            : call.dim(in.query, 0);
  p.Sq = call.in(in.query).shape.size() == 3 ? 0 : call.dim(in.query, 1);
  p.Sk = call.in(in.key).shape.size() == 3 ? 0 : call.dim(in.key, 1);
  p.N = call.dim_from_end(in.query, 2);
  p.N2 = call.dim_from_end(in.key, 2);
  p.D = call.dim_from_end(in.query, 1);
  p.Dv = call.dim_from_end(in.value, 1);
  p.R = call.has(in.key_rope) ? call.dim_from_end(in.key_rope, 1) : 0;
  p.count = call.dim_from_end(in.sparse_indices, 1);
  p.places = call.has(in.block_table) ? call.dim(in.block_table, 1) : 0;
  p.page = call.has(in.block_table) ? call.dim(in.key, 1) : 0;
}

void fill_sparse_flash_attention_grad(const CheckedCall& call,
                                      cpu::SparseFlashAttentionGradParams& p) {
  constexpr const SparseFlashAttentionGradInputs& in = kSparseFlashAttentionGradInputs;
  constexpr const SparseFlashAttentionGradOutputs& out = kSparseFlashAttentionGradOutputs;
  const auto& attrs = call.attrs<SparseFlashAttentionAttrs>();
  static_cast<SparseFlashAttentionAttrs&>(p) = attrs;
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.sparse_indices = call.as<int32_t>(in.sparse_indices);
  p.query_rope = call.data(in.query_rope);
  p.key_rope = call.data(in.key_rope);
  p.sinks = call.as<float>(in.sinks);
  p.seq_q = call.list(in.actual_seq_lengths_query);
  p.seq_k = call.list(in.actual_seq_lengths_kv);
  p.attention_out = call.in(in.attention_out).data;
  p.dtype = elem_type(call.in(in.query).dtype);
  p.packed = call.in(in.query).shape.size() == 3;
  p.rows = call.rows(in.query, 2);
  p.keys = call.rows(in.key, 2);
  p.B = call.in(in.query).shape.size() == 3 ? call.list_length(in.actual_seq_lengths_query)
                                            : call.dim(in.query, 0);
  p.Sq = call.in(in.query).shape.size() == 3 ? 0 : call.dim(in.query, 1);
  p.Sk = call.in(in.key).shape.size() == 3 ? 0 : call.dim(in.key, 1);
  p.N = call.dim_from_end(in.query, 2);
  p.N2 = call.dim_from_end(in.key, 2);
  p.D = call.dim_from_end(in.query, 1);
  p.Dv = call.dim_from_end(in.value, 1);
  p.R = call.has(in.key_rope) ? call.dim_from_end(in.key_rope, 1) : 0;
  p.count = call.dim_from_end(in.sparse_indices, 1);
  p.attention_out_grad = call.data(in.attention_out_grad);
  p.softmax_sum_grad = call.as<float>(in.softmax_sum_grad);
  p.dq = call.out(out.dq);
  p.dk = call.out(out.dk);
  p.dv = call.out(out.dv);
}

const CpuKernelEntry sparse_flash_attention_entry{run_sparse_flash_attention,
                                                  work_of_sparse_flash_attention,
                                                  float32_inputs_of_sparse_flash_attention};
const CpuKernelEntry sparse_flash_attention_grad_entry{
    run_sparse_flash_attention_grad, work_of_sparse_flash_attention_grad,
    float32_inputs_of_sparse_flash_attention_grad};

}  // namespace nsa
