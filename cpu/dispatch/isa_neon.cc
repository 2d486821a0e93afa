#define NSA_ISA_NEON
#include "cpu/dispatch/kernels_inl.h"

namespace nsa::cpu {

extern const KernelTable kernels_neon;
const KernelTable kernels_neon = make_table("neon");

}  // namespace nsa::cpu
