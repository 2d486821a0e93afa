#define NSA_ISA_AVX512
#define NSA_ISA_AMX
#include "cpu/dispatch/kernels_inl.h"

namespace nsa::cpu {

extern const KernelTable kernels_avx512_amx;
const KernelTable kernels_avx512_amx = make_table_of_products("avx512_amx");

}  // namespace nsa::cpu
