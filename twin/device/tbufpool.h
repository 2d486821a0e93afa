// TBufPool: memory of a TPipe in parts, which may share their bytes one after the other.
#pragma once

#include "twin/device/tpipe.h"

namespace AscendC {

constexpr uint32_t defaultBufIDSize = 4;

constexpr bool IsPoolPosition(TPosition position) {
  return GetPhyType(position) == Hardware::L1 || GetPhyType(position) == Hardware::UB;
}

template <uint32_t bufIDSize = defaultBufIDSize>
struct TBufPoolImpl {
  twin::BufPool* pool = nullptr;
};

template <TPosition pos, uint32_t bufIDSize = defaultBufIDSize>
class TBufPool {
 public:
  static constexpr TPosition poolPos = pos;

  explicit TBufPool(twin::Where where = twin::Here()) {
    static_assert(IsPoolPosition(pos), "a TBufPool is in UB or L1");
    static_assert(bufIDSize <= 16, "bufIDSize is at most 16");
    tBufPoolImpl.pool = twin::NewPool(pos, bufIDSize, where);
  }
  ~TBufPool() noexcept(false) { twin::LeavePool(tBufPoolImpl.pool, tBufPoolImpl.pool->where); }
  TBufPool(const TBufPool&) = delete;
  TBufPool& operator=(const TBufPool&) = delete;

  template <class T>
  bool InitBuffer(T& que, Narrow8 num, uint32_t len, twin::Where where = twin::Here()) {
    static_assert(T::isTQue, "TBufPool::InitBuffer(que, num, len) is for a TQue");
    twin::PoolQueue(*tBufPoolImpl.pool, que.queue_, twin::Wide(num), len, where);
    return true;
  }
  template <TPosition bufPos>
  bool InitBuffer(TBuf<bufPos>& buf, uint32_t len, twin::Where where = twin::Here()) {
    buf.buffer_ = twin::PoolBuf(*tBufPoolImpl.pool, bufPos, len, where);
    return true;
  }
  template <class T, class U>
  bool InitBufPool(T& bufPool, uint32_t len, U& shareBuf, twin::Where where = twin::Here()) {
    static_assert(T::isTbufPool && U::isTbufPool, "InitBufPool is for a TBufPool");
    twin::StartPool(nullptr, tBufPoolImpl.pool, *bufPool.tBufPoolImpl.pool, len,
                    shareBuf.tBufPoolImpl.pool, where);
    return true;
  }
  template <class T>
  bool InitBufPool(T& bufPool, uint32_t len, twin::Where where = twin::Here()) {
    static_assert(T::isTbufPool, "InitBufPool is for a TBufPool");
    twin::StartPool(nullptr, tBufPoolImpl.pool, *bufPool.tBufPoolImpl.pool, len, nullptr, where);
    return true;
  }
  void Reset(twin::Where where = twin::Here()) { twin::ResetPool(*tBufPoolImpl.pool, where); }

 protected:
  TBufPoolImpl<bufIDSize> tBufPoolImpl;

 private:
  friend class TPipe;
  template <TPosition, uint32_t>
  friend class TBufPool;
  static constexpr bool isTbufPool = true;
};

}  // namespace AscendC

// The members of a kernel's own pool, whose InitBuffer divides it by handles and addresses.
#define EXTERN_IMPL_BUFPOOL(EXT_BUFPOOL, POSITION, BUFID_SIZE)                                 \
 public:                                                                                       \
  static constexpr AscendC::TPosition poolPos = POSITION;                                      \
  static constexpr int bufIDSize = BUFID_SIZE;                                                 \
  static constexpr bool isTbufPool = true;                                                     \
  ~EXT_BUFPOOL() noexcept(false) {                                                             \
    if (tBufPoolImpl.pool == nullptr) return;                                                  \
    twin::LeavePool(tBufPoolImpl.pool, tBufPoolImpl.pool->where);                              \
  }                                                                                            \
  void Init(twin::Where where = twin::Here()) {                                                \
    static_assert(AscendC::IsPoolPosition(poolPos), "a TBufPool is in UB or L1");              \
    tBufPoolImpl.pool = twin::NewPool(poolPos, bufIDSize, where);                              \
  }                                                                                            \
  void Reset(twin::Where where = twin::Here()) { twin::ResetPool(*tBufPoolImpl.pool, where); } \
  AscendC::TBufHandle GetBufHandle(uint8_t offset, twin::Where where = twin::Here()) {         \
    return twin::PoolHandle(*tBufPoolImpl.pool, offset, where);                                \
  }                                                                                            \
  void SetCurAddr(uint32_t curAddr) { tBufPoolImpl.pool->used = curAddr; }                     \
  uint32_t GetCurAddr() { return tBufPoolImpl.pool->used; }                                    \
  void SetCurBufSize(uint8_t curBufSize) { tBufPoolImpl.pool->count = curBufSize; }            \
  uint8_t GetCurBufSize() { return static_cast<uint8_t>(tBufPoolImpl.pool->count); }           \
                                                                                               \
 protected:                                                                                    \
  AscendC::TBufPoolImpl<bufIDSize> tBufPoolImpl;                                               \
                                                                                               \
 private:                                                                                      \
  friend class AscendC::TPipe;                                                                 \
  template <AscendC::TPosition, uint32_t>                                                      \
  friend class AscendC::TBufPool
