// The untyped part of TBufPool: a range of UB or L1 that hands out buffers, and may share its bytes
// with another pool.
#pragma once

#include <vector>

#include "twin/device/queue.h"

namespace twin {

struct BufPool {
  TPosition position = TPosition::MAX;
  uint32_t most = 0;   // buffers
  bool ready = false;  // InitBufPool gave it memory, and Reset has not taken it away
  bool busy = false;   // tensors were taken from it since its last Reset
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t used = 0;  // where the next buffer begins
  uint32_t count = 0;
  const BufPool* parent = nullptr;
  std::vector<Buffer*> slots;  // by index; the first `count` are in use
  Where where;                 // of the last tensor taken from it
};

TWIN_API BufPool* NewPool(TPosition position, uint32_t most, const Where& where);
// Memory for `pool` out of the TPipe's, or out of `parent`, or the bytes of `shared`.
TWIN_API void StartPool(AscendC::TPipe* pipe, BufPool* parent, BufPool& pool, uint32_t bytes,
                        const BufPool* shared, const Where& where);
TWIN_API void PoolQueue(BufPool& pool, Queue& queue, int64_t num, uint32_t bytes,
                        const Where& where);
TWIN_API Buffer* PoolBuf(BufPool& pool, TPosition position, uint32_t bytes, const Where& where);
TWIN_API void ResetPool(BufPool& pool, const Where& where);
// At the end of a pool's life: as Reset, but where an error unwinds the kernel.
TWIN_API void LeavePool(BufPool* pool, const Where& where);
// A tensor is about to be taken: no pool with the same bytes may be at work.
void EnterPool(BufPool& pool, const char* what, const Where& where);

// Kernels that divide a pool themselves call this (EXTERN_IMPL_BUFPOOL).
TWIN_API AscendC::TBufHandle PoolHandle(BufPool& pool, uint8_t offset, const Where& where);
TWIN_API void QueueStartHandle(Queue& queue, AscendC::TBufHandle handle, int64_t num,
                               const Where& where);
TWIN_API Buffer* BufOfHandle(AscendC::TBufHandle handle, int64_t num, const Where& where);
TWIN_API void QueuePlaceHandle(Queue& queue, AscendC::TBufHandle handle, uint32_t index,
                               uint32_t address, uint32_t bytes, const Where& where);

}  // namespace twin
