// The tile instructions of AMX that the kernels use, on tile registers 0 to 7. As assembler,
// because the intrinsics of GCC 12 do not tell the compiler that they touch memory.
#pragma once

#include <cstdint>

namespace nsa::cpu {
namespace {

// Memory form of the tile configuration (palette 1).
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// A test puts functions of the same names here: tests/native/amx_model.h.
#ifndef NSA_AMX_MODEL

inline void tile_configure(const TileConfig& config) { asm volatile("ldtilecfg %0" ::"m"(config)); }
inline void tile_release() { asm volatile("tilerelease"); }

template <int kTile>
inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
// Rows `stride` floats apart.
template <int kTile>
inline void tile_load(const float* rows, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride * 4), "i"(kTile) : "memory");
}
// The same of what is used once: it need not drive anything from the first-level cache.
template <int kTile>
inline void tile_load_once(const float* rows, int64_t stride) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride * 4), "i"(kTile)
               : "memory");
}
template <int kTile>
inline void tile_store(float* rows, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(stride * 4), "i"(kTile)
               : "memory");
}
// sum += a b, of words of two bf16.
template <int kSum, int kA, int kB>
inline void tile_dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

#endif

}  // namespace
}  // namespace nsa::cpu
