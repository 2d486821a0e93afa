// This file is compiled with -mavx512bf16, by which vec_avx512.h defines NSA_HAS_BF16_DOT: bf16
// goes by DotVariant here.
#define NSA_ISA_AVX512
#include "cpu/dispatch/kernels_inl.h"

namespace nsa::cpu {

extern const KernelTable kernels_avx512_bf16;
const KernelTable kernels_avx512_bf16 = make_table_of_products("avx512_bf16");

}  // namespace nsa::cpu
