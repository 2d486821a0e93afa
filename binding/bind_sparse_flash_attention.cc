#include <cstring>

#include "binding/bind_rows.h"
#include "cpu/sparse_flash_attention/params.h"

namespace nsa {

void run_sparse_flash_attention(const CheckedCall& call) {
  cpu::SparseFlashAttentionParams p{};
  fill_sparse_flash_attention(call, p);
  constexpr const SparseFlashAttentionInputs& in = kSparseFlashAttentionInputs;
  constexpr const SparseFlashAttentionOutputs& out = kSparseFlashAttentionOutputs;
  check_pages(call, in.block_table, call.dim(in.key, 0), p.page, p.seq_k, p.B);
  if (p.return_softmax_lse) {
    p.softmax_max = call.out_as<float>(out.softmax_max);
    p.softmax_sum = call.out_as<float>(out.softmax_sum);
  }
  cpu::sparse_flash_attention(p);
}

void run_sparse_flash_attention_grad(const CheckedCall& call) {
  cpu::SparseFlashAttentionGradParams p{};
  fill_sparse_flash_attention_grad(call, p);
  constexpr const SparseFlashAttentionGradOutputs& out = kSparseFlashAttentionGradOutputs;
  if (p.query_rope != nullptr) {
    p.dq_rope = call.out(out.dq_rope);
    p.dk_rope = call.out(out.dk_rope);
  } else {
    const size_t bytes = static_cast<size_t>(cpu::elem_size(p.dtype));
    std::memset(call.out(out.dq_rope), 0, bytes);
    std::memset(call.out(out.dk_rope), 0, bytes);
  }
  if (p.sinks != nullptr) {
    p.dsinks = call.out_as<float>(out.dsinks);
  } else {
    *call.out_as<float>(out.dsinks) = 0.0f;
  }
  cpu::sparse_flash_attention_grad(p);
}

}  // namespace nsa
