// What a loop by vectors requires of a length, as a name. Builds with sanitizers check it.
#pragma once

#include "cpu/engine/simd/vec.h"
#include "cpu/types.h"
#ifdef NSA_CHECK_PRECONDITIONS
#include <cassert>
#define NSA_EXPECT(condition) assert(condition)
#else
#define NSA_EXPECT(condition) static_cast<void>(0)
#endif

namespace nsa::cpu {
namespace {

// Rows in scratch are padded to a multiple of this, whatever the instruction set, so that the sizes
// of scratch are known outside the units of one instruction set.
constexpr int64_t kLanePad = 16;
static_assert(kLanePad % W == 0, "a padded row holds whole vectors");

enum class Length {
  kWholeVectors,  // a multiple of W: the loop has no tail
  kPadded,        // a multiple of kLanePad: whole vectors of every instruction set
};

template <Length length>
inline void expect([[maybe_unused]] int64_t n) {
  NSA_EXPECT(n >= 0 && n % (length == Length::kPadded ? kLanePad : int64_t{W}) == 0);
}

}  // namespace
}  // namespace nsa::cpu
