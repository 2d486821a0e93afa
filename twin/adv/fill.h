// Fill and its older name InitOutput: GM with one value, by way of the UB that no buffer holds.
#pragma once

#include <algorithm>

#include "twin/adv/work_space.h"
#include "twin/device/data_copy.h"
#include "twin/device/sync.h"
#include "twin/device/tpipe.h"
#include "twin/vector/fill.h"

namespace twin {

// Elements of `width` bytes in the part of UB that the call takes: 255 repeats of what the buffers
// leave, or less.
inline uint32_t FillPass(const char* name, uint32_t repeat_bytes, uint32_t width,
                         const Where& where) {
  const uint32_t bytes = std::min(255 * repeat_bytes, FreeUb(where) / kBlockBytes * kBlockBytes);
  if (bytes == 0) Fail(name, where, "it takes UB that no buffer holds, and there is none left");
  return bytes / width;
}

template <typename T>
void FillGlobal(const char* name, const AscendC::GlobalTensor<T>& dst, uint64_t size, T value,
                uint32_t repeat_bytes, const Where& where) {
  using namespace AscendC;
  if ASCEND_IS_AIC
    return;
  const uint32_t pass = FillPass(name, repeat_bytes, sizeof(T), where);
  const LocalTensor<T> values(TPosition::VECCALC, EndOfBuffers(where), pass);
  Duplicate(values, value, static_cast<int32_t>(pass), where);
  const TEventID event = GetTPipePtr()->FetchEventID(HardEvent::V_MTE3, where);
  AscendC::SetFlag<HardEvent::V_MTE3>(event, where);
  AscendC::WaitFlag<HardEvent::V_MTE3>(event, where);
  for (uint64_t at = 0; at < size; at += pass) {
    const uint64_t now = std::min<uint64_t>(pass, size - at);
    const DataCopyExtParams one(1, static_cast<uint32_t>(now * sizeof(T)), 0, 0, 0);
    DataCopyPad(dst[at], values, one, where);
  }
  AscendC::PipeBarrier<PIPE_MTE3>(where);
}

}  // namespace twin

namespace AscendC {

#define TWIN_FILL_TYPES(name) \
  TWIN_DTYPES(name, T, uint16_t, int16_t, half, uint32_t, int32_t, float)

template <typename T>
void Fill(GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const T value,
          twin::Where where = twin::Here()) {
  TWIN_FILL_TYPES("Fill");
  twin::FillGlobal("Fill", gmWorkspaceAddr, size, value, 256, where);
}
template <typename T>
void InitOutput(GlobalTensor<T> gmWorkspaceAddr, uint32_t size, T value = 0,
                twin::Where where = twin::Here()) {
  TWIN_DTYPES("InitOutput", T, uint16_t, int16_t, half, bfloat16_t, uint32_t, int32_t, float);
  twin::FillGlobal("InitOutput", gmWorkspaceAddr, size, value, 32, where);
}
#undef TWIN_FILL_TYPES

}  // namespace AscendC
