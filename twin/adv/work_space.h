// The temporary space of a high-level API: a tensor of the caller's, or what no buffer takes.
#pragma once

#include <cstdint>

#include "twin/device/core.h"
#include "twin/device/instr.h"
#include "twin/device/tensor.h"

namespace twin {

// Where the buffers of the TPipe end in UB, and how many bytes of it they leave free.
TWIN_API uint32_t EndOfBuffers(const Where& where);
TWIN_API uint32_t FreeUb(const Where& where);

// Gives that space as a tensor.
inline AscendC::LocalTensor<uint8_t> FreeSpace(const Where& where) {
  return {TPosition::VECCALC, EndOfBuffers(where), FreeUb(where) / kBlockBytes * kBlockBytes,
          where};
}

// The high-level APIs begin with PipeBarrier<PIPE_V> and leave the mask register as ResetMask does,
// in normal mode.
TWIN_API void EnterLibrary(const char* name, const Where& where);

// CANN's document of an API that has it so: the first `bytes` of source and destination share none.
TWIN_API void CheckApart(const char* name, const LocalView& dst, const LocalView& src,
                         uint64_t bytes, const Where& where);

// Fails unless the call has `needed` bytes; `tmp` is an operand of the instruction, or -1 when the
// API takes what is free. The tensor's contents are lost.
TWIN_API void TakeWorkSpace(Instr& instr, int tmp, uint64_t needed);

}  // namespace twin
