// The kernels. Each is compiled once per data type, as CANN does it, in a unit of its
// own (builds.py). A library may leave some of them out.
#pragma once

#include <cstddef>
#include <utility>

#include "kernel_operator.h"

namespace runner {

using Argument = GM_ADDR;

template <typename Indices>
struct EntryOf;
template <size_t... i>
struct EntryOf<std::index_sequence<i...>> {
  using Type = void(decltype(static_cast<void>(i), Argument())...);
};
// A kernel of so many tensors, workspace and tiling data among them.
template <size_t tensors>
using Entry = typename EntryOf<std::make_index_sequence<tensors>>::Type;

}  // namespace runner

extern "C" {
__attribute__((weak)) runner::Entry<6> nsa_compress_float16, nsa_compress_bfloat16;
__attribute__((weak)) runner::Entry<8> nsa_compress_grad_float16, nsa_compress_grad_bfloat16;
__attribute__((weak)) runner::Entry<10> nsa_compress_with_cache_float16,
    nsa_compress_with_cache_bfloat16;
__attribute__((weak)) runner::Entry<10> nsa_selected_attention_infer_float16,
    nsa_selected_attention_infer_bfloat16;
__attribute__((weak)) runner::Entry<11> nsa_compress_attention_infer_float16,
    nsa_compress_attention_infer_bfloat16;
__attribute__((weak)) runner::Entry<20> nsa_cache_step_float16, nsa_cache_step_bfloat16;
__attribute__((weak)) runner::Entry<15> nsa_decode_float16, nsa_decode_bfloat16;
__attribute__((weak)) runner::Entry<19> flash_attention_score_float16,
    flash_attention_score_bfloat16, flash_attention_score_float32;
__attribute__((weak)) runner::Entry<27> flash_attention_score_grad_float16,
    flash_attention_score_grad_bfloat16, flash_attention_score_grad_float32;
__attribute__((weak)) runner::Entry<15> nsa_compress_attention_float16,
    nsa_compress_attention_bfloat16;
__attribute__((weak)) runner::Entry<13> nsa_selected_attention_float16,
    nsa_selected_attention_bfloat16;
__attribute__((weak)) runner::Entry<18> nsa_selected_attention_grad_float16,
    nsa_selected_attention_grad_bfloat16;
}
