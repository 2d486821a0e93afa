// AVX2 + FMA + F16C vector layer: 8 float lanes, 16 registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace nsa::cpu {
namespace {

constexpr int W = 8;
// 6 x 2 accumulators, 2 vectors of B and one broadcast: 15 of the 16 registers.
constexpr int kMR = 6;
constexpr int kNR = 2;

using V = __m256;

inline V zero() { return _mm256_setzero_ps(); }
inline V set1(float x) { return _mm256_set1_ps(x); }
inline V load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, V x) { _mm256_storeu_ps(p, x); }
inline V add(V a, V b) { return _mm256_add_ps(a, b); }
inline V sub(V a, V b) { return _mm256_sub_ps(a, b); }
inline V mul(V a, V b) { return _mm256_mul_ps(a, b); }
inline V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
// x, which the compiler shall not load again for its next use, nor sooner use p.
template <class T>
inline V held(V x, const T*& p) {
  asm("" : "+x"(x), "+r"(p));
  return x;
}
// max and min give b where either operand is NaN, so a NaN in b goes through.
inline V max(V a, V b) { return _mm256_max_ps(a, b); }
inline V min(V a, V b) { return _mm256_min_ps(a, b); }
inline V where_lt(V a, V b, V x, V y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
inline V iota() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
inline V round_even(V x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// 2^n for integral n in [-126, 127].
inline V pow2i(V n) {
  __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}
#define NSA_HAS_NEAREST_POW2 1
// 2^n of the integer n nearest to x, and what x is above it, for -126 <= x <= 127: a sum whose last
// place is 1 has n + 127 in its lowest bits, and takes no multiplier.
inline V nearest_pow2(V x, V& above) {
  const V shift = set1(12582912.0f + 127.0f);  // 1.5 * 2^23
  const V sum = add(x, shift);
  above = sub(x, sub(sum, shift));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(sum), 23));
}
// y, but 0 where x < lowest.
inline V zero_below(V x, V lowest, V y) {
  return _mm256_and_ps(_mm256_cmp_ps(x, lowest, _CMP_NLT_UQ), y);
}
inline float hmax(V x) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}
inline float hsum(V x) {
  __m128 m = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  m = _mm_add_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_add_ss(m, _mm_shuffle_ps(m, m, 1)));
}

// Two words, over and over.
inline V spread_two(const char* p) {
  double words;
  __builtin_memcpy(&words, p, 8);
  return _mm256_castpd_ps(_mm256_set1_pd(words));
}
// Two bf16 as floats, likewise.
inline V spread_two_bf16(const char* p) {
  int32_t words;
  __builtin_memcpy(&words, p, 4);
  const __m256i order = _mm256_set1_epi64x(0x0302808001008080);  // bytes; 0x80 gives 0
  return _mm256_castsi256_ps(_mm256_shuffle_epi8(_mm256_set1_epi32(words), order));
}
// In every four lanes a0 + a1, a2 + a3, b0 + b1, b2 + b3.
inline V add_neighbours(V a, V b) {
  return add(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

inline V load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline void store_f16(uint16_t* p, V x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline V load_bf16(const uint16_t* p) {
  __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}
// The upper halves are x as bf16. Nearest even: add 0x7fff plus the bit that will be the last; a
// NaN only gets its quiet bit.
inline __m256i rounded_bits_bf16(V x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i q = _mm256_or_si256(u, _mm256_set1_epi32(0x00400000));
  return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(r), _mm256_castsi256_ps(q),
                                              _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
inline void store_bf16(uint16_t* p, V x) {
  __m256i r = _mm256_srli_epi32(rounded_bits_bf16(x), 16);
  // packus works within 128-bit halves; the permutation brings the two halves together.
  r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(r));
}
// bf16 rounding that returns floats.
#define NSA_HAS_ROUND_BF16 1
inline V round_bf16(V x) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000));
  return _mm256_castsi256_ps(_mm256_and_si256(rounded_bits_bf16(x), upper));
}

}  // namespace
}  // namespace nsa::cpu
