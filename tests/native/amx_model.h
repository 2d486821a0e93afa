// The tile instructions of cpu/simd/amx_tiles.h in C++, so that kernels for AMX run, and are
// checked, on a processor without it. Written after the operation section of each instruction in
// Intel's Software Developer's Manual. What would be #UD or undefined there ends the program.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cpu/simd/amx_tiles.h"
#include "cpu/simd/half.h"

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
inline float flushed(float x) {
  return __builtin_fabsf(x) < 1.17549435e-38f ? __builtin_copysignf(0.0f, x) : x;
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
  auto half = [](uint32_t word, int part) {
    return flushed(bf16_to_float(static_cast<uint16_t>(part == 0 ? word : word >> 16)));
  };
  for (int m = 0; m < model.rows(kSum); ++m) {
    for (int n = 0; n < model.columns(kSum); ++n) {
      float sums[2] = {0.0f, 0.0f};
      for (int k = 0; k < model.columns(kA); ++k) {
        const uint32_t a = model.words[kA][m][k], b = model.words[kB][k][n];
        for (int part = 0; part < 2; ++part)
          sums[part] = flushed(__builtin_fmaf(half(a, part), half(b, part), sums[part]));
      }
      float old;
      std::memcpy(&old, &model.words[kSum][m][n], 4);
      const float sum = flushed(flushed(old) + flushed(sums[0] + sums[1]));
      std::memcpy(&model.words[kSum][m][n], &sum, 4);
    }
  }
}

}  // namespace
}  // namespace nsa::cpu
