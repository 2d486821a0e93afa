// The vector layer of the unit being compiled; isa_*.cc defines which.
#pragma once

#if defined(NSA_ISA_AVX512)
#include "cpu/engine/simd/vec_avx512.h"
#elif defined(NSA_ISA_AVX2)
#include "cpu/engine/simd/vec_avx2.h"
#elif defined(NSA_ISA_NEON)
#include "cpu/engine/simd/vec_neon.h"
#elif defined(NSA_ISA_SCALAR)
#include "cpu/engine/simd/vec_scalar.h"
#else
#error "include only from a translation unit of one instruction set"
#endif
