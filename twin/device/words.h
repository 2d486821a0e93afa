// Small things that CANN's base headers bring along: qualifiers, sizes, type tests, the kind of the
// core.
#pragma once

#include <cassert>

#include "twin/device/std.h"
#include "twin/device/types.h"

#ifndef likely
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#endif
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif

namespace twin {

TWIN_API int64_t BlockOfCore(const Where& where);
TWIN_API int64_t SystemCycle(const Where& where);
TWIN_API void ResetState(const Where& where);

// A variable of the device that every core has its own value of, like g_coreType.
struct BlockIndex {
  operator int64_t() const { return BlockOfCore({}); }
};

}  // namespace twin

[[maybe_unused]] constexpr twin::BlockIndex block_idx{};

// The scalar functions that CANN's compiler has without a header.
#define TWIN_MIN_MAX(T)                               \
  constexpr T min(T a, T b) { return b < a ? b : a; } \
  constexpr T max(T a, T b) { return a < b ? b : a; }
TWIN_MIN_MAX(int8_t)
TWIN_MIN_MAX(uint8_t)
TWIN_MIN_MAX(int16_t)
TWIN_MIN_MAX(uint16_t)
TWIN_MIN_MAX(int32_t)
TWIN_MIN_MAX(uint32_t)
TWIN_MIN_MAX(long)
TWIN_MIN_MAX(unsigned long)
TWIN_MIN_MAX(long long)
TWIN_MIN_MAX(unsigned long long)
TWIN_MIN_MAX(float)
#undef TWIN_MIN_MAX

namespace AscendC {

constexpr int32_t ONE_BLK_SIZE = 32;
constexpr int32_t TWO_BLK_SIZE = 64;
constexpr int32_t DEFAULT_BLOCK_SIZE = 256;
constexpr int32_t ONE_BYTE_BIT_SIZE = 8;
constexpr uint64_t FULL_MASK = ~uint64_t{0};
constexpr int32_t FULL_MASK_LEN = 128;
constexpr int32_t HALF_MASK_LEN = 64;
constexpr uint16_t MAX_HALF_MASK_LEN = 64;
constexpr uint8_t HALF_DEFAULT_REPEAT_STRIDE = 4;
constexpr int32_t HALF_FACTOR = 2;
constexpr uint8_t B64_BYTE_SIZE = 8;
constexpr uint8_t B32_BYTE_SIZE = 4;
constexpr uint8_t B16_BYTE_SIZE = 2;
constexpr uint8_t B8_BYTE_SIZE = 1;
constexpr uint8_t B32_DATA_NUM_PER_BLOCK = 8;
constexpr uint8_t B16_DATA_NUM_PER_BLOCK = 16;
constexpr int32_t B32_DATA_NUM_PER_REPEAT = 64;
constexpr int32_t B16_DATA_NUM_PER_REPEAT = 128;
constexpr uint32_t HALF_REPEAT_SIZE = 128;
constexpr uint32_t FLOAT_REPEAT_SIZE = 64;
constexpr uint32_t ONE_REPEAT_HALF_SIZE = 128;
constexpr uint32_t ONE_REPEAT_FLOAT_SIZE = 64;
constexpr uint32_t ONE_BLK_HALF_NUM = 16;
constexpr uint32_t ONE_BLK_FLOAT_NUM = 8;
constexpr int32_t MAX_BLOCK_COUNT = 4095;
constexpr int32_t MAX_BLOCK_LEN = 65535;
constexpr uint32_t F32_INF = 0x7f800000;
constexpr uint32_t F32_NEG_INF = 0xff800000;
constexpr uint32_t F32_NAN = 0x7fc00000;
constexpr int32_t K_MAX_DIM = 8;
constexpr int32_t BLOCK_CUBE = 16;
constexpr int32_t CUBE_MAX_SIZE = 256;
constexpr int32_t MAX_REPEAT_TIMES = 255;
constexpr uint32_t DEFAULT_C0_SIZE = 32;
constexpr int32_t ONE_REPEAT_BYTE_SIZE = 256;
constexpr int32_t TOTAL_L0A_SIZE = 64 * 1024;
constexpr int32_t TOTAL_L0B_SIZE = 64 * 1024;
constexpr int32_t TOTAL_L0C_SIZE = 128 * 1024;
constexpr int32_t TOTAL_UB_SIZE = 192 * 1024;
constexpr uint32_t TMP_UB_OFFSET = 184 * 1024;

template <typename T, typename U>
struct IsSameType {
  static constexpr bool value = std::is_same<T, U>::value;
};
template <bool condition, class T, class U>
struct Conditional {
  using type = std::conditional_t<condition, T, U>;
};

constexpr uint32_t Ceil(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
constexpr uint32_t ConstCeil(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
constexpr uint32_t DivCeil(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
constexpr uint32_t AlignUp(uint32_t a, uint32_t b) { return DivCeil(a, b) * b; }

// Scalar conversions.
inline float Cast(const bfloat16_t& bVal) { return static_cast<float>(bVal); }
inline bfloat16_t Cast(const float& fVal) { return bfloat16_t(fVal); }
inline float ToFloat(const bfloat16_t& bVal) { return static_cast<float>(bVal); }
inline bfloat16_t ToBfloat16(const float& fVal) { return bfloat16_t(fVal); }

// Atomic stores off and the whole mask, in normal mode.
inline void InitSocState(twin::Where where = twin::Here()) { twin::ResetState(where); }
// Ticks of 50 MHz on the device. The twin counts the instructions that the core has issued: it
// rises, and is the same in every run.
inline int64_t GetSystemCycle(twin::Where where = twin::Here()) { return twin::SystemCycle(where); }
// Between kernels that CANN has merged into one; here every kernel is on its own.
template <pipe_t AIV_PIPE = PIPE_MTE3, pipe_t AIC_PIPE = PIPE_FIX, bool FORCE = false>
void SetNextTaskStart() {}
template <bool FORCE = false>
void WaitPreTaskEnd() {}
// The address of the flags between cores, which the twin has elsewhere.
inline void SetSyncBaseAddr(uint64_t) {}
// Hints for the instruction cache.
inline void ICachePreLoad(const int64_t) {}
#ifndef PRELOAD
#define PRELOAD(len) static_cast<void>(0)
#endif

template <int countValue>
int64_t GetBitCount(uint64_t valueIn) {
  static_assert(countValue == 0 || countValue == 1, "GetBitCount counts 0 or 1");
  const int ones = __builtin_popcountll(valueIn);
  return countValue == 1 ? ones : 64 - ones;
}
template <int countValue>
int64_t ScalarGetCountOfValue(uint64_t valueIn) {
  return GetBitCount<countValue>(valueIn);
}
inline int64_t CountLeadingZero(uint64_t valueIn) {
  return valueIn == 0 ? 64 : __builtin_clzll(valueIn);
}
inline int64_t ScalarCountLeadingZero(uint64_t valueIn) { return CountLeadingZero(valueIn); }
// Bits from the second highest on that are as the sign bit; -1 where all of them are.
inline int64_t CountBitsCntSameAsSignBit(int64_t valueIn) {
  const uint64_t differs = static_cast<uint64_t>(valueIn < 0 ? ~valueIn : valueIn);
  return differs == 0 ? -1 : __builtin_clzll(differs) - 1;
}
// The lowest bit of that value; -1 where there is none.
template <int countValue>
int64_t GetSFFValue(uint64_t valueIn) {
  static_assert(countValue == 0 || countValue == 1, "GetSFFValue looks for 0 or 1");
  const uint64_t ones = countValue == 1 ? valueIn : ~valueIn;
  return ones == 0 ? -1 : __builtin_ctzll(ones);
}
template <int countValue>
int64_t ScalarGetSFFValue(uint64_t valueIn) {
  return GetSFFValue<countValue>(valueIn);
}

}  // namespace AscendC
