#define NSA_ISA_SCALAR
#include "cpu/dispatch/kernels_inl.h"

namespace nsa::cpu {

extern const KernelTable kernels_scalar;
const KernelTable kernels_scalar = make_table("scalar");

}  // namespace nsa::cpu
