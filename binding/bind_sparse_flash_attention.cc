#include <algorithm>
#include <cstring>

#include "binding/op_call.h"
#include "cpu/sparse_flash_attention/params.h"
#include "infer/sparse_flash_attention.h"

namespace nsa {

namespace {

constexpr const SparseFlashAttentionInputs& kIn = kSparseFlashAttentionInputs;
constexpr const SparseFlashAttentionOutputs& kOut = kSparseFlashAttentionOutputs;
constexpr const SparseFlashAttentionGradInputs& kGrad = kSparseFlashAttentionGradInputs;
constexpr const SparseFlashAttentionGradOutputs& kGradOut = kSparseFlashAttentionGradOutputs;

// Fills the parameters that forward and gradient share.
template <class Positions>
void fill(const CheckedCall& call, const Positions& in, cpu::SparseFlashAttentionParams& p) {
  call.set_attrs<SparseFlashAttentionAttrs>(p);
  p.query = call.data(in.query);
  p.key = call.data(in.key);
  p.value = call.data(in.value);
  p.sparse_indices = call.as<int32_t>(in.sparse_indices);
  p.query_rope = call.data(in.query_rope);
  p.key_rope = call.data(in.key_rope);
  p.sinks = call.as<float>(in.sinks);
  p.seq_q = call.list(in.actual_seq_lengths_query);
  p.seq_k = call.list(in.actual_seq_lengths_kv);
  p.dtype = elem_type(call.in(in.query).dtype);
  p.packed = p.layout_query == TokenLayout::kTND;
  const size_t heads = p.packed ? 1 : 2;
  p.B = p.packed ? call.list_length(in.actual_seq_lengths_query) : call.dim(in.query, 0);
  p.Sq = p.packed ? 0 : call.dim(in.query, 1);
  p.rows = p.packed ? call.dim(in.query, 0) : p.B * p.Sq;
  p.N = call.dim(in.query, heads);
  p.D = call.dim(in.query, heads + 1);
  const bool packed_keys = p.layout_kv == KeyLayout::kTND;
  p.N2 = call.dim(in.key, packed_keys ? 1 : 2);
  p.Sk = packed_keys ? 0 : call.dim(in.key, 1);
  p.keys = call.dim(in.key, 0) * (packed_keys ? 1 : p.Sk);
  p.Dv = call.in(in.value).shape.back();
  p.R = call.has(in.key_rope) ? call.in(in.key_rope).shape.back() : 0;
  p.count = call.in(in.sparse_indices).shape.back();
}

// The contents of a table are seen here for the first time.
void check_pages(const CheckedCall& call, const cpu::SparseFlashAttentionParams& p, int64_t pages) {
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
  cpu::SparseFlashAttentionParams p{};
  fill(call, kIn, p);
  if (call.has(kIn.block_table)) {
    p.block_table = call.as<int32_t>(kIn.block_table);
    p.places = call.dim(kIn.block_table, 1);
    p.page = call.dim(kIn.key, 1);
    check_pages(call, p, call.dim(kIn.key, 0));
  }
  p.attention_out = call.out(kOut.attention_out);
  if (p.return_softmax_lse) {
    p.softmax_max = call.out_as<float>(kOut.softmax_max);
    p.softmax_sum = call.out_as<float>(kOut.softmax_sum);
  }
  cpu::sparse_flash_attention(p);
}

template <class Positions>
int64_t work_of(const CheckedCall& call, const Positions& in) {
  const int64_t block = std::min(call.attrs<SparseFlashAttentionAttrs>().sparse_block_size,
                                 std::max<int64_t>(1, elements(call, in.key)));
  return product({elements(call, in.query), call.in(in.sparse_indices).shape.back(), block});
}

int64_t forward_work(const CheckedCall& call) { return work_of(call, kIn); }

void run_backward(const CheckedCall& call) {
  cpu::SparseFlashAttentionGradParams p{};
  fill(call, kGrad, p);
  p.attention_out = const_cast<void*>(call.data(kGrad.attention_out));
  p.attention_out_grad = call.data(kGrad.attention_out_grad);
  p.softmax_sum_grad = call.as<float>(kGrad.softmax_sum_grad);
  p.dq = call.out(kGradOut.dq);
  p.dk = call.out(kGradOut.dk);
  p.dv = call.out(kGradOut.dv);
  if (p.query_rope != nullptr) {
    p.dq_rope = call.out(kGradOut.dq_rope);
    p.dk_rope = call.out(kGradOut.dk_rope);
  } else {
    const size_t bytes = static_cast<size_t>(cpu::elem_size(p.dtype));
    std::memset(call.out(kGradOut.dq_rope), 0, bytes);
    std::memset(call.out(kGradOut.dk_rope), 0, bytes);
  }
  if (p.sinks != nullptr) {
    p.dsinks = call.out_as<float>(kGradOut.dsinks);
  } else {
    *call.out_as<float>(kGradOut.dsinks) = 0.0f;
  }
  cpu::sparse_flash_attention_grad(p);
}

int64_t backward_work(const CheckedCall& call) { return work_of(call, kGrad); }

uint32_t forward_float32(const BoundAttrs&) { return input_bit(kIn.sinks); }
uint32_t backward_float32(const BoundAttrs&) {
  return input_bit(kGrad.sinks) | input_bit(kGrad.softmax_sum_grad);
}

}  // namespace

const CpuKernelEntry sparse_flash_attention_entry{run_forward, forward_work, forward_float32};
const CpuKernelEntry sparse_flash_attention_grad_entry{run_backward, backward_work,
                                                       backward_float32};

}  // namespace nsa
