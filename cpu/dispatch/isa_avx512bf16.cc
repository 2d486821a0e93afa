#define NSA_ISA_AVX512
#include "cpu/dispatch/kernels_inl.h"

namespace nsa::cpu {

extern const KernelTable kernels_avx512_bf16;
const KernelTable kernels_avx512_bf16 = make_table_of_products("avx512_bf16");

}  // namespace nsa::cpu
