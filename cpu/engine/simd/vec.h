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

namespace nsa::cpu {
namespace {

// What is done between the products of a way: nothing.
struct Nothing {
  void operator()(int) const {}
};

// Whether the unit has products of tiles besides vectors.
#ifdef NSA_ISA_AMX
constexpr bool kHasTiles = true;
#else
constexpr bool kHasTiles = false;
#endif

// Whether vectors round to bf16 without leaving their registers.
#ifdef NSA_HAS_ROUND_BF16
constexpr bool kRoundsBFloat16 = true;
#else
constexpr bool kRoundsBFloat16 = false;
inline V round_bf16(V x) {
  alignas(64) uint16_t narrow[W];
  store_bf16(narrow, x);
  return load_bf16(narrow);
}
#endif

}  // namespace
}  // namespace nsa::cpu
