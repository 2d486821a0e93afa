// All kernels, for the instruction set that the including isa_*.cc names.
#pragma once

#include "cpu/block_indexer/kernel.h"
#include "cpu/dispatch/kernel_table.h"
#include "cpu/flash_attention_score/kernel.h"
#include "cpu/lightning_indexer/dense_kl_kernel.h"
#include "cpu/lightning_indexer/grad_kernel.h"
#include "cpu/lightning_indexer/kernel.h"
#include "cpu/lightning_indexer/log_sum_kernel.h"
#include "cpu/lightning_indexer/sparse_kl_kernel.h"
#include "cpu/linear/nsa_linear_kernel.h"
#include "cpu/linear/nsa_projection_kernel.h"
#include "cpu/nsa_compress/grad_kernel.h"
#include "cpu/nsa_compress/kernel.h"
#include "cpu/nsa_compress_attention/kernel.h"
#include "cpu/nsa_decode/kernel.h"
#include "cpu/nsa_decode/window_row.h"
#include "cpu/nsa_selected_attention/grad_kernel.h"
#include "cpu/sparse_flash_attention/grad_kernel.h"
#include "cpu/sparse_flash_attention/kernel.h"
#ifdef NSA_ISA_AMX
#include "cpu/flash_attention_score/grad_tile16.h"
#include "cpu/nsa_selected_attention/grad_tile16.h"
#endif

namespace nsa::cpu {
namespace {

inline void round_rows(ElemType t, const float* src, int64_t n, void* dst) {
  from_float(t, src, n, dst, 0);
}
inline void widen_rows(ElemType t, const void* src, int64_t n, float* dst) {
  to_float(t, src, 0, n, dst);
}

constexpr KernelTable make_table(const char* name) {
  KernelTable table{};
  table.name = name;
  table.bf16 = VariantOfBFloat16::kForm;
  table.float_form = ExactOperands::kForm;
  table.flash_forward_thread_size = flash_forward_thread_size;
  table.flash_forward = flash_forward_by_dtype;
  table.grad_thread_size = grad_thread_size;
  table.flash_backward = flash_backward_by_dtype;
  table.flash_dsink = flash_dsink;
  table.select_forward_thread_size = select_forward_thread_size;
  table.select_forward = select_forward_by_dtype;
  table.select_backward = select_backward_by_dtype;
  table.compress_attention_thread_size = compress_attention_thread_size;
  table.compress_attention = compress_attention_by_dtype;
  table.block_indexer_thread_size = block_indexer_thread_size;
  table.block_indexer = block_indexer_by_dtype;
  table.lightning_indexer_thread_size = lightning_indexer_thread_size;
  table.lightning_indexer = lightning_indexer_by_dtype;
  table.lightning_indexer_grad_thread_size = lightning_indexer_grad_thread_size;
  table.lightning_indexer_grad = lightning_indexer_grad_kernel;
  table.sparse_flash_attention_thread_size = sparse_flash_attention_thread_size;
  table.sparse_flash_attention = sparse_flash_attention_kernel;
  table.sparse_flash_attention_grad_thread_size = sparse_flash_attention_grad_thread_size;
  table.sparse_flash_attention_grad = sparse_flash_attention_grad_kernel;
  table.sparse_kl_loss_thread_size = sparse_kl_loss_thread_size;
  table.sparse_kl_loss = sparse_kl_loss;
  table.dense_kl_loss_thread_size = dense_kl_loss_thread_size;
  table.dense_kl_loss = dense_kl_loss;
  table.index_log_sum_thread_size = index_log_sum_thread_size;
  table.index_log_sum = index_log_sum_by_dtype;
  table.compress_thread_size = compress_thread_size;
  table.compress = compress;
  table.compress_grad_thread_size = compress_grad_thread_size;
  table.compress_grad = compress_grad;
  table.decode_thread_size = decode_thread_size;
  table.decode = decode_by_dtype;
  table.compress_last_windows = compress_last_windows;
  table.linear_rows = linear_rows;
  table.product_thread_size = product_thread_size;
  table.row_product = row_product;
  table.weight_product = weight_product;
  table.round_rows = round_rows;
  table.widen_rows = widen_rows;
  return table;
}

#ifdef NSA_HAS_BF16_DOT
}  // namespace

extern const KernelTable kernels_avx512;

namespace {

// A kernel of the translation unit for AVX-512, where this one would have the same instructions.
// Scratch is measured here for both: its layout is the same.
template <auto kKernel, class R, class... A>
constexpr void borrow(KernelTable& table, R (*KernelTable::*)(A...)) {
  table.*kKernel = [](A... arguments) -> R { return (kernels_avx512.*kKernel)(arguments...); };
}
template <auto kKernel>
constexpr void borrow(KernelTable& table) {
  borrow<kKernel>(table, kKernel);
}

// kOurs for plans of bf16, and that of AVX-512 for others.
template <auto kKernel, auto kOurs, class R, class Plan, class... A>
constexpr void take_bf16(KernelTable& table, R (*KernelTable::*)(const Plan&, A...)) {
  table.*kKernel = [](const Plan& plan, A... arguments) -> R {
    if (plan.dtype == ElemType::kBFloat16) return kOurs(plan, arguments...);
    return (kernels_avx512.*kKernel)(plan, arguments...);
  };
}
template <auto kKernel, auto kOurs>
constexpr void take_bf16(KernelTable& table) {
  take_bf16<kKernel, kOurs>(table, kKernel);
}

// The table of a translation unit that differs from that of AVX-512 in products of bf16 and, with
// AMX, in those of other dtypes in attention. What both would have alike is compiled once.
constexpr KernelTable make_table_of_products(const char* name) {
  KernelTable table = make_table(name);
  borrow<&KernelTable::flash_dsink>(table);
  borrow<&KernelTable::lightning_indexer_grad>(table);
  borrow<&KernelTable::sparse_flash_attention>(table);
  borrow<&KernelTable::sparse_flash_attention_grad>(table);
  borrow<&KernelTable::sparse_kl_loss>(table);
  borrow<&KernelTable::dense_kl_loss>(table);
  borrow<&KernelTable::compress>(table);
  borrow<&KernelTable::compress_grad>(table);
  borrow<&KernelTable::compress_last_windows>(table);
  borrow<&KernelTable::linear_rows>(table);
  borrow<&KernelTable::round_rows>(table);
  borrow<&KernelTable::widen_rows>(table);
  take_bf16<&KernelTable::decode, decode_wave<DecodeVariantOfBFloat16>>(table);
  take_bf16<&KernelTable::lightning_indexer, lightning_indexer_wave<VariantOfBFloat16>>(table);
  take_bf16<&KernelTable::index_log_sum, index_log_sum_wave<VariantOfBFloat16>>(table);
  take_bf16<&KernelTable::block_indexer, block_indexer_wave<VariantOfBFloat16>>(table);
#ifndef NSA_ISA_AMX
  take_bf16<&KernelTable::flash_forward, flash_forward_wave<VariantOfBFloat16>>(table);
  take_bf16<&KernelTable::flash_backward, flash_backward_wave<VariantOfBFloat16>>(table);
  take_bf16<&KernelTable::select_forward, select_forward_wave<VariantOfBFloat16>>(table);
  take_bf16<&KernelTable::select_backward, select_backward_wave<VariantOfBFloat16>>(table);
  take_bf16<&KernelTable::compress_attention, compress_attention_wave<VariantOfBFloat16>>(table);
#endif
  return table;
}
#endif

}  // namespace
}  // namespace nsa::cpu
