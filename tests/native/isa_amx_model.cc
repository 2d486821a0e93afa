// The translation unit of AVX-512 with AMX, compiled for a processor without AMX: the same kernels
// on a model of the tile instructions.
#define NSA_AMX_MODEL
#define NSA_ISA_AVX512
#define NSA_ISA_AMX
#include "tests/native/amx_model.h"
// Uses it.
#include "cpu/dispatch/kernels_inl.h"

namespace nsa::cpu {

extern const KernelTable kernels_amx_model;
const KernelTable kernels_amx_model = make_table_of_products("avx512_amx_model");

}  // namespace nsa::cpu
