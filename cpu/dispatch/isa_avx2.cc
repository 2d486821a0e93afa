#define NSA_ISA_AVX2
#include "cpu/dispatch/kernels_inl.h"

namespace nsa::cpu {

extern const KernelTable kernels_avx2;
const KernelTable kernels_avx2 = make_table("avx2");

}  // namespace nsa::cpu
