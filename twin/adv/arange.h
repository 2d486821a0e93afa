// Arange and its older name ArithProgression: first, first + diff, first + 2 diff and so on. The
// scalar unit writes the first block, additions of its length make seven more, additions of eight
// blocks the rest. Whole blocks are written, and the mask register is left as the last addition had
// it.
#pragma once

#include <algorithm>

#include "twin/device/sync.h"
#include "twin/device/tpipe.h"
#include "twin/vector/elementwise.h"
#include "twin/vector/mask.h"

namespace twin {

TWIN_API void CheckProgression(const char* name, double diff, int32_t count, const Where& where);

template <typename T>
void WriteProgression(const AscendC::LocalTensor<T>& dst, T first, T diff, int32_t count,
                      const Where& where) {
  using Wide = std::conditional_t<std::is_same<T, half>::value, float, T>;
  for (int32_t i = 0; i < count; ++i) {
    const Wide value = static_cast<Wide>(static_cast<Wide>(first) +
                                         static_cast<Wide>(diff) * static_cast<Wide>(i));
    dst.SetValue(static_cast<uint32_t>(i), value, where);
  }
  const AscendC::TEventID event = GetTPipePtr(where)->FetchEventID(HardEvent::S_V, where);
  AscendC::SetFlag<HardEvent::S_V>(event, where);
  AscendC::WaitFlag<HardEvent::S_V>(event, where);
}

// `diff` times a number of elements, as the scalar unit computes it.
template <typename T>
T ProgressionStep(T diff, int32_t elements) {
  using Wide = std::conditional_t<std::is_integral<T>::value, int64_t, float>;
  return static_cast<T>(static_cast<Wide>(diff) * static_cast<Wide>(elements));
}

template <typename T>
void Progression(const char* name, const AscendC::LocalTensor<T>& dst, T first, T diff,
                 int32_t count, const Where& where) {
  using namespace AscendC;
  if ASCEND_IS_AIC
    return;
  CheckProgression(name, static_cast<double>(static_cast<float>(diff)), count, where);
  constexpr int32_t kBlock = kBlockBytes / sizeof(T), kRepeat = kRepeatBytes / sizeof(T);
  if (count <= kBlock) {
    const TEventID event = GetTPipePtr(where)->FetchEventID(HardEvent::V_S, where);
    AscendC::SetFlag<HardEvent::V_S>(event, where);
    AscendC::WaitFlag<HardEvent::V_S>(event, where);
    return WriteProgression(dst, first, diff, count, where);
  }
  WriteProgression(dst, first, diff, kBlock, where);
  const auto add = [&](int32_t at, int32_t elements, int32_t back) {
    SetVectorMask<T>(elements, where);
    AscendC::PipeBarrier<PIPE_V>(where);
    Adds<T, false>(dst[at], dst[at - back], ProgressionStep(diff, back), MASK_PLACEHOLDER, 1,
                   UnaryRepeatParams(1, 1, 8, 8), where);
    AscendC::PipeBarrier<PIPE_V>(where);
  };
  const int32_t blocks = (count + kBlock - 1) / kBlock * kBlock;
  for (int32_t at = kBlock; at < std::min(blocks, kRepeat); at += kBlock) add(at, kBlock, kBlock);
  for (int32_t at = kRepeat; at < blocks; at += kRepeat) {
    add(at, std::min(kRepeat, blocks - at), kRepeat);
  }
}

}  // namespace twin

namespace AscendC {

#define TWIN_ARANGE(Name)                                                                          \
  template <typename T>                                                                            \
  void Name(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count, \
            twin::Where where = twin::Here()) {                                                    \
    TWIN_DTYPES(#Name, T, int16_t, half, int32_t, float);                                          \
    twin::Progression(#Name, dst, firstValue, diffValue, count, where);                            \
  }
TWIN_ARANGE(Arange)
TWIN_ARANGE(ArithProgression)
#undef TWIN_ARANGE

}  // namespace AscendC
