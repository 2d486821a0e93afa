// All kernels, for the instruction set that the including isa_*.cc names.
#pragma once

#include "cpu/decode/kernel.h"
#include "cpu/decode/window_row.h"
#include "cpu/flash_attention_score_kernel.h"
#include "cpu/kernel_table.h"
#include "cpu/nsa_compress_attention_kernel.h"
#include "cpu/nsa_compress_grad_kernel.h"
#include "cpu/nsa_compress_kernel.h"
#include "cpu/nsa_linear_kernel.h"
#include "cpu/nsa_projection_kernel.h"
#include "cpu/nsa_selected_attention_grad_kernel.h"

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
  table.bf16 = PathOfBFloat16::kForm;
  table.bf16_grad = GradPathOfBFloat16::kForm;
  table.float_pieces = ExactOperands::kForm;
  table.flash_forward_thread_size = flash_forward_thread_size;
  table.flash_forward = flash_forward;
  table.grad_thread_size = grad_thread_size;
  table.flash_backward = flash_backward;
  table.flash_dsink = flash_dsink;
  table.select_forward_thread_size = select_forward_thread_size;
  table.select_forward = select_forward;
  table.select_backward = select_backward;
  table.compress_attention_thread_size = compress_attention_thread_size;
  table.compress_attention = compress_attention;
  table.compress_thread_size = compress_thread_size;
  table.compress = compress;
  table.compress_grad_thread_size = compress_grad_thread_size;
  table.compress_grad = compress_grad;
  table.decode_thread_size = decode_thread_size;
  table.decode = decode;
  table.compress_last_windows = compress_last_windows;
  table.linear_rows = linear_rows;
  table.product_thread_size = product_thread_size;
  table.row_product = row_product;
  table.weight_product = weight_product;
  table.round_rows = round_rows;
  table.widen_rows = widen_rows;
  return table;
}

}  // namespace
}  // namespace nsa::cpu
