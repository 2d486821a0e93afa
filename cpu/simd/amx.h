// AMX tiles for bf16: sixteen rows of sixteen words (pairs of bf16) at once. Only included by the
// unit compiled for it.
#pragma once

#include <immintrin.h>

#include "cpu/simd/vec.h"
#include "cpu/types.h"

namespace nsa::cpu {
namespace {

constexpr int64_t kAmxTile = 16;  // rows of a tile, and words or floats of a row

// Layout of the tile configuration register's memory form (palette 1).
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// The tile registers belong to a thread; they are configured while a thread is in a parallel
// region.
inline void amx_begin() {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = kAmxTile;
  }
  _tile_loadconfig(&config);
}
inline void amx_end() { _tile_release(); }

// The tile instructions of GCC's header do not tell the compiler that they touch memory.
inline void memory_fence_for_compiler() { asm volatile("" ::: "memory"); }

// sum[Rows 16, Lanes 16] = A[.., K] B[K, ..] for K words, a multiple of 16; row strides in words.
template <int Rows, int Lanes>
inline void amx_block(int64_t K, const float* a, int64_t lda, const float* b, int64_t ldb,
                      float* sum) {
  memory_fence_for_compiler();
  _tile_zero(0);
  if (Lanes > 1) _tile_zero(1);
  if (Rows > 1) _tile_zero(2);
  if (Rows > 1 && Lanes > 1) _tile_zero(3);
  for (int64_t k = 0; k < K; k += kAmxTile) {
    _tile_loadd(4, a + k, lda * 4);
    _tile_loadd(6, b + k * ldb, ldb * 4);
    _tile_dpbf16ps(0, 4, 6);
    if (Lanes > 1) {
      _tile_loadd(7, b + k * ldb + kAmxTile, ldb * 4);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (Rows > 1) {
      _tile_loadd(5, a + k + kAmxTile * lda, lda * 4);
      _tile_dpbf16ps(2, 5, 6);
      if (Lanes > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  constexpr int64_t stride = 2 * kAmxTile;
  _tile_stored(0, sum, stride * 4);
  if (Lanes > 1) _tile_stored(1, sum + kAmxTile, stride * 4);
  if (Rows > 1) _tile_stored(2, sum + kAmxTile * stride, stride * 4);
  if (Rows > 1 && Lanes > 1) _tile_stored(3, sum + kAmxTile * stride + kAmxTile, stride * 4);
  memory_fence_for_compiler();
}

}  // namespace
}  // namespace nsa::cpu
