// The vector layer of the translation unit being compiled, which isa_*.cc defines, and what a loop
// by vectors requires of a length, as a name: builds with sanitizers check it.
#pragma once

#include "cpu/types.h"
#ifdef NSA_CHECK_PRECONDITIONS
#include <cassert>
#define NSA_EXPECT(condition) assert(condition)
#else
#define NSA_EXPECT(condition) static_cast<void>(0)
#endif

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

// Callback between the products of a kernel variant that does nothing.
struct Nothing {
  void operator()(int) const {}
};

static_assert(kLanePad % W == 0, "a padded row holds whole vectors");

enum class Length {
  kWholeVectors,  // a multiple of W: the loop has no tail
  kPadded,        // a multiple of kLanePad: whole vectors of every instruction set
};

template <Length length>
inline void expect([[maybe_unused]] int64_t n) {
  NSA_EXPECT(n >= 0 && n % (length == Length::kPadded ? kLanePad : int64_t{W}) == 0);
}

// Whether the translation unit has products of tiles besides vectors.
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
