// The untyped part of TPipe and TQue.
#pragma once

#include <deque>
#include <vector>

#include "twin/device/view.h"

namespace AscendC {
class TPipe;
}

namespace twin {

struct PipeState {
  bool live = false;
  uint8_t taken_events[static_cast<int>(HardEvent::MAX)] = {};  // bit per id
  uint32_t used[kMemories] = {};                                // bytes, bump allocation
  std::vector<Buffer*> buffers;
  Where where;
};

struct Queue {
  TWIN_API Queue(TPosition source, TPosition destination, int32_t queue_depth);

  TPosition src;
  TPosition dst;
  int32_t depth;
  TPosition position;  // of its tensors
  HardEvent enque_event;
  HardEvent free_event;
  uint32_t cursor = 0;
  std::vector<Buffer*> buffers;
  std::deque<Buffer*> waiting;  // EnQue'd and not yet DeQue'd
};

// The event of a queue between two positions; `forward` for EnQue, else for FreeTensor.
TWIN_API HardEvent QueueEvent(TPosition src, TPosition dst, bool forward);

TWIN_API void InitQueue(AscendC::TPipe& pipe, Queue& queue, int64_t num, uint32_t bytes,
                        const Where& where);
TWIN_API Buffer* InitBuf(AscendC::TPipe& pipe, TPosition position, uint32_t bytes,
                         const Where& where);
TWIN_API LocalView BufView(Buffer* buffer, TPosition position, uint64_t offset, uint64_t bytes,
                           const Where& where);
TWIN_API int8_t AllocEvent(AscendC::TPipe& pipe, HardEvent event, const Where& where);
TWIN_API void ReleaseEvent(AscendC::TPipe& pipe, HardEvent event, int id, const Where& where);
TWIN_API int8_t FetchEvent(AscendC::TPipe& pipe, HardEvent event, const Where& where);

// Gives a buffer to a queue.
void AddToQueue(AscendC::TPipe& pipe, Queue& queue, Buffer& buffer, const Where& where);
// Checks before a queue gets buffers of its own.
void BeginQueue(Queue& queue, const char* what, int64_t num, const Where& where);
// Waits for the last readers of buffers, warns of tensors that were not freed.
void EndBuffers(const std::vector<Buffer*>& buffers, const Where& where);

TWIN_API LocalView QueueAlloc(Queue& queue, const Where& where);
TWIN_API void QueueFree(Queue& queue, const LocalView& tensor, const Where& where);
TWIN_API void QueueEnque(Queue& queue, const LocalView& tensor, HardEvent event,
                         const Where& where);
TWIN_API LocalView QueueDeque(Queue& queue, HardEvent event, const Where& where);
TWIN_API void QueueDequeInPlace(Queue& queue, const LocalView& tensor, const Where& where);
TWIN_API bool QueueHasIdle(const Queue& queue);
// The tensor of a handle: what the forms of EnQue, FreeTensor and Get that take handles work on.
TWIN_API LocalView ViewOf(Buffer* buffer);
inline LocalView HandleView(AscendC::TBufHandle handle) {
  return ViewOf(reinterpret_cast<Buffer*>(handle));
}
TWIN_API void QueueFreeAllEvent(Queue& queue, const Where& where);

}  // namespace twin
