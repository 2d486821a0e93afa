// Built on the primitives of the chosen vec_*.h: exponential, element conversion, padded copies,
// words spread over a vector.
#pragma once

#include "cpu/engine/simd/vec.h"
#include "cpu/types.h"

namespace nsa::cpu {
namespace {

// exp(x) with a relative error below 1.5 ulp for x <= 88; exactly 0 for x < -87.3 (below the
// smallest normal number: subnormal operands would slow the matmul down). NaN gives NaN.
inline V exp(V x) {
  const V lowest = set1(-87.3365f);
  V t = max(lowest, x);
  V n = round_even(mul(t, set1(1.44269504f)));
  V r = fma(n, set1(-0.693359375f), t);  // ln 2 as a sum of two: n times the first is exact
  r = fma(n, set1(2.12194440e-4f), r);
  // exp(r) = 1 + r + r^2 q(r) on |r| <= ln(2) / 2, q fitted for the least relative error (3e-9).
  V q = set1(0.00138145825f);
  q = fma(q, r, set1(0.00836871844f));
  q = fma(q, r, set1(0.0416683890f));
  q = fma(q, r, set1(0.166665211f));
  q = fma(q, r, set1(0.499999940f));
  V e = add(fma(mul(r, r), q, r), set1(1.0f));
  return where_lt(x, lowest, zero(), mul(e, pow2i(n)));
}

// 2^x with a relative error below 1.5 ulp for x <= 127; exactly 0 for x < -126. NaN gives NaN. The
// polynomials are fitted for the least relative error (2e-9): with powers for |r| <= 1 / 32, on 0
// <= r < 1 where that fraction of x takes one instruction, elsewhere for |r| <= 1 / 2.
inline V exp2(V x) {
#if defined(NSA_HAS_POWERS)
  return pow2_by_powers(x, [](V r) {
    V p = set1(0.0555021353f);
    p = fma(p, r, set1(0.240234286f));
    p = fma(p, r, set1(0.693147182f));
    return mul(p, r);
  });
#elif defined(NSA_HAS_REDUCE)
  const V r = above_floor(x);
  V p = set1(2.16129149e-4f);
  p = fma(p, r, set1(1.24678470e-3f));
  p = fma(p, r, set1(9.67545155e-3f));
  p = fma(p, r, set1(5.54852821e-2f));
  p = fma(p, r, set1(0.240229309f));
  p = fma(p, r, set1(0.693147063f));
  return scale_pow2(fma(p, r, set1(1.0f)), x);
#else
  const V lowest = set1(-126.0f);
#ifdef NSA_HAS_NEAREST_POW2
  V r;
  const V power = nearest_pow2(x, r);
#else
  const V t = max(lowest, x), n = round_even(t), r = sub(t, n);
#endif
  V p = set1(1.53533620e-4f);
  p = fma(p, r, set1(1.33988750e-3f));
  p = fma(p, r, set1(9.61843692e-3f));
  p = fma(p, r, set1(5.55033237e-2f));
  p = fma(p, r, set1(0.240226477f));
  p = fma(p, r, set1(0.693147182f));
  p = fma(p, r, set1(1.0f));
#ifdef NSA_HAS_NEAREST_POW2
  return zero_below(x, lowest, mul(p, power));
#else
  return where_lt(x, lowest, zero(), mul(p, pow2i(n)));
#endif
#endif
}

#ifndef NSA_HAS_ACROSS_ROWS
// Lane r of the result: the largest lane, or the sum, of x[r], r < W.
inline V max_rows(const V* x) {
  float lanes[W];
  for (int r = 0; r < W; ++r) lanes[r] = hmax(x[r]);
  return load(lanes);
}
inline V sum_rows(const V* x) {
  float lanes[W];
  for (int r = 0; r < W; ++r) lanes[r] = hsum(x[r]);
  return load(lanes);
}
#endif

constexpr float kLog2e = 1.44269504f;

inline float exp1(float x) {
  float lanes[W];
  store(lanes, exp(set1(x)));
  return lanes[0];
}

inline float exp2_1(float x) {
  float lanes[W];
  store(lanes, exp2(set1(x)));
  return lanes[0];
}

inline float load1(ElemType t, const void* p, int64_t i) {
  if (t == ElemType::kFloat32) {
    float x;
    __builtin_memcpy(&x, static_cast<const char*>(p) + 4 * i, 4);
    return x;
  }
  uint16_t h;
  __builtin_memcpy(&h, static_cast<const char*>(p) + 2 * i, 2);
  return t == ElemType::kFloat16 ? f16_to_float(h) : bf16_to_float(h);
}

inline void store1(ElemType t, void* p, int64_t i, float x) {
  if (t == ElemType::kFloat32) {
    __builtin_memcpy(static_cast<char*>(p) + 4 * i, &x, 4);
    return;
  }
  uint16_t h = t == ElemType::kFloat16 ? float_to_f16(x) : float_to_bf16(x);
  __builtin_memcpy(static_cast<char*>(p) + 2 * i, &h, 2);
}

// dst[0..n) = float(src[offset..offset + n)).
inline void to_float(ElemType t, const void* src, int64_t offset, int64_t n, float* dst) {
  const char* p = static_cast<const char*>(src) + offset * elem_size(t);
  int64_t i = 0;
  switch (t) {
    case ElemType::kFloat32:
      __builtin_memcpy(dst, p, static_cast<size_t>(n) * 4);
      return;
    case ElemType::kFloat16:
      for (; i + W <= n; i += W) store(dst + i, load_f16(reinterpret_cast<const uint16_t*>(p) + i));
      break;
    case ElemType::kBFloat16:
      for (; i + W <= n; i += W)
        store(dst + i, load_bf16(reinterpret_cast<const uint16_t*>(p) + i));
      break;
  }
  for (; i < n; ++i) dst[i] = load1(t, p, i);
}

// dst[offset..offset + n) = src[0..n) rounded to nearest even.
inline void from_float(ElemType t, const float* src, int64_t n, void* dst, int64_t offset) {
  char* p = static_cast<char*>(dst) + offset * elem_size(t);
  int64_t i = 0;
  switch (t) {
    case ElemType::kFloat32:
      __builtin_memcpy(p, src, static_cast<size_t>(n) * 4);
      return;
    case ElemType::kFloat16:
      for (; i + W <= n; i += W) store_f16(reinterpret_cast<uint16_t*>(p) + i, load(src + i));
      break;
    case ElemType::kBFloat16:
      for (; i + W <= n; i += W) store_bf16(reinterpret_cast<uint16_t*>(p) + i, load(src + i));
      break;
  }
  for (; i < n; ++i) store1(t, p, i, src[i]);
}

inline void fill(float* dst, int64_t n, float value) {
  for (int64_t i = 0; i < n; ++i) dst[i] = value;
}

inline void add_to(float* dst, const float* src, int64_t n) {
  int64_t i = 0;
  for (; i + W <= n; i += W) store(dst + i, add(load(dst + i), load(src + i)));
  for (; i < n; ++i) dst[i] += src[i];
}

// dst[0..n) = src[0..n), with zeros to the end of a vector; dst may be src. Gives acc plus 0 times
// every element, which is 0 where it was and they are finite.
inline V copy_checked(const float* src, int64_t n, float* dst, V acc) {
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const V x = load(src + i);
    store(dst + i, x);
    acc = fma(x, zero(), acc);
  }
  if (i < n) {
    for (int64_t k = i; k < i + W; ++k) dst[k] = k < n ? src[k] : 0.0f;
    acc = fma(load(dst + i), zero(), acc);
  }
  return acc;
}

// Neither NaN nor infinite, all of them: zero times anything else is not zero.
inline bool all_finite(const float* x, int64_t n) {
  V acc[4] = {zero(), zero(), zero(), zero()};  // one alone would wait for its last addition
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W)
    for (int k = 0; k < 4; ++k) acc[k] = fma(load(x + i + k * W), zero(), acc[k]);
  for (; i + W <= n; i += W) acc[0] = fma(load(x + i), zero(), acc[0]);
  float sum = hsum(add(add(acc[0], acc[1]), add(acc[2], acc[3])));
  for (; i < n; ++i) sum += x[i] * 0.0f;
  return sum == 0.0f;
}

// Sum of a[i] * b[i] from the first to the last, with the rounding of the vector fma.
inline float dot_in_order(const float* a, const float* b, int64_t n) {
#ifdef NSA_ISA_SCALAR
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum = fma(a[i], b[i], sum);
  return sum;
#else
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum = __builtin_fmaf(a[i], b[i], sum);
  return sum;
#endif
}

// kRows dot products at once, rows `row` apart: one sum alone would wait for each addition.
template <int kRows>
inline void dots_in_order(const float* a, const float* b, int64_t row, int64_t n, float* sums) {
  for (int k = 0; k < kRows; ++k) sums[k] = 0.0f;
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 8
    for (int k = 0; k < kRows; ++k) {
#ifdef NSA_ISA_SCALAR
      sums[k] = fma(a[k * row + i], b[k * row + i], sums[k]);
#else
      sums[k] = __builtin_fmaf(a[k * row + i], b[k * row + i], sums[k]);
#endif
    }
  }
}

#ifdef NSA_HAS_BF16_DOT
// dot_in_order() for n words of two bf16, with the rounding of their vector product.
inline float dot_words_in_order(const float* a, const float* b, int64_t n) {
  V sum = zero();
  for (int64_t i = 0; i < n; ++i) sum = dot_bf16(sum, set1(a[i]), set1(b[i]));
  return hmax(sum);
}

template <int kRows>
inline void dots_words_in_order(const float* a, const float* b, int64_t row, int64_t n,
                                float* sums) {
  V sum[kRows];
#pragma GCC unroll 8
  for (int k = 0; k < kRows; ++k) sum[k] = zero();
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 8
    for (int k = 0; k < kRows; ++k)
      sum[k] = dot_bf16(sum[k], set1(a[k * row + i]), set1(b[k * row + i]));
  }
#pragma GCC unroll 8
  for (int k = 0; k < kRows; ++k) sums[k] = hmax(sum[k]);
}
#endif

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
