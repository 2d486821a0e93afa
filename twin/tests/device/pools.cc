// TBufPool and pools of a kernel's own, TBuf as a queue, handles of buffers, GroupBarrier.
#include "twin/tests/device/kernels.h"

using namespace device_test;

namespace {

constexpr uint32_t kTile = 256;  // bytes

// y = x + add of one tile, through queues that have memory already.
template <typename In, typename Out>
void AddTile(In& in, Out& out, GM_ADDR* g, uint32_t from, uint32_t to, float add) {
  LocalTensor<float> x = in.template AllocTensor<float>();
  DataCopy(x, device_test::In(g)[from], 64);
  in.EnQue(x);
  x = in.template DeQue<float>();
  LocalTensor<float> y = out.template AllocTensor<float>();
  Adds(y, x, add, 64);
  in.FreeTensor(x);
  out.EnQue(y);
  y = out.template DeQue<float>();
  DataCopy(device_test::Out(g)[to], y, 64);
  out.FreeTensor(y);
}

using InQue = TQue<TPosition::VECIN, 1>;
using OutQue = TQue<TPosition::VECOUT, 1>;

class OwnPool {
 public:
  OwnPool() { Init(); }

  template <class T>
  bool InitBuffer(T& que, uint8_t num, uint32_t len) {
    TBufHandle handle = GetBufHandle(GetCurBufSize());
    que.InitStartBufHandle(handle, num, len);
    for (uint32_t i = 0; i < num; ++i) {
      que.InitBufHandle(this, i, handle, GetCurAddr() + i * (len + gap), len);
    }
    SetCurAddr(GetCurAddr() + num * (len + gap));
    SetCurBufSize(static_cast<uint8_t>(GetCurBufSize() + num));
    return true;
  }
  template <TPosition bufPos>
  bool InitBuffer(TBuf<bufPos>& buf, uint32_t len) {
    TBufHandle handle = GetBufHandle(GetCurBufSize());
    buf.InitStartBufHandle(handle, 1, len);
    buf.InitBufHandle(this, 0, handle, GetCurAddr(), len);
    SetCurAddr(GetCurAddr() + len);
    SetCurBufSize(static_cast<uint8_t>(GetCurBufSize() + 1));
    return true;
  }
  uint32_t gap = 0;  // between the buffers of one queue

  EXTERN_IMPL_BUFPOOL(OwnPool, TPosition::VECCALC, 16);
};

}  // namespace

// Two pools on the same bytes, one after the other and then the first again, and a pool in a pool.
// p[0]: 1 takes a tensor of the second before the first is reset, 2 asks for more than a pool has,
// 3 for one buffer too many, 4 for buffers before InitBufPool, 5 after Reset, 6 shares more than
// there is, 7 divides a pool into more than it has.
KERNEL(pools) {
  const int64_t fault = p[0];
  TPipe pipe;
  TBufPool<TPosition::VECCALC> outer, first, second;
  TBufPool<TPosition::VECIN, 1> one;
  InQue in1, in2;
  OutQue out1, out2;
  if (fault == 4) first.InitBuffer(in1, 1, kTile);
  pipe.InitBufPool(outer, 5 * kTile);
  outer.InitBufPool(first, 3 * kTile);
  outer.InitBufPool(second, fault == 6 ? 4 * kTile : 2 * kTile, first);
  outer.InitBufPool(one, fault == 7 ? 3 * kTile : kTile);
  first.InitBuffer(in1, 2, kTile);
  first.InitBuffer(out1, 1, fault == 2 ? 2 * kTile : kTile);
  second.InitBuffer(in2, 1, 2 * kTile);
  second.InitBuffer(out2, 1, kTile);
  AddTile(in1, out1, g, 0, 0, 1);
  AddTile(in1, out1, g, 64, 64, 2);
  if (fault != 1) first.Reset();
  AddTile(in2, out2, g, 128, 128, 3);
  second.Reset();
  AddTile(in1, out1, g, 192, 192, 4);
  TBuf<> rest, more;
  one.InitBuffer(rest, kTile - 20);
  if (fault == 3) one.InitBuffer(more, 32);
  if (fault == 5) second.InitBuffer(more, 32);
  Out(g)[256].SetValue(0, static_cast<float>(rest.Get<float>().GetSize()));
  DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(Out(g)[256]);
}

// The kernel's own pool with a gap of p[0] bytes between the buffers of a queue.
KERNEL(own_pool) {
  TPipe pipe;
  OwnPool pool;
  TQue<TPosition::VECIN, 2> in;
  OutQue out;
  TBuf<> buf;
  pipe.InitBufPool(pool, 8 * kTile);
  pool.gap = static_cast<uint32_t>(p[0]);
  pool.InitBuffer(in, 2, kTile);
  pool.InitBuffer(out, 1, kTile);
  pool.InitBuffer(buf, kTile);
  AddTile(in, out, g, 0, 0, 1);
  AddTile(in, out, g, 64, 64, 2);
  LocalTensor<float> a = in.AllocTensor<float>();
  LocalTensor<float> b = in.AllocTensor<float>();
  const LocalTensor<float> c = buf.Get<float>();
  Out(g).SetValue(128, static_cast<float>(b.address_.bufferAddr) - a.address_.bufferAddr);
  Out(g).SetValue(129, static_cast<float>(c.GetSize() + pool.GetCurBufSize()));
  DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(Out(g)[128]);
  in.FreeTensor(a);
  in.FreeTensor(b);
  pool.Reset();
}

// A kernel that is written for queues, with a TBuf in the place of one.
KERNEL(buf_as_queue) {
  TPipe pipe;
  TBuf<> in;
  OutQue out;
  pipe.InitBuffer(in, kTile);
  pipe.InitBuffer(out, 1, kTile);
  LocalTensor<float> x = in.AllocTensor<float>();
  DataCopy(x, In(g), 64);
  in.EnQue(x);
  if (p[0] == 0) Order<HardEvent::MTE2_V>();
  x = in.DeQue<float>();
  LocalTensor<float> y = out.AllocTensor<float>();
  Adds(y, x, 1.0f, 64);
  in.FreeTensor(x);
  // The output by its handle.
  const TBufHandle handle = y.address_.bufferHandle;
  out.EnQue(handle);
  const TBufHandle same = out.DeQue();
  LocalTensor<float> z;
  z.SetAddr(out.GetBufferAddr(same));
  DataCopy(Out(g), z, 64);
  out.FreeBuffer(same);
}

// Two cores add a row each to the sum, p[0] rounds; the others copy it once both have. p[1]: 1
// arrives before it writes, 2 does not wait, 3 does not arrive, 4 and 5 an index and a size beyond
// their limits, 6 writes where the barrier keeps its ones.
KERNEL(group) {
  constexpr uint32_t kArrive = 2;
  const int64_t fault = p[1];
  const auto me = static_cast<uint32_t>(GetBlockIdx());
  const auto cores = static_cast<uint32_t>(GetBlockNum());
  TPipe pipe;
  TBuf<> buf;
  pipe.InitBuffer(buf, kTile);
  const LocalTensor<float> t = buf.Get<float>();
  GroupBarrier<PipeMode::MTE3_MODE> barrier(g[3], kArrive,
                                            fault == 5 ? cores + 1 : cores - kArrive);
  if (fault == 6) {
    Order<HardEvent::S_V>();
    Duplicate(LocalTensor<float>(TPosition::VECCALC, 192 * 1024 - 1600, 64), 0.0f, 64);
    Order<HardEvent::V_MTE3>();
  }
  for (int64_t round = 0; round < p[0]; ++round) {
    const auto at = static_cast<uint32_t>(64 * kArrive * round);
    if (me < kArrive) {
      DataCopy(t, In(g)[64 * me], 64);
      Order<HardEvent::MTE2_V>();
      Adds(t, t, static_cast<float>(round), 64);
      Order<HardEvent::V_MTE3>();
      if (fault == 1) barrier.Arrive(me);
      DataCopy(Work(g)[at + 64 * me], t, 64);
      if (fault != 3 && fault != 1) barrier.Arrive(fault == 4 ? kArrive : me);
      Order<HardEvent::MTE3_MTE2>();
    } else {
      if (fault != 2) barrier.Wait(me - kArrive);
      DataCopy(t, Work(g)[at + 64 * (me % kArrive)], 64);
      Order<HardEvent::MTE2_MTE3>();
      DataCopy(Out(g)[static_cast<uint32_t>(64 * ((me - kArrive) * p[0] + round))], t, 64);
      Order<HardEvent::MTE3_MTE2>();
    }
  }
  Out(g).SetValue(2040 - 16 * me, static_cast<float>(barrier.GetWorkspaceLen()));
  DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(Out(g));
}
