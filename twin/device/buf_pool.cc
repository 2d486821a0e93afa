#include "twin/device/buf_pool.h"

#include <algorithm>
#include <exception>

#include "twin/device/launch_state.h"
#include "twin/device/tpipe.h"

namespace twin {
namespace {

uint32_t RoundedUp(const char* what, uint32_t bytes, Hardware memory, const Where& where) {
  const uint32_t size = MemoryBytes(memory);
  if (bytes == 0 || bytes > size) {
    Fail(what, where,
         Format("length is %u bytes, expected 1 to %u (%s)", bytes, size, MemoryName(memory)));
  }
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

void CheckReady(const BufPool& pool, const char* what, const Where& where) {
  if (pool.ready) return;
  Fail(what, where,
       "the TBufPool has no memory: InitBufPool first, and again after Reset, before new buffers");
}

Buffer* Slot(BufPool& pool, uint32_t index, const char* what, const Where& where) {
  if (index >= pool.most) {
    Fail(what, where, Format("the TBufPool has room for %u buffers (bufIDSize)", pool.most));
  }
  Core& core = ThisCore(what, where);
  while (pool.slots.size() <= index) {
    core.buffers.emplace_back();
    pool.slots.push_back(&core.buffers.back());
    pool.slots.back()->pool = &pool;
    pool.slots.back()->where = where;
  }
  return pool.slots[index];
}

void Place(BufPool& pool, Buffer& buffer, TPosition position, uint32_t address, uint32_t bytes,
           const char* what, const Where& where) {
  const Hardware memory = AscendC::GetPhyType(pool.position);
  if (AscendC::GetPhyType(position) != memory) {
    Fail(what, where,
         Format("a buffer of position %s is not in %s, the memory of the TBufPool",
                PositionName(position), MemoryName(memory)));
  }
  if (address < pool.begin || uint64_t{address} + bytes > pool.end) {
    Fail(what, where,
         Format("bytes [%u, %llu) are asked for, the TBufPool has [%u, %u)", address,
                static_cast<unsigned long long>(uint64_t{address} + bytes), pool.begin, pool.end));
  }
  buffer = Buffer();
  buffer.pool = &pool;
  buffer.memory = memory;
  buffer.position = position;
  buffer.address = address;
  buffer.bytes = bytes;
  buffer.where = where;
}

Buffer* Take(BufPool& pool, TPosition position, uint32_t bytes, const Where& where) {
  const char* what = "TBufPool::InitBuffer";
  CheckReady(pool, what, where);
  const uint32_t size = RoundedUp(what, bytes, AscendC::GetPhyType(pool.position), where);
  Buffer* buffer = Slot(pool, pool.count, what, where);
  Place(pool, *buffer, position, pool.used, size, what, where);
  pool.used += size;
  ++pool.count;
  return buffer;
}

bool Within(const BufPool* pool, const BufPool* of) {
  while (pool != nullptr && pool != of) pool = pool->parent;
  return pool == of;
}

}  // namespace

BufPool* NewPool(TPosition position, uint32_t most, const Where& where) {
  Core& core = ThisCore("TBufPool", where);
  core.pools.emplace_back();
  BufPool* pool = &core.pools.back();
  pool->position = position;
  pool->most = most;
  return pool;
}

void StartPool(AscendC::TPipe* pipe, BufPool* parent, BufPool& pool, uint32_t bytes,
               const BufPool* shared, const Where& where) {
  const char* what = parent != nullptr ? "TBufPool::InitBufPool" : "TPipe::InitBufPool";
  const Hardware memory = AscendC::GetPhyType(pool.position);
  if (pipe != nullptr && !pipe->state_.live) Fail(what, where, "the TPipe was destroyed");
  if (parent != nullptr) CheckReady(*parent, what, where);
  const uint32_t size = RoundedUp(what, bytes, memory, where);
  const BufPool* model = shared != nullptr ? shared : parent;
  if (model != nullptr && AscendC::GetPhyType(model->position) != memory) {
    Fail(what, where,
         Format("%s has %s, bufPool is of %s", shared != nullptr ? "shareBuf" : "the TBufPool",
                MemoryName(AscendC::GetPhyType(model->position)), MemoryName(memory)));
  }
  if (parent != nullptr) {
    const uint32_t left = shared != nullptr ? parent->most : parent->most - parent->count;
    if (pool.most > left) {
      Fail(what, where, Format("bufIDSize of bufPool is %u, the TBufPool has %u", pool.most, left));
    }
  }
  if (shared != nullptr) {
    CheckReady(*shared, what, where);
    if (size > shared->end - shared->begin) {
      Fail(what, where,
           Format("len is %u bytes, shareBuf has %u", size, shared->end - shared->begin));
    }
    pool.begin = shared->begin;
    pool.end = shared->end;
  } else {
    uint32_t& used = parent != nullptr ? parent->used : pipe->state_.used[static_cast<int>(memory)];
    const uint32_t end = parent != nullptr ? parent->end : MemoryBytes(memory);
    if (uint64_t{used} + size > end) {
      Fail(what, where,
           Format("len is %u bytes, %u are left of %s", size, end - used,
                  parent != nullptr ? "the TBufPool" : MemoryName(memory)));
    }
    pool.begin = used;
    pool.end = used += size;
  }
  pool.parent = parent;
  pool.used = pool.begin;
  pool.count = 0;
  pool.slots.clear();
  pool.ready = true;
  pool.busy = false;
  pool.where = where;
}

void PoolQueue(BufPool& pool, Queue& queue, int64_t num, uint32_t bytes, const Where& where) {
  const char* what = "TBufPool::InitBuffer";
  BeginQueue(queue, what, num, where);
  AscendC::TPipe& pipe = *GetTPipePtr(where);
  for (int64_t i = 0; i < num; ++i) {
    AddToQueue(pipe, queue, *Take(pool, queue.position, bytes, where), where);
  }
}

Buffer* PoolBuf(BufPool& pool, TPosition position, uint32_t bytes, const Where& where) {
  return Take(pool, position, bytes, where);
}

void ResetPool(BufPool& pool, const Where& where) {
  Core& core = ThisCore("TBufPool::Reset", where);
  if (core.launch->probing) EndProbe();
  for (Buffer* buffer : pool.slots) {
    if (!buffer->alive || buffer->free_id < 0 || buffer->state != AscendC::TBufState::FREE)
      continue;
    ReleaseEvent(*core.pipe, buffer->free_event, buffer->free_id, where);
  }
  EndBuffers(pool.slots, where);
  pool.ready = pool.busy = false;
  pool.begin = pool.end = pool.used = pool.count = 0;
}

void LeavePool(BufPool* pool, const Where& where) {
  if (!(pool->ready || pool->busy) || std::uncaught_exceptions() != 0) return;
  ResetPool(*pool, where);
}

void EnterPool(BufPool& pool, const char* what, const Where& where) {
  if (pool.busy) {
    pool.where = where;
    return;
  }
  const Hardware memory = AscendC::GetPhyType(pool.position);
  for (const BufPool& other : ThisCore(what, where).pools) {
    if (!other.busy || AscendC::GetPhyType(other.position) != memory || Within(&pool, &other) ||
        Within(&other, &pool)) {
      continue;
    }
    for (const Buffer* theirs : other.slots) {
      for (const Buffer* mine : pool.slots) {
        const uint32_t first = std::max(theirs->address, mine->address);
        const uint32_t last =
            std::min(theirs->address + theirs->bytes, mine->address + mine->bytes);
        if (first >= last) continue;
        Fail(what, where,
             Format("bytes [%u, %u) of %s are also of another TBufPool, at work since %s:%d: its "
                    "Reset comes first",
                    first, last, MemoryName(memory), other.where.file, other.where.line));
      }
    }
  }
  pool.busy = true;
  pool.where = where;
}

AscendC::TBufHandle PoolHandle(BufPool& pool, uint8_t offset, const Where& where) {
  return reinterpret_cast<AscendC::TBufHandle>(Slot(pool, offset, "GetBufHandle", where));
}

Buffer* BufOfHandle(AscendC::TBufHandle handle, int64_t num, const Where& where) {
  Buffer* buffer = reinterpret_cast<Buffer*>(handle);
  if (buffer == nullptr || buffer->pool == nullptr) {
    Fail("InitStartBufHandle", where, "startBufhandle is not one that GetBufHandle gave");
  }
  if (num != 1) {
    Fail("InitStartBufHandle", where,
         Format("num is %lld, a TBuf has one buffer", static_cast<long long>(num)));
  }
  return buffer;
}

void QueueStartHandle(Queue& queue, AscendC::TBufHandle handle, int64_t num, const Where& where) {
  const char* what = "InitStartBufHandle";
  const Buffer* first = reinterpret_cast<const Buffer*>(handle);
  if (first == nullptr || first->pool == nullptr) {
    Fail(what, where, "startBufhandle is not one that GetBufHandle gave");
  }
  BeginQueue(queue, what, num, where);
  BufPool& pool = *first->pool;
  const auto at = std::find(pool.slots.begin(), pool.slots.end(), first) - pool.slots.begin();
  for (int64_t i = 0; i < num; ++i) {
    queue.buffers.push_back(Slot(pool, static_cast<uint32_t>(at + i), what, where));
  }
}

void QueuePlaceHandle(Queue& queue, AscendC::TBufHandle handle, uint32_t index, uint32_t address,
                      uint32_t bytes, const Where& where) {
  const char* what = "InitBufHandle";
  const Buffer* first = reinterpret_cast<const Buffer*>(handle);
  if (first == nullptr || first->pool == nullptr) {
    Fail(what, where, "bufhandle is not one that GetBufHandle gave");
  }
  BufPool& pool = *first->pool;
  CheckReady(pool, what, where);
  const auto at = std::find(pool.slots.begin(), pool.slots.end(), first) - pool.slots.begin();
  Buffer* buffer = Slot(pool, static_cast<uint32_t>(at) + index, what, where);
  const uint32_t size = RoundedUp(what, bytes, AscendC::GetPhyType(pool.position), where);
  Place(pool, *buffer, queue.position, address, size, what, where);
  const auto mine = std::find(queue.buffers.begin(), queue.buffers.end(), buffer);
  if (mine == queue.buffers.end()) return;  // of a TBuf
  // In its place among the queue's buffers, with the flags that a queue of depth 0 holds.
  const auto place = mine - queue.buffers.begin();
  AddToQueue(*GetTPipePtr(where), queue, *buffer, where);
  queue.buffers.pop_back();
  queue.buffers[static_cast<size_t>(place)] = buffer;
}

}  // namespace twin
