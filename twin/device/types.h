// The names that CANN's compiler and base headers give every kernel: function and address-space
// qualifiers, pipes, positions, memories, events.
#pragma once

#include <cstddef>
#include <cstdint>

#include "twin/device/dtype.h"
#include "twin/device/where.h"

// One architecture is implemented: dav-c220 (Atlas A2).
#ifndef __NPU_ARCH__
#define __NPU_ARCH__ 2201
#endif
#ifndef __CCE_AICORE__
#define __CCE_AICORE__ 220
#endif
#ifndef __DAV_C220__
#define __DAV_C220__ 1
#endif
#ifndef ASCENDC_CPU_DEBUG
#define ASCENDC_CPU_DEBUG 1
#endif
#ifndef __CCE_KT_TEST__
#define __CCE_KT_TEST__ 1
#endif

#ifndef __aicore__
#define __aicore__
#endif
#ifndef __global__
#define __global__
#endif
// A host compiler knows one address space. Analysis of kernels may define another (a cast in C's
// notation, as the headers here have it, leads out of it).
#ifndef __gm__
#define __gm__
#endif
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __fbuf__
#define __biasbuf__
#define __sync_alias__
#define __sync_noalias__
#define __inout_pipe__(pipe)
#define __WORKGROUP_LOCAL__
#define __BLOCK_LOCAL__
#define __mix__(cube, vector)
#define __cube__
#define __vector__

// A macro, as in CANN: `GM_ADDR a, b;` declares one pointer and a byte.
#define GM_ADDR __gm__ uint8_t*

enum pipe_t {
  PIPE_S = 0,
  PIPE_V,
  PIPE_M,
  PIPE_MTE1,
  PIPE_MTE2,
  PIPE_MTE3,
  PIPE_ALL,
  PIPE_MTE4,
  PIPE_MTE5,
  PIPE_V2,
  PIPE_FIX = 10,
};

enum event_t {
  EVENT_ID0 = 0,
  EVENT_ID1,
  EVENT_ID2,
  EVENT_ID3,
  EVENT_ID4,
  EVENT_ID5,
  EVENT_ID6,
  EVENT_ID7,
};

namespace AscendC {

using TEventID = int8_t;
using TTagType = int32_t;
using TBufHandle = uint8_t*;
constexpr TEventID INVALID_TEVENTID = static_cast<TEventID>(-1);

enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM = VECCALC,
  SPM,
  SHM = SPM,
  TSCM,
  C2PIPE2GM,
  C2PIPE2LOCAL,
  MAX,
};
using QuePosition = TPosition;

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

// Named source_destination.
enum class HardEvent : uint8_t {
  MTE2_MTE1,
  MTE1_MTE2,
  MTE1_M,
  M_MTE1,
  MTE2_V,
  V_MTE2,
  MTE3_V,
  V_MTE3,
  M_V,
  V_M,
  V_V,
  MTE3_MTE1,
  MTE1_MTE3,
  MTE1_V,
  MTE2_M,
  M_MTE2,
  V_MTE1,
  M_FIX,
  FIX_M,
  MTE3_MTE2,
  MTE2_MTE3,
  S_V,
  V_S,
  S_MTE2,
  MTE2_S,
  S_MTE3,
  MTE3_S,
  MTE2_FIX,
  FIX_MTE2,
  FIX_S,
  M_S,
  FIX_MTE3,
  MTE1_FIX,
  FIX_MTE1,
  FIX_FIX,
  MAX,
};

enum class TBufState : uint8_t { FREE = 0, OCCUPIED, ENQUE, DEQUE };
enum class CacheMode {
  CACHE_MODE_DISABLE = 0,
  CACHE_MODE_NORMAL = 1,
  CACHE_MODE_LAST = 2,
  CACHE_MODE_PERSISTENT = 4
};
enum class CacheRwMode : uint8_t { READ = 1, WRITE, RW };
enum class DataFormat : uint8_t { ND = 0, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };

// The memory behind a position on this architecture.
constexpr Hardware GetPhyType(TPosition position) {
  switch (position) {
    case TPosition::GM:
    case TPosition::CO2:
      return Hardware::GM;
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::SHM:
    case TPosition::TSCM:
      return Hardware::L1;
    case TPosition::A2:
      return Hardware::L0A;
    case TPosition::B2:
      return Hardware::L0B;
    case TPosition::C2:
      return Hardware::BIAS;
    case TPosition::CO1:
      return Hardware::L0C;
    case TPosition::C2PIPE2GM:
      return Hardware::FIXBUF;
    default:
      return Hardware::UB;
  }
}

}  // namespace AscendC

namespace twin {

TWIN_API bool IsVectorCore();
TWIN_API bool IsCubeCore();

// A variable of the device that every core has its own value of.
struct CoreKind {
  operator int32_t() const { return IsCubeCore() ? 1 : 2; }
};

using AscendC::HardEvent;
using AscendC::Hardware;
using AscendC::TPosition;

constexpr uint32_t kBlockBytes = 32;    // one data block
constexpr uint32_t kRepeatBytes = 256;  // what a vector instruction takes in one repeat
constexpr int kPipes = 7;               // S, V, M, MTE1, MTE2, MTE3, FIX
constexpr int kEventIds = 8;
constexpr int kMemories = static_cast<int>(Hardware::MAX);

constexpr int PipeIndex(pipe_t pipe) { return pipe == PIPE_FIX ? 6 : static_cast<int>(pipe); }

TWIN_API const char* PipeName(int index);
TWIN_API const char* MemoryName(Hardware memory);
TWIN_API const char* PositionName(TPosition position);
TWIN_API const char* EventName(HardEvent event);
// Bytes of a memory of one core; 0 for GM.
constexpr uint32_t MemoryBytes(Hardware memory) {
  switch (memory) {
    case Hardware::UB:
      return 192 * 1024;
    case Hardware::L1:
      return 512 * 1024;
    case Hardware::L0A:
    case Hardware::L0B:
      return 64 * 1024;
    case Hardware::L0C:
      return 128 * 1024;
    case Hardware::BIAS:
      return 1024;
    case Hardware::FIXBUF:
      return 7 * 1024;
    default:
      return 0;
  }
}

}  // namespace twin

namespace AscendC {

constexpr int32_t MIX = 0;
constexpr int32_t AIC = 1;
constexpr int32_t AIV = 2;

}  // namespace AscendC

// CANN compiles a kernel once for each kind of core and tells which by these macros, under an older
// name and a newer one; then the kind is a constant, and branches for the other kind are left out.
// Without them one compilation serves both kinds, and the kind is known when the kernel runs.
#if defined(__DAV_CUBE__) && !defined(__DAV_C220_CUBE__)
#define __DAV_C220_CUBE__ 1
#elif defined(__DAV_C220_CUBE__) && !defined(__DAV_CUBE__)
#define __DAV_CUBE__ 1
#endif
#if defined(__DAV_VEC__) && !defined(__DAV_C220_VEC__)
#define __DAV_C220_VEC__ 1
#elif defined(__DAV_C220_VEC__) && !defined(__DAV_VEC__)
#define __DAV_VEC__ 1
#endif
#if defined(__DAV_CUBE__) && defined(__DAV_VEC__)
#error "one compilation is for cube cores or for vector cores, or without either macro for both"
#endif
#if defined(__DAV_CUBE__) || defined(__DAV_VEC__)
#ifdef __DAV_CUBE__
constexpr int32_t g_coreType = AscendC::AIC;
#else
constexpr int32_t g_coreType = AscendC::AIV;
#endif
#define ASCEND_IS_AIV constexpr(g_coreType == AscendC::AIV)
#define ASCEND_IS_AIC constexpr(g_coreType == AscendC::AIC)
#define ASCEND_IS_NOT_AIV constexpr(g_coreType != AscendC::AIV)
#define ASCEND_IS_NOT_AIC constexpr(g_coreType != AscendC::AIC)
#else
[[maybe_unused]] constexpr twin::CoreKind g_coreType{};
#define ASCEND_IS_AIV (g_coreType == AscendC::AIV)
#define ASCEND_IS_AIC (g_coreType == AscendC::AIC)
#define ASCEND_IS_NOT_AIV (g_coreType != AscendC::AIV)
#define ASCEND_IS_NOT_AIC (g_coreType != AscendC::AIC)
#endif
