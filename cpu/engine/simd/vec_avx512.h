// AVX-512 vector layer: 16 float lanes, 32 registers.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace nsa::cpu {
namespace {

constexpr int W = 16;
// Register tile of the matmul: 6 x 4 accumulators, 4 vectors of B and one broadcast fill 29 of the
// 32 registers; 24 independent FMAs cover the latency of 4 cycles on two ports three times over.
constexpr int kMR = 6;
constexpr int kNR = 4;

using V = __m512;

inline V zero() { return _mm512_setzero_ps(); }
inline V set1(float x) { return _mm512_set1_ps(x); }
inline V load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, V x) { _mm512_storeu_ps(p, x); }
inline V add(V a, V b) { return _mm512_add_ps(a, b); }
inline V sub(V a, V b) { return _mm512_sub_ps(a, b); }
inline V mul(V a, V b) { return _mm512_mul_ps(a, b); }
inline V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
// x, which the compiler shall not load again for its next use, nor sooner use p.
template <class T>
inline V held(V x, const T*& p) {
  asm("" : "+v"(x), "+r"(p));
  return x;
}
// max and min give b where either operand is NaN, so a NaN in b goes through.
inline V max(V a, V b) { return _mm512_max_ps(a, b); }
inline V min(V a, V b) { return _mm512_min_ps(a, b); }
inline V where_lt(V a, V b, V x, V y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
inline V iota() { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
inline V round_even(V x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// 2^n for integral n in [-126, 127].
inline V pow2i(V n) {
  __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}
#ifdef NSA_ISA_AMX
#define NSA_HAS_REDUCE 1
// x - floor(x). It takes two steps of a multiplier on
// processors with AMX, which are no faster by additions.
inline V above_floor(V x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
// p 2^floor(x); 0 where x < -126, and NaN for NaN.
inline V scale_pow2(V p, V x) {
  const __mmask16 kept = _mm512_cmp_ps_mask(x, set1(-126.0f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(kept, p, x);
}
#else
// Others get 16 powers in a register and a shorter polynomial: additions, permutations and shifts
// have ports beside the multipliers on Zen 4.
#define NSA_HAS_POWERS 1
// 2^x for x <= 127, 0 where x < -126, and NaN for NaN: 2^(n / 16) of the nearest n / 16, times 2^r
// of the rest, |r| <= 1 / 32, of which f(r) gives 2^r - 1.
template <class Exp2Minus1>
[[gnu::always_inline]] inline V pow2_by_powers(V x, const Exp2Minus1& f) {
  const V shift = set1(786432.0f);  // 1.5 * 2^19: the last place of a sum with it is 1 / 16
  const V sum = add(x, shift), r = sub(x, sub(sum, shift));
  const __m512i n = _mm512_castps_si512(sum);  // in its last bits
  // The bits of 2^(j / 16), less those that j itself becomes where n is shifted into the exponent.
  const __m512i powers =
      _mm512_setr_epi32(0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532,
                        0x3f75fed7, 0x3f75583f, 0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c,
                        0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d);
  const V power = _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_permutexvar_epi32(n, powers), _mm512_slli_epi32(n, 19)));
  const __mmask16 kept = _mm512_cmp_ps_mask(x, set1(-126.0f), _CMP_NLT_UQ);
  return _mm512_maskz_fmadd_ps(kept, power, f(r), power);
}
#endif
inline float hmax(V x) { return _mm512_reduce_max_ps(x); }
inline float hsum(V x) { return _mm512_reduce_add_ps(x); }

// Two words, over and over.
inline V spread_two(const char* p) {
  double words;
  __builtin_memcpy(&words, p, 8);
  return _mm512_castpd_ps(_mm512_set1_pd(words));
}
// Two bf16 as floats, likewise.
inline V spread_two_bf16(const char* p) {
  int32_t words;
  __builtin_memcpy(&words, p, 4);
  const __m512i order = _mm512_set1_epi64(0x0302808001008080);  // bytes; 0x80 gives 0
  return _mm512_castsi512_ps(_mm512_shuffle_epi8(_mm512_set1_epi32(words), order));
}
// In every four lanes a0 + a1, a2 + a3, b0 + b1, b2 + b3.
inline V add_neighbours(V a, V b) {
  return add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

// Lane r of the result: op over all lanes of x[r], r < W. A step halves the vectors and doubles the
// rows in each: 45 instructions instead of 8 or more a row.
template <class Op>
inline V across_rows(const V* x, const Op& op) {
  V y[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const auto halves = [&](V a, V b) {
      return op(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    };
    const V p = halves(x[k], x[k + 4]), q = halves(x[k + 8], x[k + 12]);
    y[k] = op(_mm512_shuffle_f32x4(p, q, 0x88), _mm512_shuffle_f32x4(p, q, 0xdd));
  }
  // Quarter l of y[k] holds what is left of row 4 l + k.
  const V p = op(_mm512_shuffle_ps(y[0], y[1], 0x44), _mm512_shuffle_ps(y[0], y[1], 0xee));
  const V q = op(_mm512_shuffle_ps(y[2], y[3], 0x44), _mm512_shuffle_ps(y[2], y[3], 0xee));
  return op(_mm512_shuffle_ps(p, q, 0x88), _mm512_shuffle_ps(p, q, 0xdd));
}
#define NSA_HAS_ACROSS_ROWS 1
inline V max_rows(const V* x) {
  return across_rows(x, [](V a, V b) { return max(a, b); });
}
inline V sum_rows(const V* x) {
  return across_rows(x, [](V a, V b) { return add(a, b); });
}

#ifdef NSA_ISA_AMX
// Numbers as sums of three bf16 that are exact, NaN or infinity giving NaN in one of them. Of
// numbers times kBf16x3Scale no term is denormal, which tiles count as 0, if the number is not.
constexpr float kBf16x3Scale = 16777216.0f;  // 2^24
// The larger magnitudes of two, NaN being the largest; whether all are below a bound.
inline V largest_magnitude(V top, V x) {
  const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(top), magnitude));
}
inline bool all_below(V top, float bound) {
  return _mm512_cmp_ps_mask(top, set1(bound), _CMP_LT_OQ) == 0xffff;
}
// Upper halves of a and b as 2 W bf16 in their order.
inline V join_upper(V a, V b) {
  const __m512i order =
      _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                       25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_castsi512_ps(
      _mm512_permutex2var_epi16(_mm512_castps_si512(a), order, _mm512_castps_si512(b)));
}
// Upper halves as words: lane i of even below lane i of odd.
inline V word_upper(V even, V odd) {
  const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even), 16);
  return _mm512_castsi512_ps(_mm512_mask_blend_epi16(0xaaaaaaaau, low, _mm512_castps_si512(odd)));
}
// put(n, join of term n of a and b). A term is the rest rounded to the nearest, not cut off: the
// products that are left out are then below 2^-24 of the whole, and of either sign. Of NaN the sum
// may wrap around, and the last term is NaN.
template <class Join, class Put>
[[gnu::always_inline]] inline void split_bf16x3(V a, V b, const Join& join, const Put& put) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const auto nearest_upper = [&](V x) {
    const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
    return _mm512_castsi512_ps(_mm512_and_si512(bits, upper));
  };
#pragma GCC unroll 2
  for (int64_t n = 0; n < 2; ++n) {
    const V x = nearest_upper(a), y = nearest_upper(b);
    put(n, join(x, y));
    a = sub(a, x);
    b = sub(b, y);
  }
  put(2, join(a, b));
}

// dst[c][r] = word c of row(r), for W rows of W words.
template <class Row>
inline void transpose_16x16(const Row& row, float* dst, int64_t ldd) {
  V a[W], b[W];
#pragma GCC unroll 16
  for (int r = 0; r < W; ++r) a[r] = row(r);
  // Within quarters of a vector: rows 4 k to 4 k + 3 become columns of all quarters.
#pragma GCC unroll 4
  for (int k = 0; k < W; k += 4) {
    const V low01 = _mm512_unpacklo_ps(a[k], a[k + 1]), high01 = _mm512_unpackhi_ps(a[k], a[k + 1]);
    const V low23 = _mm512_unpacklo_ps(a[k + 2], a[k + 3]);
    const V high23 = _mm512_unpackhi_ps(a[k + 2], a[k + 3]);
    b[k] = _mm512_shuffle_ps(low01, low23, 0x44);
    b[k + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
    b[k + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
    b[k + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
  }
  // Quarter q of b[4 k + c] is column 4 q + c of rows 4 k and on.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const V even01 = _mm512_shuffle_f32x4(b[c], b[c + 4], 0x88);
    const V odd01 = _mm512_shuffle_f32x4(b[c], b[c + 4], 0xdd);
    const V even23 = _mm512_shuffle_f32x4(b[c + 8], b[c + 12], 0x88);
    const V odd23 = _mm512_shuffle_f32x4(b[c + 8], b[c + 12], 0xdd);
    store(dst + c * ldd, _mm512_shuffle_f32x4(even01, even23, 0x88));
    store(dst + (c + 4) * ldd, _mm512_shuffle_f32x4(odd01, odd23, 0x88));
    store(dst + (c + 8) * ldd, _mm512_shuffle_f32x4(even01, even23, 0xdd));
    store(dst + (c + 12) * ldd, _mm512_shuffle_f32x4(odd01, odd23, 0xdd));
  }
}
inline void transpose_16x16(const float* src, int64_t lds, float* dst, int64_t ldd) {
  transpose_16x16([&](int r) { return load(src + r * lds); }, dst, ldd);
}
#endif

inline V load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store_f16(uint16_t* p, V x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline V load_bf16(const uint16_t* p) {
  __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}
// The upper halves are x as bf16. Nearest even: add 0x7fff plus the bit that will be the last; a
// NaN only gets its quiet bit.
inline __m512i rounded_bits_bf16(V x) {
  const __m512i u = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i q = _mm512_or_si512(u, _mm512_set1_epi32(0x00400000));
  return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), r, q);
}
inline void store_bf16(uint16_t* p, V x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_bits_bf16(x), 16)));
}
// bf16 rounding that returns floats.
#define NSA_HAS_ROUND_BF16 1
inline V round_bf16(V x) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  return _mm512_castsi512_ps(_mm512_and_si512(rounded_bits_bf16(x), upper));
}

#ifdef __AVX512BF16__
#define NSA_HAS_BF16_DOT 1
// acc[lane] += a[2 lane] b[2 lane] + a[2 lane + 1] b[2 lane + 1], operands are words of two bf16.
inline V dot_bf16(V acc, V a, V b) {
  return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
// Words of bf16, rounded to nearest even: lane i of even below lane i of odd.
inline V word_bf16(V even, V odd) {
  const __m512i order = _mm512_set_epi32(0x1f000f, 0x1e000e, 0x1d000d, 0x1c000c, 0x1b000b, 0x1a000a,
                                         0x190009, 0x180008, 0x170007, 0x160006, 0x150005, 0x140004,
                                         0x130003, 0x120002, 0x110001, 0x100000);
  const __m512bh both = _mm512_cvtne2ps_pbh(odd, even);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, reinterpret_cast<__m512i>(both)));
}
// Lanes of a and then of b, rounded to nearest even, as 2 W bf16.
inline V join_bf16(V a, V b) {
  return _mm512_castsi512_ps(reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(b, a)));
}
inline void store_joined_bf16(float* p, V a, V b) { store(p, join_bf16(a, b)); }
// 2 W bf16 of which n are in memory, the others being 0. kWhole: all of them.
template <bool kWhole>
inline V load_words(const char* p, int64_t n) {
  if (kWhole) return _mm512_loadu_ps(p);
  const __mmask32 there = n >= 2 * W ? ~0u : (1u << n) - 1;
  return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(there, p));
}
// Words of neighbours from 2 W bf16 each: of every 8 columns the first 4 in `low`.
inline void interleave_bf16(V even, V odd, V& low, V& high) {
  const __m512i a = _mm512_castps_si512(even), b = _mm512_castps_si512(odd);
  low = _mm512_castsi512_ps(_mm512_unpacklo_epi16(a, b));
  high = _mm512_castsi512_ps(_mm512_unpackhi_epi16(a, b));
}
// Words in the order of columns, the first W of them in `first`.
inline void word_columns(V even, V odd, V& first, V& second) {
  const __m512i order = _mm512_set_epi32(0x2f000f, 0x2e000e, 0x2d000d, 0x2c000c, 0x2b000b, 0x2a000a,
                                         0x290009, 0x280008, 0x270007, 0x260006, 0x250005, 0x240004,
                                         0x230003, 0x220002, 0x210001, 0x200000);
  const __m512i half = _mm512_set1_epi16(W);
  const __m512i a = _mm512_castps_si512(even), b = _mm512_castps_si512(odd);
  first = _mm512_castsi512_ps(_mm512_permutex2var_epi16(a, order, b));
  second = _mm512_castsi512_ps(_mm512_permutex2var_epi16(a, _mm512_add_epi16(order, half), b));
}
// Larger magnitudes of bf16 numbers, and below whether all of those are finite.
inline V largest_bf16(V top, V x) {
  const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi16(0x7fff));
  return _mm512_castsi512_ps(_mm512_max_epu16(_mm512_castps_si512(top), magnitude));
}
inline bool finite_bf16(V top) {
  return _mm512_cmpge_epu16_mask(_mm512_castps_si512(top), _mm512_set1_epi16(0x7f80)) == 0;
}
// x[0..2 W) in the order of columns again.
inline void restore_columns(float* x) {
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
  const V low = load(x), high = load(x + W);
  store(x, _mm512_permutex2var_ps(low, first, high));
  store(x + W, _mm512_permutex2var_ps(low, second, high));
}
// W / 2 words of neighbouring lanes.
inline void store_words(float* p, V x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}
#endif

}  // namespace
}  // namespace nsa::cpu
