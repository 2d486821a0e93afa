#define NSA_ISA_AVX512
#include "cpu/dispatch/kernels_inl.h"

namespace nsa::cpu {

extern const KernelTable kernels_avx512;
const KernelTable kernels_avx512 = make_table("avx512");

}  // namespace nsa::cpu
