// AArch64 Advanced SIMD vector layer: 4 float lanes, 32 registers.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace nsa::cpu {
namespace {

constexpr int W = 4;
// 6 x 4 accumulators, 4 vectors of B and one broadcast: 29 of the 32 registers.
constexpr int kMR = 6;
constexpr int kNR = 4;

using V = float32x4_t;

inline V zero() { return vdupq_n_f32(0.0f); }
inline V set1(float x) { return vdupq_n_f32(x); }
// Through bytes: the pointers are aligned to an element only by contract, not by type rules.
inline V load(const float* p) {
  return vreinterpretq_f32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(p)));
}
inline void store(float* p, V x) {
  vst1q_u8(reinterpret_cast<uint8_t*>(p), vreinterpretq_u8_f32(x));
}
inline V add(V a, V b) { return vaddq_f32(a, b); }
inline V sub(V a, V b) { return vsubq_f32(a, b); }
inline V mul(V a, V b) { return vmulq_f32(a, b); }
inline V fma(V a, V b, V c) { return vfmaq_f32(c, a, b); }
// x, which the compiler shall not load again for its next use, nor sooner use p.
template <class T>
inline V held(V x, const T*& p) {
  asm("" : "+w"(x), "+r"(p));
  return x;
}
// max and min give b where either operand is NaN, so a NaN in b goes through.
inline V max(V a, V b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline V min(V a, V b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline V where_lt(V a, V b, V x, V y) { return vbslq_f32(vcltq_f32(a, b), x, y); }
inline V iota() {
  const float lanes[4] = {0, 1, 2, 3};
  return vld1q_f32(lanes);
}
inline V round_even(V x) { return vrndnq_f32(x); }
// 2^n for integral n in [-126, 127].
inline V pow2i(V n) {
  int32x4_t e = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
  return vreinterpretq_f32_s32(vshlq_n_s32(e, 23));
}
inline float hmax(V x) { return vmaxvq_f32(x); }
inline float hsum(V x) {
  float32x2_t s = vadd_f32(vget_low_f32(x), vget_high_f32(x));
  return vget_lane_f32(vpadd_f32(s, s), 0);
}

// Two words, over and over.
inline V spread_two(const char* p) {
  double words;
  __builtin_memcpy(&words, p, 8);
  return vreinterpretq_f32_f64(vdupq_n_f64(words));
}
// Two bf16 as floats, likewise.
inline V spread_two_bf16(const char* p) {
  uint32_t words;
  __builtin_memcpy(&words, p, 4);
  return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u32(vdup_n_u32(words)), 16));
}
// a0 + a1, a2 + a3, b0 + b1, b2 + b3.
inline V add_neighbours(V a, V b) { return vpaddq_f32(a, b); }

inline V load_f16(const uint16_t* p) {
  uint8x8_t b = vld1_u8(reinterpret_cast<const uint8_t*>(p));
  return vcvt_f32_f16(vreinterpret_f16_u8(b));
}
inline void store_f16(uint16_t* p, V x) {
  vst1_u8(reinterpret_cast<uint8_t*>(p), vreinterpret_u8_f16(vcvt_f16_f32(x)));
}
inline V load_bf16(const uint16_t* p) {
  uint16x4_t h = vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(p)));
  return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}
// Nearest even: add 0x7fff plus the bit that will be the last; a NaN only gets its quiet bit.
inline void store_bf16(uint16_t* p, V x) {
  uint32x4_t u = vreinterpretq_u32_f32(x);
  uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  uint32x4_t r = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  uint32x4_t q = vorrq_u32(u, vdupq_n_u32(0x00400000));
  r = vbslq_u32(vceqq_f32(x, x), r, q);
  vst1_u8(reinterpret_cast<uint8_t*>(p), vreinterpret_u8_u16(vshrn_n_u32(r, 16)));
}

}  // namespace
}  // namespace nsa::cpu
