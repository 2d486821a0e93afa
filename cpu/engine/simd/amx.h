// The tile instructions of AMX that the kernels use, on tile registers 0 to 7, and products of bf16
// on tiles: sixteen rows of sixteen words (of two bf16) at once. Only included by the translation
// unit compiled for it.
#pragma once

#include <type_traits>

#include "cpu/engine/simd/vec.h"
#include "cpu/types.h"

namespace nsa::cpu {
namespace {

// Memory form of the tile configuration (palette 1).
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

#ifdef NSA_AMX_MODEL
// A test defines them: tests/native/amx_model.h.
inline void tile_configure(const TileConfig& config);
inline void tile_release();
template <int kTile>
inline void tile_zero();
template <int kTile>
inline void tile_load(const float* rows, int64_t stride);
template <int kTile>
inline void tile_load_once(const float* rows, int64_t stride);
template <int kTile>
inline void tile_store(float* rows, int64_t stride);
template <int kSum, int kA, int kB>
inline void tile_dot_bf16();
#else
// Assembler instead of intrinsics: those of GCC 12 do not tell the compiler that they touch memory.

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
// Streaming load of data that is used once, which should not evict the first-level cache.
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

// The tile registers belong to a thread; they are configured while a thread is in a parallel
// region.
inline void amx_begin() {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = kAmxTile;
  }
  tile_configure(config);
}
inline void amx_end() { tile_release(); }

// Rows of A and C: those of a tile, and of a second one, which need not follow it.
struct AmxRows {
  const float *a, *lower_a;
  int64_t lda;
  float *c, *lower_c;
  int64_t ldc;
  int64_t next = kAmxTile;  // from lanes 0 to 15 of C to the others

  static AmxRows together(const float* a, int64_t lda, float* c, int64_t ldc) {
    return {a, a + kAmxTile * lda, lda, c, c + kAmxTile * ldc, ldc};
  }
};

// C[Rows 16, Lanes 16] = or += A[.., K] B[K, ..] for K words, a multiple of 16; strides in words
// and floats. Sums are in tiles 0 to 3 and go to C directly: by way of a buffer the product took a
// quarter longer where it was measured.
//
// between(n) is called after product n of four at each k: what does not need the tiles runs beside
// them, as far as the processor looks ahead. kOnce: b is read for these tiles only.
template <int Rows, int Lanes, bool kOnce = false, class Between = Nothing>
[[gnu::always_inline]] inline void amx_tiles(int64_t K, const AmxRows& rows, const float* b,
                                             int64_t ldb, bool add, const Between& between = {}) {
  static_assert(Rows >= 1 && Rows <= 2 && Lanes >= 1 && Lanes <= 2);
  const auto [a, lower_a, lda, c, lower, ldc, next] = rows;
  if (add) {
    tile_load<0>(c, ldc);
    if constexpr (Lanes > 1) tile_load<1>(c + next, ldc);
    if constexpr (Rows > 1) tile_load<2>(lower, ldc);
    if constexpr (Rows > 1 && Lanes > 1) tile_load<3>(lower + next, ldc);
  } else {
    tile_zero<0>();
    if constexpr (Lanes > 1) tile_zero<1>();
    if constexpr (Rows > 1) tile_zero<2>();
    if constexpr (Rows > 1 && Lanes > 1) tile_zero<3>();
  }
  const auto load_b = [](auto tile, const float* rows, int64_t stride) {
    if constexpr (kOnce) {
      tile_load_once<decltype(tile)::value>(rows, stride);
    } else {
      tile_load<decltype(tile)::value>(rows, stride);
    }
  };
  for (int64_t k = 0; k < K; k += kAmxTile) {
    tile_load<4>(a + k, lda);
    load_b(std::integral_constant<int, 6>{}, b + k * ldb, ldb);
    tile_dot_bf16<0, 4, 6>();
    between(0);
    if constexpr (Lanes > 1) {
      load_b(std::integral_constant<int, 7>{}, b + k * ldb + kAmxTile, ldb);
      tile_dot_bf16<1, 4, 7>();
    }
    between(1);
    if constexpr (Rows > 1) {
      tile_load<5>(lower_a + k, lda);
      tile_dot_bf16<2, 5, 6>();
    }
    between(2);
    if constexpr (Rows > 1 && Lanes > 1) tile_dot_bf16<3, 5, 7>();
    between(3);
  }
  tile_store<0>(c, ldc);
  if constexpr (Lanes > 1) tile_store<1>(c + next, ldc);
  if constexpr (Rows > 1) tile_store<2>(lower, ldc);
  if constexpr (Rows > 1 && Lanes > 1) tile_store<3>(lower + next, ldc);
}

// Words of a step of a contraction of operands in kBf16x3Terms terms, as split_bf16x3() makes them.
constexpr int64_t kBf16x3Step = kBf16x3Terms * kAmxTile;

// Tiles 0 to 3 = A[Rows 16, K] B[K, Lanes 16] for K words of bf16x3, a multiple of kBf16x3Step.
// Rows of A are lda words apart, tiles of lanes of B, [K, 16] each, ldb. Of the nine products of
// terms the three that are below the last place of the others are left out. The small ones come
// first: what is added to a large sum is rounded as one product of bf16 would be, once in 32
// elements. Or they come in the order of amx_bf16x3_wide(), whose sums these are to the bit.
template <int Rows, int Lanes, bool kAsWide = false>
[[gnu::always_inline]] inline void amx_bf16x3(int64_t K, const float* a, int64_t lda,
                                              const float* b, int64_t ldb) {
  static_assert(Rows >= 1 && Rows <= 2 && Lanes >= 1 && Lanes <= 2);
  tile_zero<0>();
  if constexpr (Lanes > 1) tile_zero<1>();
  if constexpr (Rows > 1) tile_zero<2>();
  if constexpr (Rows > 1 && Lanes > 1) tile_zero<3>();
  const auto load_a = [&](int64_t k) {
    tile_load<4>(a + k, lda);
    if constexpr (Rows > 1) tile_load<5>(a + kAmxTile * lda + k, lda);
  };
  const auto load_b = [&](int64_t k) {
    tile_load<6>(b + k * kAmxTile, kAmxTile);
    if constexpr (Lanes > 1) tile_load<7>(b + ldb + k * kAmxTile, kAmxTile);
  };
  const auto multiply = [] {
    tile_dot_bf16<0, 4, 6>();
    if constexpr (Lanes > 1) tile_dot_bf16<1, 4, 7>();
    if constexpr (Rows > 1) tile_dot_bf16<2, 5, 6>();
    if constexpr (Rows > 1 && Lanes > 1) tile_dot_bf16<3, 5, 7>();
  };
  constexpr int64_t second = kAmxTile, third = 2 * kAmxTile;
  for (int64_t k = 0; kAsWide && k < K; k += kBf16x3Step) {
    load_a(k);
    load_b(k + third);
    multiply();
    load_a(k + second);
    load_b(k + second);
    multiply();
    load_a(k);
    multiply();
    load_a(k + third);
    load_b(k);
    multiply();
    load_a(k + second);
    multiply();
    load_a(k);
    multiply();
  }
  if constexpr (kAsWide) return;
  for (int64_t k = 0; k < K; k += kBf16x3Step) {
    load_a(k + third);
    load_b(k);
    multiply();
    load_a(k + second);
    multiply();
    load_b(k + second);
    multiply();
    load_a(k);
    multiply();
    load_b(k + third);
    multiply();
  }
  for (int64_t k = 0; k < K; k += kBf16x3Step) {
    load_a(k);
    load_b(k);
    multiply();
  }
}
// Tiles 0 to 3 += one tile of rows times four of lanes, for K words of bf16x3, laid out as for
// amx_bf16x3(): where rows are few, a tile of B is loaded for its three products. between(n) is
// called after the six products of lanes n at each step.
template <class Between>
[[gnu::always_inline]] inline void amx_bf16x3_wide(int64_t K, const float* a, int64_t lda,
                                                   const float* b, int64_t ldb,
                                                   const Between& between) {
  const auto lanes = [&](auto sum, const float* tiles) __attribute__((always_inline)) {
    constexpr int kSum = decltype(sum)::value;
    constexpr int64_t second = kAmxTile * kAmxTile;
    tile_load_once<7>(tiles + 2 * second, kAmxTile);
    tile_dot_bf16<kSum, 4, 7>();
    tile_load_once<7>(tiles + second, kAmxTile);
    tile_dot_bf16<kSum, 5, 7>();
    tile_dot_bf16<kSum, 4, 7>();
    tile_load_once<7>(tiles, kAmxTile);
    tile_dot_bf16<kSum, 6, 7>();
    tile_dot_bf16<kSum, 5, 7>();
    tile_dot_bf16<kSum, 4, 7>();
    between(kSum);
  };
  for (int64_t k = 0; k < K; k += kBf16x3Step, b += kBf16x3Step * kAmxTile) {
    tile_load<4>(a + k, lda);
    tile_load<5>(a + k + kAmxTile, lda);
    tile_load<6>(a + k + 2 * kAmxTile, lda);
    lanes(std::integral_constant<int, 0>{}, b);
    lanes(std::integral_constant<int, 1>{}, b + ldb);
    lanes(std::integral_constant<int, 2>{}, b + 2 * ldb);
    lanes(std::integral_constant<int, 3>{}, b + 3 * ldb);
  }
}

template <int Rows>
inline void amx_lanes(int64_t lanes, int64_t K, const AmxRows& rows, const float* b, int64_t ldb,
                      bool add) {
  if (lanes > kAmxTile) return amx_tiles<Rows, 2>(K, rows, b, ldb, add);
  amx_tiles<Rows, 1>(K, rows, b, ldb, add);
}

// Sum of n words of a and b in the order of a product's sum, whatever that is: a product of which
// one element is looked at. n is a multiple of 16; 15 words after the last of b are read.
inline float amx_dot(const float* a, const float* b, int64_t n) {
  alignas(64) float sum[kAmxTile * kAmxTile];
  tile_zero<0>();
  for (int64_t k = 0; k < n; k += kAmxTile) {
    tile_load<4>(a + k, 0);
    tile_load<6>(b + k, 1);
    tile_dot_bf16<0, 4, 6>();
  }
  tile_store<0>(sum, kAmxTile);
  return sum[0];
}

// Products of one tile of rows and four of lanes, whose sums are in tiles 0 to 3 from a load, or
// zeros, to a store: where there are no more rows, they wait less for each other than those of
// amx_tiles().
constexpr int64_t kAmxWide = 4 * kAmxTile;

inline void amx_wide_zero() {
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
}
inline void amx_wide_load(const float* c, int64_t ldc) {
  tile_load<0>(c, ldc);
  tile_load<1>(c + kAmxTile, ldc);
  tile_load<2>(c + 2 * kAmxTile, ldc);
  tile_load<3>(c + 3 * kAmxTile, ldc);
}
inline void amx_wide_store(float* c, int64_t ldc) {
  tile_store<0>(c, ldc);
  tile_store<1>(c + kAmxTile, ldc);
  tile_store<2>(c + 2 * kAmxTile, ldc);
  tile_store<3>(c + 3 * kAmxTile, ldc);
}
// For K words, a multiple of 16, of which b's are read for this tile only; between(n) as in
// amx_tiles().
template <class Between>
[[gnu::always_inline]] inline void amx_wide(int64_t K, const float* a, int64_t lda, const float* b,
                                            int64_t ldb, const Between& between) {
  for (int64_t k = 0; k < K; k += kAmxTile, b += kAmxTile * ldb) {
    tile_load<4>(a + k, lda);
    tile_load_once<5>(b, ldb);
    tile_dot_bf16<0, 4, 5>();
    between(0);
    tile_load_once<6>(b + kAmxTile, ldb);
    tile_dot_bf16<1, 4, 6>();
    between(1);
    tile_load_once<7>(b + 2 * kAmxTile, ldb);
    tile_dot_bf16<2, 4, 7>();
    between(2);
    tile_load_once<5>(b + 3 * kAmxTile, ldb);
    tile_dot_bf16<3, 4, 5>();
    between(3);
  }
}

}  // namespace
}  // namespace nsa::cpu
