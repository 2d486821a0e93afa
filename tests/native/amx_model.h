// The tile instructions of cpu/engine/simd/amx.h in C++, so that kernels for AMX run, and are
// checked, on a processor without it. Written after the operation section of each instruction in
// Intel's Software Developer's Manual. What would be #UD or undefined there ends the program.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cpu/engine/simd/amx.h"

namespace nsa::cpu {
namespace {

struct TileModel {
  bool configured = false;
  TileConfig config;
  uint32_t words[8][16][16];

  int rows(int tile) const { return config.rows[tile]; }
  int columns(int tile) const { return config.row_bytes[tile] / 4; }
};

// Registers belong to a thread.
inline TileModel& tile_model() {
  static thread_local TileModel model;
  return model;
}

[[noreturn]] inline void tile_fault(const char* what) {
  std::fprintf(stderr, "AMX model: %s\n", what);
  std::abort();
}

inline TileModel& configured_tiles() {
  TileModel& model = tile_model();
  if (!model.configured) tile_fault("a tile instruction without a configuration");
  return model;
}

// A store counts the denormals of the result as zeros, and the product those of its operands.
inline __m256 flushed(__m256 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f), normal = _mm256_set1_ps(1.17549435e-38f);
  const __m256 small = _mm256_cmp_ps(_mm256_andnot_ps(sign, x), normal, _CMP_LT_OQ);
  return _mm256_blendv_ps(x, _mm256_and_ps(x, sign), small);
}
// The lower and the upper bf16 of words, as floats.
inline __m256 even_half(__m256i words) {
  return flushed(_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)));
}
inline __m256 odd_half(__m256i words) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000));
  return flushed(_mm256_castsi256_ps(_mm256_and_si256(words, upper)));
}

inline void tile_configure(const TileConfig& config) {
  if (config.palette != 1 || config.start_row != 0) tile_fault("palette 1 from row 0 is expected");
  for (int tile = 0; tile < 16; ++tile) {
    const int rows = config.rows[tile], bytes = config.row_bytes[tile];
    if (tile >= 8 && (rows != 0 || bytes != 0)) tile_fault("palette 1 has 8 tiles");
    if (rows > 16 || bytes > 64 || (rows == 0) != (bytes == 0)) tile_fault("a tile too large");
  }
  TileModel& model = tile_model();
  if (model.configured) tile_fault("configured twice");
  model.configured = true;
  model.config = config;
  std::memset(model.words, 0, sizeof(model.words));
}
inline void tile_release() {
  configured_tiles();
  tile_model().configured = false;
}

template <int kTile>
inline void tile_zero() {
  std::memset(configured_tiles().words[kTile], 0, sizeof(TileModel::words[kTile]));
}

template <int kTile>
inline void tile_load(const float* rows, int64_t stride) {
  TileModel& model = configured_tiles();
  std::memset(model.words[kTile], 0, sizeof(model.words[kTile]));
  for (int row = 0; row < model.rows(kTile); ++row)
    std::memcpy(model.words[kTile][row], rows + row * stride, model.config.row_bytes[kTile]);
}

template <int kTile>
inline void tile_load_once(const float* rows, int64_t stride) {
  tile_load<kTile>(rows, stride);
}

template <int kTile>
inline void tile_store(float* rows, int64_t stride) {
  const TileModel& model = configured_tiles();
  for (int row = 0; row < model.rows(kTile); ++row)
    std::memcpy(rows + row * stride, model.words[kTile][row], model.config.row_bytes[kTile]);
}

// TDPBF16PS: even and odd products are summed apart, each by fused multiply-add, then together,
// then with the old value; rounding to nearest even, denormals are zeros.
template <int kSum, int kA, int kB>
inline void tile_dot_bf16() {
  static_assert(kSum != kA && kSum != kB && kA != kB, "#UD");
  TileModel& model = configured_tiles();
  if (model.rows(kSum) != model.rows(kA) || model.columns(kSum) != model.columns(kB) ||
      model.columns(kA) != model.rows(kB))
    tile_fault("tiles that do not fit");
  // All columns, of which those that the configuration leaves out stay zero.
  for (int m = 0; m < model.rows(kSum); ++m) {
    for (int n = 0; n < 16; n += 8) {
      __m256 even = _mm256_setzero_ps(), odd = even;
      for (int k = 0; k < model.columns(kA); ++k) {
        const __m256i a = _mm256_set1_epi32(static_cast<int>(model.words[kA][m][k]));
        const __m256i b =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(model.words[kB][k] + n));
        even = flushed(_mm256_fmadd_ps(even_half(a), even_half(b), even));
        odd = flushed(_mm256_fmadd_ps(odd_half(a), odd_half(b), odd));
      }
      float* const sum = reinterpret_cast<float*>(model.words[kSum][m] + n);
      const __m256 old = flushed(_mm256_loadu_ps(sum));
      _mm256_storeu_ps(sum, flushed(_mm256_add_ps(old, flushed(_mm256_add_ps(even, odd)))));
    }
  }
}

}  // namespace
}  // namespace nsa::cpu
