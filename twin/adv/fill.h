// Fill and its older names InitGlobalMemory and InitOutput: GM with one value, by way of the UB
// that no buffer holds.
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

// Whether that part of UB still holds what an earlier fill of the same value has put there. CANN's
// document asks for no wait between such fills: writing the value again changes nothing. The
// instruction is issued, for its time.
TWIN_API bool FilledBefore(const char* name, const LocalView& values, uint32_t width,
                           uint64_t value, const Where& where);
TWIN_API void RememberFill(const LocalView& values, uint32_t width, uint64_t value);

template <typename T>
void FillGlobal(const char* name, const AscendC::GlobalTensor<T>& dst, uint64_t size, T value,
                uint32_t repeat_bytes, const Where& where) {
  using namespace AscendC;
  if ASCEND_IS_AIC
    return;
  const uint32_t pass = FillPass(name, repeat_bytes, sizeof(T), where);
  const LocalTensor<T> values(TPosition::VECCALC, EndOfBuffers(where), pass);
  if (!FilledBefore(name, values, sizeof(T), ScalarBits(value), where)) {
    RunElementwise({name, where, MaskArgument::Count(static_cast<int32_t>(pass)), &FillLoop<T>,
                    ScalarBits(value)},
                   {{"values", values}}, {{1, 8, "dstBlockStride", "dstRepeatStride"}});
    RememberFill(values, sizeof(T), ScalarBits(value));
  }
  const TEventID event = GetTPipePtr(where)->FetchEventID(HardEvent::V_MTE3, where);
  AscendC::SetFlag<HardEvent::V_MTE3>(event, where);
  AscendC::WaitFlag<HardEvent::V_MTE3>(event, where);
  for (uint64_t at = 0; at < size; at += pass) {
    const uint64_t now = std::min<uint64_t>(pass, size - at);
    const DataCopyExtParams one(1, static_cast<uint32_t>(now * sizeof(T)), 0, 0, 0);
    const GlobalTensor<T> part = dst[at];
    CopyPadOut(name, {"gmWorkspaceAddr", part}, {"values", values}, one, where);
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
void InitGlobalMemory(GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const T value,
                      twin::Where where = twin::Here()) {
  TWIN_FILL_TYPES("InitGlobalMemory");
  twin::FillGlobal("InitGlobalMemory", gmWorkspaceAddr, size, value, 256, where);
}
template <typename T>
void InitOutput(GlobalTensor<T> gmWorkspaceAddr, uint32_t size, T value = 0,
                twin::Where where = twin::Here()) {
  TWIN_DTYPES("InitOutput", T, uint16_t, int16_t, half, bfloat16_t, uint32_t, int32_t, float);
  twin::FillGlobal("InitOutput", gmWorkspaceAddr, size, value, 32, where);
}
#undef TWIN_FILL_TYPES

}  // namespace AscendC
