// The AVX-512 instructions of cpu/engine/simd on a processor that has AVX2 only: included before
// every translation unit of theirs (-include), so that the very same source runs. SIMDe has most
// intrinsics; the rest, and those that it computes otherwise than the processor, are here, written
// after the operation sections of Intel's manual.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

namespace nsa::avx512_model {
namespace {

using Floats = __m512;
using Ints = __m512i;
using Halves = __m512bh;
typedef int32_t Int32s __attribute__((vector_size(64)));
typedef uint16_t Shorts __attribute__((vector_size(32)));

// Lanes as an array and back.
template <class T>
struct Lanes {
  static constexpr int kCount = 64 / sizeof(T);
  T lane[kCount];

  template <class V>
  explicit Lanes(V x) {
    static_assert(sizeof(V) == 64);
    std::memcpy(lane, &x, 64);
  }
  template <class V>
  V as() const {
    V x;
    std::memcpy(&x, lane, 64);
    return x;
  }
};

inline __m256 low(Floats x) { return _mm512_castps512_ps256(x); }
inline __m256 high(Floats x) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
}
inline Floats joined(__m256 a, __m256 b) {
  Floats x;
  std::memcpy(&x, &a, 32);
  std::memcpy(reinterpret_cast<char*>(&x) + 32, &b, 32);
  return x;
}
inline Ints joined(__m256i a, __m256i b) {
  Ints x;
  std::memcpy(&x, &a, 32);
  std::memcpy(reinterpret_cast<char*>(&x) + 32, &b, 32);
  return x;
}

inline __m256i narrow(Ints x) {
  Int32s wide;
  std::memcpy(&wide, &x, 64);
  const Shorts words = __builtin_convertvector(wide, Shorts);
  __m256i y;
  std::memcpy(&y, &words, 32);
  return y;
}
inline Ints widen(__m256i x) {
  Shorts words;
  std::memcpy(&words, &x, 32);
  const Int32s wide = __builtin_convertvector(words, Int32s);
  Ints y;
  std::memcpy(&y, &wide, 64);
  return y;
}
inline Ints to_integers(Floats x) {
  return joined(_mm256_cvtps_epi32(low(x)), _mm256_cvtps_epi32(high(x)));
}
inline Floats from_halves(__m256i x) {
  return joined(_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
                _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)));
}
template <int kRounding>
inline __m256i to_halves(Floats x) {
  return _mm256_set_m128i(_mm256_cvtps_ph(high(x), kRounding), _mm256_cvtps_ph(low(x), kRounding));
}
// Touches no byte of a lane that is left out.
inline Ints load_some(__mmask32 there, const void* p) {
  uint16_t lane[32] = {};
  for (int i = 0; i < 32; ++i)
    if ((there >> i & 1) != 0) std::memcpy(lane + i, static_cast<const uint16_t*>(p) + i, 2);
  Ints x;
  std::memcpy(&x, lane, 64);
  return x;
}
// A store that is not aligned is a fault.
inline void stream(void* p, Ints x) {
  if (reinterpret_cast<uintptr_t>(p) % 64 != 0) {
    std::fprintf(stderr, "AVX-512 model: vmovntdq to an address that is no multiple of 64\n");
    std::abort();
  }
  std::memcpy(p, &x, 64);
}

// VSHUFF32X4: quarters of a, a, b, b.
template <int kQuarters>
inline Floats shuffle_quarters(Floats a, Floats b) {
  const Lanes<float> x(a), y(b);
  Lanes<float> z(a);
  for (int q = 0; q < 4; ++q)
    std::memcpy(z.lane + 4 * q, (q < 2 ? x : y).lane + 4 * (kQuarters >> 2 * q & 3), 16);
  return z.as<Floats>();
}

// Halves, quarters, pairs, as the compiler builds it.
template <class Op>
inline float across(Floats x, const Op& op) {
  Lanes<float> y(x);
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) y.lane[i] = op(y.lane[i], y.lane[i + width]);
  return y.lane[0];
}
inline float sum(Floats x) {
  return across(x, [](float a, float b) { return a + b; });
}
inline float largest(Floats x) {
  return across(x, [](float a, float b) { return a > b ? a : b; });
}

// VREDUCEPS of no fraction bits, rounding down: 0 of an infinite number.
template <int kHow>
inline Floats above_floor(Floats x) {
  static_assert(kHow == (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
  Lanes<float> y(x);
  for (float& lane : y.lane) lane = __builtin_isinf(lane) ? 0.0f : lane - __builtin_floorf(lane);
  return y.as<Floats>();
}
// VSCALEFPS: x 2^floor(y), rounded once; the kernels keep y within [-126, 127].
inline Floats scaled(__mmask16 kept, Floats x, Floats y) {
  Lanes<float> a(x), b(y);
  for (int i = 0; i < 16; ++i) {
    if ((kept >> i & 1) == 0) {
      a.lane[i] = 0.0f;
    } else if (b.lane[i] != b.lane[i]) {
      a.lane[i] = b.lane[i];
    } else {
      const float n = __builtin_floorf(b.lane[i]);
      a.lane[i] = __builtin_ldexpf(a.lane[i], n > 300    ? 300
                                              : n < -300 ? -300
                                                         : static_cast<int>(n));
    }
  }
  return a.as<Floats>();
}

// Numbers of bf16: their products and sums count denormals as zeros.
inline float flushed(float x) {
  return __builtin_fabsf(x) < 1.17549435e-38f ? __builtin_copysignf(0.0f, x) : x;
}
inline uint16_t to_bf16(float x) {
  uint32_t bits;
  x = flushed(x);
  std::memcpy(&bits, &x, 4);
  if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float from_bf16(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return flushed(x);
}
inline Halves two_to_bf16(Floats upper, Floats lower) {
  const Lanes<float> a(lower), b(upper);
  Lanes<uint16_t> both(lower);
  for (int i = 0; i < 16; ++i) {
    both.lane[i] = to_bf16(a.lane[i]);
    both.lane[i + 16] = to_bf16(b.lane[i]);
  }
  return both.as<Halves>();
}
inline __m256i one_to_bf16(Floats x) {
  const Lanes<float> a(x);
  uint16_t half[16];
  for (int i = 0; i < 16; ++i) half[i] = to_bf16(a.lane[i]);
  __m256i y;
  std::memcpy(&y, half, 32);
  return y;
}
// VDPBF16PS: the odd product first, then the even one, each by a fused multiply-add.
inline Floats dot_bf16(Floats sums, Halves a, Halves b) {
  Lanes<float> sum(sums);
  const Lanes<uint16_t> x(a), y(b);
  for (int i = 0; i < 16; ++i) {
    float t = flushed(sum.lane[i]);
    t = flushed(__builtin_fmaf(from_bf16(x.lane[2 * i + 1]), from_bf16(y.lane[2 * i + 1]), t));
    sum.lane[i] = flushed(__builtin_fmaf(from_bf16(x.lane[2 * i]), from_bf16(y.lane[2 * i]), t));
  }
  return sum.as<Floats>();
}

}  // namespace
}  // namespace nsa::avx512_model

// Instead of the compiler's intrinsics, and of SIMDe's where it has them.
#undef _mm512_maskz_scalef_ps
#undef _mm512_dpbf16_ps
#define _mm512_cvtepi32_epi16(x) nsa::avx512_model::narrow(x)
#define _mm512_cvtepu16_epi32(x) nsa::avx512_model::widen(x)
#define _mm512_cvtps_epi32(x) nsa::avx512_model::to_integers(x)
#define _mm512_cvtph_ps(x) nsa::avx512_model::from_halves(x)
#define _mm512_cvtps_ph(x, how) nsa::avx512_model::to_halves<how>(x)
#define _mm512_maskz_loadu_epi16(there, p) nsa::avx512_model::load_some(there, p)
#define _mm512_shuffle_f32x4(x, y, quarters) nsa::avx512_model::shuffle_quarters<quarters>(x, y)
#define _mm512_stream_si512(p, x) nsa::avx512_model::stream(p, x)
#define _mm512_reduce_add_ps(x) nsa::avx512_model::sum(x)
#define _mm512_reduce_max_ps(x) nsa::avx512_model::largest(x)
#define _mm512_reduce_ps(x, how) nsa::avx512_model::above_floor<how>(x)
#define _mm512_maskz_scalef_ps(kept, x, y) nsa::avx512_model::scaled(kept, x, y)
#define _mm512_cvtne2ps_pbh(x, y) nsa::avx512_model::two_to_bf16(x, y)
#define _mm512_cvtneps_pbh(x) nsa::avx512_model::one_to_bf16(x)
#define _mm512_dpbf16_ps(sum, x, y) nsa::avx512_model::dot_bf16(sum, x, y)

// Macros by which a translation unit asks the compiler.
#define __AVX512F__ 1
#ifdef NSA_AVX512_MODEL_BF16
#define __AVX512BF16__ 1
#endif
// held() ties a vector to a register, which 64 bytes have none of here.
#define asm(...)
