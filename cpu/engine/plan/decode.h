// How a step of decoding is cut, and when the memory that it reads is prefetched.
#pragma once

#include "cpu/types.h"

namespace nsa::cpu {

// Keys of one step of a split's softmax: the keys and values of two steps stay in the second-level
// cache, one in use and one on its way.
constexpr int64_t kStepKeys = 64;
// The first-level cache of the smallest processors with it: the keys and values of a step, in
// bfloat16 and with 128 dimensions.
constexpr int64_t kFirstLevel = 32 << 10;

// When lines of memory are prefetched, and into which cache. kNear: into the first-level one,
// values while their scores are computed, the next step's keys while values are summed. kNearOnce:
// also with the hint of data that is read once, so that what the caller has in the last cache,
// MindSpore's own code among it, is not driven out by what a token reads. Such lines may be in the
// first-level cache only, which must hold a step then. kFar: keys and values of the next step, into
// the second-level cache.
enum class Prefetch { kNear, kNearOnce, kFar };

}  // namespace nsa::cpu
