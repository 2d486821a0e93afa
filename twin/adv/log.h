// Log, Log2 and Log10: Ln, and for the latter two a product, Log2 of halves in single precision.
#pragma once

#include <algorithm>

#include "twin/adv/work_space.h"
#include "twin/vector/cast.h"
#include "twin/vector/elementwise.h"

namespace twin {

template <typename T>
void RunLog(const char* name, const AscendC::LocalTensor<T>& dst,
            const AscendC::LocalTensor<T>& src, uint32_t count, T factor, const Where& where) {
  CheckApart(name, dst, src, uint64_t{count} * sizeof(T), where);
  const int32_t n = static_cast<int32_t>(count);
  AscendC::Ln(dst, src, n, where);
  if (static_cast<float>(factor) == 1) return;
  AscendC::PipeBarrier<PIPE_V>(where);
  AscendC::Muls(dst, dst, factor, n, where);
}

// `space` is as large as it is given; every pass fills it.
inline void RunLog2(const AscendC::LocalTensor<half>& dst, const AscendC::LocalTensor<half>& src,
                    const AscendC::LocalTensor<uint8_t>& space, uint32_t count, float factor,
                    const Where& where) {
  using namespace AscendC;
  CheckApart("Log2", dst, src, uint64_t{count} * sizeof(half), where);
  const uint32_t pass = space.GetSize() / sizeof(float) / kBlockBytes * kBlockBytes;
  if (pass == 0) {
    Fail("Log2", where, Format("temporary space has %u bytes, 128 are needed", space.GetSize()));
  }
  const LocalTensor<float> wide = space.ReinterpretCast<float>();
  for (uint32_t at = 0; at < count; at += pass) {
    const uint32_t now = std::min(count - at, pass);
    const int32_t n = static_cast<int32_t>(now);
    Cast(wide, src[at], RoundMode::CAST_NONE, now, where);
    AscendC::PipeBarrier<PIPE_V>(where);
    Ln(wide, wide, n, where);
    AscendC::PipeBarrier<PIPE_V>(where);
    Muls(wide, wide, factor, n, where);
    AscendC::PipeBarrier<PIPE_V>(where);
    Cast(dst[at], wide, RoundMode::CAST_NONE, now, where);
    AscendC::PipeBarrier<PIPE_V>(where);
  }
}

}  // namespace twin

namespace AscendC {

#define TWIN_LOG(Name, factor)                                                                   \
  template <typename T, bool isReuseSource = false>                                              \
  void Name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, uint32_t calCount, \
            twin::Where where = twin::Here()) {                                                  \
    TWIN_DTYPES(#Name, T, half, float);                                                          \
    twin::RunLog(#Name, dstTensor, srcTensor, calCount, static_cast<T>(factor), where);          \
  }                                                                                              \
  template <typename T, bool isReuseSource = false>                                              \
  void Name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                    \
            twin::Where where = twin::Here()) {                                                  \
    Name(dstTensor, srcTensor, srcTensor.GetSize(), where);                                      \
  }
TWIN_LOG(Log, 1.0f)
TWIN_LOG(Log10, 0.43429448190325176f)
#undef TWIN_LOG

template <typename T, bool isReuseSource = false>
void Log2(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
          const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t calCount,
          twin::Where where = twin::Here()) {
  TWIN_DTYPES("Log2", T, half, float);
  constexpr float kFactor = 1.4426950408889634f;
  if constexpr (std::is_same<T, half>::value) {
    twin::RunLog2(dstTensor, srcTensor, sharedTmpBuffer, calCount, kFactor, where);
  } else {
    twin::RunLog("Log2", dstTensor, srcTensor, calCount, kFactor, where);
  }
}
template <typename T, bool isReuseSource = false>
void Log2(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
          const LocalTensor<uint8_t>& sharedTmpBuffer, twin::Where where = twin::Here()) {
  Log2(dstTensor, srcTensor, sharedTmpBuffer, srcTensor.GetSize(), where);
}
template <typename T, bool isReuseSource = false>
void Log2(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor, uint32_t calCount,
          twin::Where where = twin::Here()) {
  Log2(dstTensor, srcTensor, twin::FreeSpace(where), calCount, where);
}
template <typename T, bool isReuseSource = false>
void Log2(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,
          twin::Where where = twin::Here()) {
  Log2(dstTensor, srcTensor, srcTensor.GetSize(), where);
}

}  // namespace AscendC
