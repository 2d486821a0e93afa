// TPipe, TQue, TQueBind and TBuf.
#pragma once

#include "twin/device/buf_pool.h"
#include "twin/device/narrowed.h"
#include "twin/device/queue.h"
#include "twin/device/tensor.h"

namespace AscendC {

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind;
template <TPosition pos = TPosition::LCM>
class TBuf;

class TWIN_API TPipe {
 public:
  explicit TPipe(twin::Where where = twin::Here());
  ~TPipe() noexcept(false);
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;

  void Init(twin::Where where = twin::Here());
  void Destroy(twin::Where where = twin::Here());
  void Reset(twin::Where where = twin::Here());

  template <class T>
  bool InitBuffer(T& que, Narrow8 num, uint32_t len, twin::Where where = twin::Here()) {
    static_assert(T::isTQue, "TPipe::InitBuffer(que, num, len) is for a TQue");
    twin::InitQueue(*this, que.queue_, twin::Wide(num), len, where);
    return true;
  }
  template <TPosition pos>
  bool InitBuffer(TBuf<pos>& buf, uint32_t len, twin::Where where = twin::Here()) {
    buf.buffer_ = twin::InitBuf(*this, pos, len, where);
    return true;
  }
  template <class T>
  bool InitBufPool(T& bufPool, uint32_t len, twin::Where where = twin::Here()) {
    static_assert(T::isTbufPool, "InitBufPool is for a TBufPool");
    twin::StartPool(this, nullptr, *bufPool.tBufPoolImpl.pool, len, nullptr, where);
    return true;
  }
  template <class T, class U>
  bool InitBufPool(T& bufPool, uint32_t len, U& shareBuf, twin::Where where = twin::Here()) {
    static_assert(T::isTbufPool && U::isTbufPool, "InitBufPool is for a TBufPool");
    twin::StartPool(this, nullptr, *bufPool.tBufPoolImpl.pool, len, shareBuf.tBufPoolImpl.pool,
                    where);
    return true;
  }

  template <HardEvent evt>
  TEventID AllocEventID(twin::Where where = twin::Here()) {
    return twin::AllocEvent(*this, evt, where);
  }
  template <HardEvent evt>
  void ReleaseEventID(TEventID id, twin::Where where = twin::Here()) {
    twin::ReleaseEvent(*this, evt, id, where);
  }
  template <HardEvent evt>
  TEventID FetchEventID(twin::Where where = twin::Here()) {
    return twin::FetchEvent(*this, evt, where);
  }
  TEventID FetchEventID(HardEvent evt, twin::Where where = twin::Here()) {
    return twin::FetchEvent(*this, evt, where);
  }
  template <TPosition pos, typename T>
  LocalTensor<T> GetAbsAddr(int32_t offset, int32_t size, twin::Where where = twin::Here()) const {
    return LocalTensor<T>(pos, static_cast<uint32_t>(offset), static_cast<uint32_t>(size), where);
  }

  twin::PipeState state_;
};

// The memory that holds a queue's buffers, and the positions a queue of one position stands for.
constexpr TPosition QueueSource(TPosition position) {
  switch (position) {
    case TPosition::A1:
    case TPosition::B1:
    case TPosition::C1:
    case TPosition::VECIN:
      return TPosition::GM;
    case TPosition::A2:
      return TPosition::A1;
    case TPosition::B2:
    case TPosition::C2PIPE2GM:
      return TPosition::B1;
    case TPosition::C2:
      return TPosition::C1;
    case TPosition::SPM:
      return TPosition::VECOUT;
    default:
      return position;
  }
}
constexpr TPosition QueueDestination(TPosition position) {
  switch (position) {
    case TPosition::CO1:
      return TPosition::CO2;
    case TPosition::CO2:
    case TPosition::VECOUT:
    case TPosition::SPM:
      return TPosition::GM;
    default:
      return position;
  }
}

template <TPosition src, TPosition dst, int32_t depth, auto mask>
class TQueBind {
 public:
  template <typename T>
  LocalTensor<T> AllocTensor(twin::Where where = twin::Here()) {
    static_assert(depth != 0, "AllocTensor() needs a depth; with depth 0 use AllocTensor(tensor)");
    return LocalTensor<T>(twin::QueueAlloc(queue_, where));
  }
  template <typename T>
  void AllocTensor(LocalTensor<T>& tensor, twin::Where where = twin::Here()) {
    static_assert(depth == 0, "AllocTensor(tensor) is for a queue of depth 0");
    tensor = LocalTensor<T>(twin::QueueAlloc(queue_, where));
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>& tensor, twin::Where where = twin::Here()) {
    twin::QueueFree(queue_, tensor, where);
  }
  template <typename T>
  bool EnQue(const LocalTensor<T>& tensor, twin::Where where = twin::Here()) {
    twin::QueueEnque(queue_, tensor, queue_.enque_event, where);
    return true;
  }
  template <TPosition srcUserPos, TPosition dstUserPos, typename T>
  bool EnQue(const LocalTensor<T>& tensor, twin::Where where = twin::Here()) {
    twin::QueueEnque(queue_, tensor, twin::QueueEvent(srcUserPos, dstUserPos, true), where);
    return true;
  }
  template <typename T>
  LocalTensor<T> DeQue(twin::Where where = twin::Here()) {
    static_assert(depth != 0, "DeQue() needs a depth; with depth 0 use DeQue(tensor)");
    return LocalTensor<T>(twin::QueueDeque(queue_, queue_.enque_event, where));
  }
  template <typename T>
  void DeQue(LocalTensor<T>& tensor, twin::Where where = twin::Here()) {
    static_assert(depth == 0, "DeQue(tensor) is for a queue of depth 0");
    twin::QueueDequeInPlace(queue_, tensor, where);
  }
  template <TPosition srcUserPos, TPosition dstUserPos, typename T>
  LocalTensor<T> DeQue(twin::Where where = twin::Here()) {
    return LocalTensor<T>(
        twin::QueueDeque(queue_, twin::QueueEvent(srcUserPos, dstUserPos, true), where));
  }
  bool VacantInQue() const { return static_cast<int32_t>(queue_.waiting.size()) < depth; }
  bool HasTensorInQue() const { return !queue_.waiting.empty(); }
  int32_t GetTensorCountInQue() const { return static_cast<int32_t>(queue_.waiting.size()); }
  bool HasIdleBuffer() const { return twin::QueueHasIdle(queue_); }
  void FreeAllEvent(twin::Where where = twin::Here()) { twin::QueueFreeAllEvent(queue_, where); }
  template <typename T>
  TBufState GetState(const LocalTensor<T>& tensor) const {
    return tensor.buffer == nullptr ? TBufState::FREE : tensor.buffer->state;
  }

  // The forms that take the handle of a buffer in place of a tensor.
  bool EnQue(TBufHandle buf, twin::Where where = twin::Here()) {
    twin::QueueEnque(queue_, twin::HandleView(buf), queue_.enque_event, where);
    return true;
  }
  TBufHandle DeQue(twin::Where where = twin::Here()) {
    return reinterpret_cast<TBufHandle>(twin::QueueDeque(queue_, queue_.enque_event, where).buffer);
  }
  void FreeBuffer(TBufHandle buf, twin::Where where = twin::Here()) {
    twin::QueueFree(queue_, twin::HandleView(buf), where);
  }
  TBuffAddr GetBufferAddr(TBufHandle buf) { return twin::HandleView(buf).address_; }
  void InitStartBufHandle(TBufHandle startBufhandle, Narrow8 num, uint32_t,
                          twin::Where where = twin::Here()) {
    twin::QueueStartHandle(queue_, startBufhandle, twin::Wide(num), where);
  }
  template <typename T>
  void InitBufHandle(T*, uint32_t index, TBufHandle bufhandle, uint32_t curPoolAddr, uint32_t len,
                     twin::Where where = twin::Here()) {
    twin::QueuePlaceHandle(queue_, bufhandle, index, curPoolAddr, len, where);
  }

  static constexpr bool isTQue = true;

 private:
  friend class TPipe;
  template <TPosition, uint32_t>
  friend class TBufPool;
  twin::Queue queue_{src, dst, depth};
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<QueueSource(pos), QueueDestination(pos), depth, mask> {
  static_assert(pos != TPosition::GM && pos != TPosition::VECCALC && pos != TPosition::MAX,
                "TQue has no such position; VECCALC memory is a TBuf");
};

// A queue of L1 that a kernel fills for CANN's Matmul object.
template <TPosition pos, int32_t depth = 1, auto mask = 0>
using TSCM = TQueBind<pos, TPosition::TSCM, depth, mask>;

// Its tensors are there at any time, so what belongs to a queue does nothing.
template <TPosition pos>
class TBuf : public TQueBind<pos, pos, 0> {
 public:
  template <typename T>
  LocalTensor<T> Get(twin::Where where = twin::Here()) {
    return LocalTensor<T>(twin::BufView(buffer_, pos, 0, ~0u, where));
  }
  template <typename T>
  LocalTensor<T> Get(uint32_t len, twin::Where where = twin::Here()) {
    return LocalTensor<T>(twin::BufView(buffer_, pos, 0, twin::ByteCount<T>(len), where));
  }
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bufOffset,
                               twin::Where where = twin::Here()) {
    return LocalTensor<T>(twin::BufView(buffer_, pos, bufOffset, twin::ByteCount<T>(size), where));
  }

  template <typename T>
  LocalTensor<T> AllocTensor(twin::Where where = twin::Here()) {
    return Get<T>(where);
  }
  template <typename T>
  void EnQue(const LocalTensor<T>&) {}
  template <typename T>
  LocalTensor<T> DeQue(twin::Where where = twin::Here()) {
    return Get<T>(where);
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>&) {}
  bool EnQue(TBufHandle) { return true; }
  TBufHandle DeQue(twin::Where where = twin::Here()) {
    return reinterpret_cast<TBufHandle>(twin::BufView(buffer_, pos, 0, ~0u, where).buffer);
  }
  void FreeBuffer(TBufHandle) {}
  void InitStartBufHandle(TBufHandle startBufhandle, Narrow8 num, uint32_t,
                          twin::Where where = twin::Here()) {
    buffer_ = twin::BufOfHandle(startBufhandle, twin::Wide(num), where);
  }

  static constexpr bool isTQue = false;

 private:
  friend class TPipe;
  template <TPosition, uint32_t>
  friend class TBufPool;
  twin::Buffer* buffer_ = nullptr;
};

}  // namespace AscendC

// The TPipe of this core.
TWIN_API AscendC::TPipe* GetTPipePtr(twin::Where where = twin::Here());
