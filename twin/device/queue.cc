#include "twin/device/queue.h"

#include <algorithm>
#include <exception>

#include "twin/device/buf_pool.h"
#include "twin/device/launch_state.h"
#include "twin/device/sync.h"
#include "twin/device/tpipe.h"

namespace twin {
namespace {

using AscendC::TBufState;

constexpr int64_t kMaxBuffers = 64;  // of one TPipe

std::string QueueName(const Queue& queue) {
  return Format("TQue<%s, %d>", PositionName(queue.position), queue.depth);
}

const char* StateName(TBufState state) {
  static const char* const names[] = {"free", "allocated", "in the queue", "taken from the queue"};
  return names[static_cast<int>(state)];
}

// Memory that is handed out holds nothing to rely on: what an earlier tile or phase left there is
// no value of this one.
void Forget(Core& core, const Buffer& buffer) {
  LocalMemory* memory = core.memory[static_cast<int>(buffer.memory)].get();
  if (memory != nullptr) memory->shadow.MarkUnwritten(buffer.address, buffer.bytes);
}

// The host is told of 256 bytes less than UB has, and so should a kernel count.
void WarnOfReserved(Hardware memory, uint64_t end, const Where& where) {
  constexpr uint32_t kFramework = 256;
  const uint32_t first = MemoryBytes(Hardware::UB) - kFramework;
  if (memory != Hardware::UB || end <= first) return;
  Warn("the framework's part of UB", where,
       Format("a buffer ends at byte %llu of UB; CANN keeps the bytes from %u on for itself in "
              "kernels that mix AIC and AIV, unless compiled with --cce-disable-asc-reserved-ubuf",
              static_cast<unsigned long long>(end), first));
}

Buffer* Reserve(AscendC::TPipe& pipe, TPosition position, uint32_t bytes, const char* what,
                const Where& where) {
  Core& core = ThisCore(what, where);
  PipeState& state = pipe.state_;
  const Hardware memory = AscendC::GetPhyType(position);
  if (!state.live) Fail(what, where, "the TPipe was destroyed");
  if (memory == Hardware::GM) {
    Fail(what, where, Format("position %s has no on-chip memory", PositionName(position)));
  }
  const uint32_t size = MemoryBytes(memory);
  if (bytes == 0 || bytes > size) {
    Fail(what, where,
         Format("length is %u bytes, expected 1 to %u (%s)", bytes, size, MemoryName(memory)));
  }
  if (state.buffers.size() == static_cast<size_t>(kMaxBuffers)) {
    Fail(what, where, "a TPipe manages at most 64 buffers");
  }
  const uint32_t rounded = (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  uint32_t& used = state.used[static_cast<int>(memory)];
  if (uint64_t{used} + rounded > size) {
    Fail(what, where,
         Format("%s is exceeded: %u bytes are taken, %u more are asked for, %u can be used",
                MemoryName(memory), used, rounded, size));
  }
  WarnOfReserved(memory, uint64_t{used} + rounded, where);
  core.buffers.emplace_back();
  Buffer* buffer = &core.buffers.back();
  buffer->memory = memory;
  buffer->position = position;
  buffer->address = used;
  buffer->bytes = rounded;
  buffer->where = where;
  Forget(core, *buffer);
  used += rounded;
  state.buffers.push_back(buffer);
  return buffer;
}

Buffer& BufferOf(Queue& queue, const LocalView& tensor, const char* what, const Where& where) {
  const bool mine =
      std::find(queue.buffers.begin(), queue.buffers.end(), tensor.buffer) != queue.buffers.end();
  if (tensor.buffer == nullptr || !mine) {
    Fail(what, where, "the tensor is not one of " + QueueName(queue));
  }
  Buffer& buffer = *tensor.buffer;
  if (!buffer.alive) Fail(what, where, QueueName(queue) + ": its TPipe was reset or destroyed");
  if (buffer.state == TBufState::FREE || buffer.generation != tensor.generation) {
    Fail(what, where,
         Format("%s: the tensor was freed at %s:%d", QueueName(queue).c_str(), buffer.where.file,
                buffer.where.line));
  }
  return buffer;
}

void CheckReady(const Queue& queue, const char* what, const Where& where) {
  if (queue.buffers.empty()) {
    Fail(what, where, QueueName(queue) + " has no buffers: TPipe::InitBuffer first");
  }
}

// The free buffer's last reader is done before it is written again.
void WaitFree(Buffer& buffer, const Where& where) {
  if (buffer.free_id < 0) return;
  WaitFlag(buffer.free_event, buffer.free_id, where);
  ReleaseEvent(*ThisCore("AllocTensor", where).pipe, buffer.free_event, buffer.free_id, where);
  buffer.free_id = -1;
}

void Retire(Core& core, PipeState& state, const Where& where) {
  EndBuffers(state.buffers, where);
  for (Buffer* buffer : state.buffers) {
    buffer->alive = false;
    buffer->where = where;
  }
  state.buffers.clear();
  for (BufPool& pool : core.pools) {
    EndBuffers(pool.slots, where);
    for (Buffer* buffer : pool.slots) {
      buffer->alive = false;
      buffer->where = where;
    }
    pool.ready = pool.busy = false;
  }
  std::fill(std::begin(state.used), std::end(state.used), 0u);
  std::fill(std::begin(state.taken_events), std::end(state.taken_events), uint8_t{0});
}

}  // namespace

LocalView ViewOf(Buffer* buffer) {
  LocalView view;
  view.address = buffer->address;
  view.bytes = buffer->bytes;
  view.position = buffer->position;
  view.generation = buffer->generation;
  view.buffer = buffer;
  return view;
}

void EndBuffers(const std::vector<Buffer*>& buffers, const Where& where) {
  for (Buffer* buffer : buffers) {
    if (!buffer->alive) continue;
    if (buffer->free_id >= 0 && buffer->state == TBufState::FREE) {
      WaitFlag(buffer->free_event, buffer->free_id, where);
      buffer->free_id = -1;
    }
    if (buffer->in_queue && buffer->state != TBufState::FREE) {
      Warn("tensor not freed", where,
           Format("a tensor of position %s is %s and was not freed (%s:%d)",
                  PositionName(buffer->position), StateName(buffer->state), buffer->where.file,
                  buffer->where.line));
    }
  }
}

HardEvent QueueEvent(TPosition src, TPosition dst, bool forward) {
  const Hardware from = AscendC::GetPhyType(src), to = AscendC::GetPhyType(dst);
  const auto pick = [forward](HardEvent ahead, HardEvent back) { return forward ? ahead : back; };
  if (from == Hardware::GM) {
    if (to == Hardware::UB) return pick(HardEvent::MTE2_V, HardEvent::V_MTE2);
    if (to == Hardware::L1) return pick(HardEvent::MTE2_MTE1, HardEvent::MTE1_MTE2);
    if (to == Hardware::L0A || to == Hardware::L0B)
      return pick(HardEvent::MTE2_M, HardEvent::M_MTE2);
  } else if (from == Hardware::UB) {
    if (to == Hardware::GM) return pick(HardEvent::V_MTE3, HardEvent::MTE3_V);
    if (to == Hardware::UB) return pick(HardEvent::MTE2_MTE3, HardEvent::MTE3_MTE2);
    if (to == Hardware::L1) return pick(HardEvent::MTE3_MTE1, HardEvent::MTE1_MTE3);
  } else if (from == Hardware::L1) {
    if (to == Hardware::FIXBUF) return pick(HardEvent::MTE1_FIX, HardEvent::FIX_MTE1);
    if (to == Hardware::L0A || to == Hardware::L0B || to == Hardware::BIAS) {
      return pick(HardEvent::MTE1_M, HardEvent::M_MTE1);
    }
  } else if (from == Hardware::L0C && to == Hardware::GM) {
    return pick(HardEvent::M_FIX, HardEvent::FIX_M);
  }
  return HardEvent::MAX;
}

Queue::Queue(TPosition source, TPosition destination, int32_t queue_depth)
    : src(source),
      dst(destination),
      depth(queue_depth),
      position(AscendC::GetPhyType(destination) == Hardware::GM ? source : destination),
      enque_event(QueueEvent(source, destination, true)),
      free_event(QueueEvent(source, destination, false)) {}

void BeginQueue(Queue& queue, const char* what, int64_t num, const Where& where) {
  if (num < 1 || num > kMaxBuffers) {
    Fail(what, where, Format("num is %lld, expected 1 to 64", static_cast<long long>(num)));
  }
  if (queue.enque_event == HardEvent::MAX) {
    Fail(what, where,
         Format("no data path leads from %s to %s", PositionName(queue.src),
                PositionName(queue.dst)));
  }
  queue.buffers.clear();
  queue.waiting.clear();
  queue.cursor = 0;
}

void AddToQueue(AscendC::TPipe& pipe, Queue& queue, Buffer& buffer, const Where& where) {
  buffer.in_queue = true;
  buffer.free_event = queue.free_event;
  if (queue.depth == 0) {
    buffer.enque_id = AllocEvent(pipe, queue.enque_event, where);
    buffer.free_id = AllocEvent(pipe, queue.free_event, where);
    SetFlag(queue.free_event, buffer.free_id, where);
  }
  queue.buffers.push_back(&buffer);
}

void InitQueue(AscendC::TPipe& pipe, Queue& queue, int64_t num, uint32_t bytes,
               const Where& where) {
  const char* what = "TPipe::InitBuffer";
  BeginQueue(queue, what, num, where);
  for (int64_t i = 0; i < num; ++i) {
    AddToQueue(pipe, queue, *Reserve(pipe, queue.position, bytes, what, where), where);
  }
}

Buffer* InitBuf(AscendC::TPipe& pipe, TPosition position, uint32_t bytes, const Where& where) {
  return Reserve(pipe, position, bytes, "TPipe::InitBuffer", where);
}

LocalView BufView(Buffer* buffer, TPosition position, uint64_t offset, uint64_t bytes,
                  const Where& where) {
  const std::string name = Format("TBuf<%s>::Get", PositionName(position));
  if (buffer == nullptr) Fail(name.c_str(), where, "no buffer: TPipe::InitBuffer first");
  if (!buffer->alive) Fail(name.c_str(), where, "its TPipe was reset or destroyed");
  if (buffer->pool != nullptr) EnterPool(*buffer->pool, name.c_str(), where);
  const bool whole = bytes == ~0u;
  const uint64_t end = whole ? buffer->bytes : offset + bytes;
  if (end > buffer->bytes) {
    Fail(name.c_str(), where,
         Format("bytes [%llu, %llu) are asked for, the buffer has %u",
                static_cast<unsigned long long>(offset), static_cast<unsigned long long>(end),
                buffer->bytes));
  }
  LocalView view = ViewOf(buffer);
  view.address += static_cast<uint32_t>(offset);
  view.bytes = static_cast<uint32_t>(end - offset);
  return view;
}

int8_t FetchEvent(AscendC::TPipe& pipe, HardEvent event, const Where& where) {
  const uint8_t taken = pipe.state_.taken_events[static_cast<int>(event)];
  if (taken == 0xff) {
    Fail("FetchEventID", where,
         Format("all 8 ids of HardEvent::%s are taken (a queue buffer in use takes one)",
                EventName(event)));
  }
  return static_cast<int8_t>(__builtin_ctz(static_cast<unsigned>(~taken)));
}

int8_t AllocEvent(AscendC::TPipe& pipe, HardEvent event, const Where& where) {
  const int8_t id = FetchEvent(pipe, event, where);
  pipe.state_.taken_events[static_cast<int>(event)] |= static_cast<uint8_t>(1u << id);
  return id;
}

void ReleaseEvent(AscendC::TPipe& pipe, HardEvent event, int id, const Where& where) {
  if (id < 0 || id >= kEventIds) {
    Fail("ReleaseEventID", where, Format("id is %d, expected 0 to 7", id));
  }
  pipe.state_.taken_events[static_cast<int>(event)] &= static_cast<uint8_t>(~(1u << id));
}

LocalView QueueAlloc(Queue& queue, const Where& where) {
  CheckReady(queue, "AllocTensor", where);
  for (size_t tries = 0; tries < queue.buffers.size(); ++tries) {
    Buffer& buffer = *queue.buffers[queue.cursor];
    queue.cursor = static_cast<uint32_t>((queue.cursor + 1) % queue.buffers.size());
    if (!buffer.alive)
      Fail("AllocTensor", where, QueueName(queue) + ": its TPipe was reset or destroyed");
    if (buffer.state != TBufState::FREE) continue;
    if (buffer.pool != nullptr) EnterPool(*buffer.pool, "AllocTensor", where);
    if (queue.depth == 0) {
      WaitFlag(buffer.free_event, buffer.free_id, where);
    } else {
      WaitFree(buffer, where);
      // CANN promises random content here, and says nothing of the in-place form of depth 0.
      Forget(ThisCore("AllocTensor", where), buffer);
    }
    buffer.state = TBufState::OCCUPIED;
    ++buffer.generation;
    buffer.user_tag = -1;
    buffer.where = where;
    return ViewOf(&buffer);
  }
  const Buffer& busy = *queue.buffers[queue.cursor];
  Fail("AllocTensor", where,
       Format("deadlock: all %zu buffers of %s are in use; the next one is %s since %s:%d",
              queue.buffers.size(), QueueName(queue).c_str(), StateName(busy.state),
              busy.where.file, busy.where.line));
}

void QueueFree(Queue& queue, const LocalView& tensor, const Where& where) {
  CheckReady(queue, "FreeTensor", where);
  Buffer& buffer = BufferOf(queue, tensor, "FreeTensor", where);
  if (buffer.state == TBufState::ENQUE) {
    Fail("FreeTensor", where,
         Format("%s: the tensor is in the queue since %s:%d; DeQue it first",
                QueueName(queue).c_str(), buffer.where.file, buffer.where.line));
  }
  if (queue.depth != 0) {
    buffer.free_id = AllocEvent(*ThisCore("FreeTensor", where).pipe, buffer.free_event, where);
  }
  SetFlag(buffer.free_event, buffer.free_id, where);
  buffer.state = TBufState::FREE;
  buffer.where = where;
}

void QueueEnque(Queue& queue, const LocalView& tensor, HardEvent event, const Where& where) {
  CheckReady(queue, "EnQue", where);
  Buffer& buffer = BufferOf(queue, tensor, "EnQue", where);
  if (buffer.state == TBufState::ENQUE) {
    Fail("EnQue", where,
         Format("%s: the tensor is in the queue already, since %s:%d", QueueName(queue).c_str(),
                buffer.where.file, buffer.where.line));
  }
  if (queue.depth != 0 && static_cast<int32_t>(queue.waiting.size()) >= queue.depth) {
    Fail("EnQue", where,
         Format("%s: %zu tensors are in the queue, which is its depth", QueueName(queue).c_str(),
                queue.waiting.size()));
  }
  if (event == HardEvent::MAX) Fail("EnQue", where, "no data path between these positions");
  if (queue.depth != 0) {
    buffer.enque_id = AllocEvent(*ThisCore("EnQue", where).pipe, event, where);
    queue.waiting.push_back(&buffer);
  }
  buffer.enque_event = event;
  SetFlag(event, buffer.enque_id, where);
  buffer.state = TBufState::ENQUE;
  buffer.where = where;
}

LocalView QueueDeque(Queue& queue, HardEvent event, const Where& where) {
  CheckReady(queue, "DeQue", where);
  if (queue.waiting.empty()) {
    Fail("DeQue", where, QueueName(queue) + " is empty: DeQue without EnQue");
  }
  Buffer& buffer = *queue.waiting.front();
  if (!buffer.alive) Fail("DeQue", where, QueueName(queue) + ": its TPipe was reset or destroyed");
  if (buffer.enque_event != event) {
    Fail("DeQue", where,
         Format("%s: EnQue used HardEvent::%s (%s:%d), DeQue uses HardEvent::%s",
                QueueName(queue).c_str(), EventName(buffer.enque_event), buffer.where.file,
                buffer.where.line, EventName(event)));
  }
  queue.waiting.pop_front();
  WaitFlag(event, buffer.enque_id, where);
  ReleaseEvent(*ThisCore("DeQue", where).pipe, event, buffer.enque_id, where);
  buffer.enque_id = -1;
  buffer.state = TBufState::DEQUE;
  buffer.where = where;
  return ViewOf(&buffer);
}

void QueueDequeInPlace(Queue& queue, const LocalView& tensor, const Where& where) {
  CheckReady(queue, "DeQue", where);
  Buffer& buffer = BufferOf(queue, tensor, "DeQue", where);
  if (buffer.state != TBufState::ENQUE) {
    Fail("DeQue", where,
         Format("%s: the tensor is %s: DeQue without EnQue", QueueName(queue).c_str(),
                StateName(buffer.state)));
  }
  WaitFlag(queue.enque_event, buffer.enque_id, where);
  buffer.state = TBufState::DEQUE;
  buffer.where = where;
}

bool QueueHasIdle(const Queue& queue) {
  return std::any_of(queue.buffers.begin(), queue.buffers.end(),
                     [](const Buffer* b) { return b->state == TBufState::FREE; });
}

void QueueFreeAllEvent(Queue& queue, const Where& where) {
  for (Buffer* buffer : queue.buffers) WaitFree(*buffer, where);
}

}  // namespace twin

namespace AscendC {

TPipe::TPipe(twin::Where where) { Init(where); }

TPipe::~TPipe() noexcept(false) {
  // While an error unwinds the kernel there is nothing left to check.
  if (state_.live && std::uncaught_exceptions() == 0) {
    Destroy(state_.where);
  } else if (state_.live && twin::current_core != nullptr && twin::current_core->pipe == this) {
    twin::current_core->pipe = nullptr;
  }
}

void TPipe::Init(twin::Where where) {
  twin::Core& core = twin::ThisCore("TPipe", where);
  if (core.pipe != nullptr) {
    twin::Fail("TPipe", where,
               twin::Format("a second TPipe: the one from %s:%d is not destroyed",
                            core.pipe->state_.where.file, core.pipe->state_.where.line));
  }
  state_ = {};
  state_.live = true;
  state_.where = where;
  core.pipe = this;
  if (!core.cube) return;
  // CANN's Matmul library finds the ids 0, 1 and 2 of M_MTE1 set.
  for (int i = 0; i < 3; ++i) {
    twin::SetFlag(HardEvent::M_MTE1, twin::AllocEvent(*this, HardEvent::M_MTE1, where), where);
  }
}

void TPipe::Destroy(twin::Where where) {
  if (!state_.live) return;
  twin::Core& core = twin::ThisCore("TPipe::Destroy", where);
  if (core.launch->probing) twin::EndProbe();
  for (twin::Buffer* buffer : state_.buffers) buffer->released = true;
  twin::Retire(core, state_, where);
  if (core.cube) {
    for (int id = 0; id < 3; ++id) twin::WaitFlag(HardEvent::M_MTE1, id, where);
  }
  twin::Barrier(PIPE_ALL, where);
  state_.live = false;
  core.pipe = nullptr;
}

void TPipe::Reset(twin::Where where) {
  if (!state_.live) twin::Fail("TPipe::Reset", where, "the TPipe was destroyed");
  twin::Retire(twin::ThisCore("TPipe::Reset", where), state_, where);
}

}  // namespace AscendC

AscendC::TPipe* GetTPipePtr(twin::Where where) {
  twin::Core& core = twin::ThisCore("GetTPipePtr", where);
  if (core.pipe == nullptr) twin::Fail("GetTPipePtr", where, "this core has no TPipe");
  return core.pipe;
}
