// Neighbouring words of memory spread over a vector, for products whose lanes are not neighbours.
#pragma once

#include "cpu/engine/simd/vec_math.h"

namespace nsa::cpu {
namespace {

// Words of a key that one load spreads over a vector, each for its share of the lanes: with one, as
// many loads as multiplications would be more than the ports have room for beside all others.
#ifdef NSA_ISA_SCALAR
constexpr int kSpread = 1;
inline V spread_words(const char* p) {
  float x;
  __builtin_memcpy(&x, p, 4);
  return x;
}
inline V spread_bf16(const char* p) { return load_bf16(reinterpret_cast<const uint16_t*>(p)); }
inline V sum_spread(const V* acc) { return acc[0]; }
#else
constexpr int kSpread = 2;
inline V spread_words(const char* p) { return spread_two(p); }
inline V spread_bf16(const char* p) { return spread_two_bf16(p); }
// The heads again as lanes, see query_place().
inline V sum_spread(const V* acc) { return add_neighbours(acc[0], acc[1]); }
#endif

}  // namespace
}  // namespace nsa::cpu
