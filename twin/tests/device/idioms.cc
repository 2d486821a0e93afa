// Correct kernels as they are commonly written; the twin has nothing to say of them.
#include "twin/tests/device/kernels.h"

using namespace device_test;

namespace {

constexpr uint32_t kTile = 256;

}  // namespace

// y = x + 1 of tiles with 99 elements in 256, the rest filled before the load; p[0] tiles.
KERNEL(padding_filled_first) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 2, kTile * 4);
  pipe.InitBuffer(out, 2, kTile * 4);
  for (int64_t i = 0; i < p[0]; ++i) {
    LocalTensor<float> t = in.AllocTensor<float>();
    PipeBarrier<PIPE_V>();
    Duplicate(t, -1.0f, kTile);
    Order<HardEvent::V_MTE2>(GetTPipePtr()->FetchEventID(HardEvent::V_MTE2));
    DataCopyPad(t, In(g)[i * 99], DataCopyExtParams(1, 396, 0, 0, 0),
                DataCopyPadExtParams<float>(true, 0, 5, -1.0f));
    in.EnQue(t);
    t = in.DeQue<float>();
    LocalTensor<float> r = out.AllocTensor<float>();
    Adds(r, t, 1.0f, kTile);
    in.FreeTensor(t);
    out.EnQue(r);
    r = out.DeQue<float>();
    DataCopy(Out(g)[i * kTile], r, kTile);
    out.FreeTensor(r);
  }
}

namespace {

// Two halves of a buffer, each with an event id for every direction.
struct PingPong {
  explicit PingPong(TPipe& owner) : pipe(owner) {
    for (int i = 0; i < 2; ++i) {
      loaded[i] = pipe.AllocEventID<HardEvent::MTE2_V>();
      read[i] = pipe.AllocEventID<HardEvent::V_MTE2>();
      computed[i] = pipe.AllocEventID<HardEvent::V_MTE3>();
      stored[i] = pipe.AllocEventID<HardEvent::MTE3_V>();
      SetFlag<HardEvent::V_MTE2>(read[i]);
      SetFlag<HardEvent::MTE3_V>(stored[i]);
    }
  }
  void Close() {
    for (int i = 0; i < 2; ++i) {
      WaitFlag<HardEvent::V_MTE2>(read[i]);
      WaitFlag<HardEvent::MTE3_V>(stored[i]);
      pipe.ReleaseEventID<HardEvent::MTE2_V>(loaded[i]);
      pipe.ReleaseEventID<HardEvent::V_MTE2>(read[i]);
      pipe.ReleaseEventID<HardEvent::V_MTE3>(computed[i]);
      pipe.ReleaseEventID<HardEvent::MTE3_V>(stored[i]);
    }
  }
  TPipe& pipe;
  TEventID loaded[2], read[2], computed[2], stored[2];
};

}  // namespace

KERNEL(ping_pong) {  // y = x + 1 with flags alone; p[0] tiles
  TPipe pipe;
  TBuf<> in, out;
  pipe.InitBuffer(in, 2 * kTile * 4);
  pipe.InitBuffer(out, 2 * kTile * 4);
  PingPong id(pipe);
  for (uint32_t i = 0; i < static_cast<uint32_t>(p[0]); ++i) {
    const uint32_t k = i % 2;
    LocalTensor<float> t = in.Get<float>()[k * kTile], r = out.Get<float>()[k * kTile];
    WaitFlag<HardEvent::V_MTE2>(id.read[k]);
    DataCopy(t, In(g)[i * kTile], kTile);
    SetFlag<HardEvent::MTE2_V>(id.loaded[k]);
    WaitFlag<HardEvent::MTE2_V>(id.loaded[k]);
    WaitFlag<HardEvent::MTE3_V>(id.stored[k]);
    Adds(r, t, 1.0f, kTile);
    SetFlag<HardEvent::V_MTE2>(id.read[k]);
    SetFlag<HardEvent::V_MTE3>(id.computed[k]);
    WaitFlag<HardEvent::V_MTE3>(id.computed[k]);
    DataCopy(Out(g)[i * kTile], r, kTile);
    SetFlag<HardEvent::MTE3_V>(id.stored[k]);
  }
  id.Close();
}

KERNEL(in_place) {  // y = max(x, 1) * 2 - x of 256 elements, in half on the way back
  TPipe pipe;
  TBuf<> buf;
  pipe.InitBuffer(buf, 3 * kTile * 4);
  LocalTensor<float> x = buf.Get<float>(), t = x[kTile];
  DataCopy(x, In(g), kTile);
  Order<HardEvent::MTE2_V>();
  Maxs(t, x, 1.0f, kTile);
  PipeBarrier<PIPE_V>();
  Add(t, t, t, kTile);
  PipeBarrier<PIPE_V>();
  Sub(t, t, x, kTile);
  PipeBarrier<PIPE_V>();
  LocalTensor<half> narrow = t.ReinterpretCast<half>();
  Cast(narrow, t, RoundMode::CAST_RINT, kTile);
  PipeBarrier<PIPE_V>();
  LocalTensor<float> wide = x[2 * kTile];
  Cast(wide, narrow, RoundMode::CAST_NONE, kTile);
  Order<HardEvent::V_MTE3>();
  DataCopy(Out(g), wide, kTile);
}

KERNEL(largest_of_rows) {  // of 4 rows of 64, then of the 4, packed side by side
  Place place;
  TBuf<> buf;
  place.pipe.InitBuffer(buf, 128);
  LocalTensor<float> t = place.Get(), w = buf.Get<float>();
  DataCopy(t, In(g), kTile);
  Order<HardEvent::MTE2_V>();
  Duplicate(w, 0.0f, 16);
  PipeBarrier<PIPE_V>();
  WholeReduceMax(w, t, 64, 4, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  PipeBarrier<PIPE_V>();
  WholeReduceMax(w[8], w, 4, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  Order<HardEvent::V_MTE3>();
  DataCopy(Out(g), w, 16);
}

// Several cores.

KERNEL(pieces_side_by_side) {  // 5 elements a core, in blocks of 32 bytes that cores share
  Place place;
  Duplicate(place.Get(), static_cast<float>(GetBlockIdx() + 1), 8);
  Order<HardEvent::V_MTE3>();
  DataCopyPad(Out(g)[GetBlockIdx() * 5], place.Get(), DataCopyExtParams(1, 20, 0, 0, 0));
}
KERNEL(zero_add_read) {  // core 0 clears the sum, all add to it, all read it
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  Place place;
  LocalTensor<int32_t> t = place.buf.Get<int32_t>();
  auto sum = harness::Global<int32_t>(g[2]);
  if (GetBlockIdx() == 0) {
    Duplicate(t, 0, 64);
    Order<HardEvent::V_MTE3>();
    DataCopy(sum, t, 64);
  }
  SyncAll();
  Duplicate(t, static_cast<int32_t>(GetBlockIdx() + 1), 64);
  Order<HardEvent::V_MTE3>();
  SetAtomicAdd<int32_t>();
  DataCopy(sum, t, 64);
  SetAtomicNone();
  SyncAll();
  DataCopy(t, sum, 64);
  Order<HardEvent::MTE2_MTE3>();
  DataCopy(harness::Global<int32_t>(g[1])[GetBlockIdx() * 64], t, 64);
}
KERNEL(cube_cores_exchange) {  // mode 0 among AIC
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_0);
  TPipe pipe;
  TBuf<TPosition::A1> l1;
  pipe.InitBuffer(l1, 256);
  const auto me = static_cast<uint32_t>(GetBlockIdx()),
             cores = static_cast<uint32_t>(GetBlockNum());
  DataCopy(l1.Get<float>(), In(g)[me * 64], 64);
  Order<HardEvent::MTE2_MTE3>();
  DataCopy(Work(g)[me * 64], l1.Get<float>(), 64);
  CrossCoreSetFlag<0, PIPE_MTE3>(1);
  CrossCoreWaitFlag(1);
  DataCopy(l1.Get<float>(), Work(g)[(me + 1) % cores * 64], 64);
  Order<HardEvent::MTE2_MTE3>();
  DataCopy(Out(g)[me * 64], l1.Get<float>(), 64);
}
KERNEL(cores_without_work) {  // two cores have work, all call SyncAll, the last one reads
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  Place place;
  const auto me = static_cast<uint32_t>(GetBlockIdx());
  if (me < 2) {
    Duplicate(place.Get(), static_cast<float>(me + 1), 64);
    Order<HardEvent::V_MTE3>();
    DataCopy(Work(g)[me * 64], place.Get(), 64);
  }
  SyncAll();
  if (me + 1 == static_cast<uint32_t>(GetBlockNum())) {
    DataCopy(place.Get(), Work(g), 128);
    Order<HardEvent::MTE2_MTE3>();
    DataCopy(Out(g), place.Get(), 128);
  }
}

// A TPipe that only hands out addresses: gone before they are used.
KERNEL(addresses_of_a_destroyed_pipe) {
  TPipe pipe;
  TBuf<TPosition::VECCALC> buf;
  pipe.InitBuffer(buf, 1024);
  LocalTensor<float> t = buf.Get<float>();
  pipe.Destroy();
  LocalTensor<float> placed(TPosition::VECCALC, 1024, 64);
  DataCopy(t, In(g), 64);
  Order<HardEvent::MTE2_V>();
  Adds(placed, t, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  DataCopy(Out(g), placed, 64);
}

// The base of a tensor lies before its memory, and every index leads into it.
KERNEL(base_before_the_memory) {
  constexpr uint64_t kBefore = uint64_t{1} << 34;
  GlobalTensor<float> in, out;
  in.SetGlobalBuffer(reinterpret_cast<float*>(g[0] - kBefore * 4));
  out.SetGlobalBuffer(reinterpret_cast<float*>(g[1] - kBefore * 4));
  LocalTensor<float> t(TPosition::VECCALC, 0, 64);
  DataCopy(t, in[kBefore], 64);
  Order<HardEvent::MTE2_MTE3>();
  DataCopy(out[kBefore], t, 48);
  for (uint64_t i = 48; i < 64; ++i) out.SetValue(kBefore + i, in.GetValue(kBefore + i));
  DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(out);
}

// Core 0 hands a tile to all others by a flag in GM that they poll. p[0]: 1 where the flag does not
// wait for the tile, 2 where nobody sets it.
KERNEL(flag_in_memory) {
  auto flag = Zeros(g), work = Work(g);
  LocalTensor<float> t(TPosition::VECCALC, 0, 64);
  if (GetBlockIdx() == 0) {
    DataCopy(t, In(g), 64);
    Order<HardEvent::MTE2_MTE3>();
    DataCopy(work, t, 64);
    if (p[0] != 1) Order<HardEvent::MTE3_S>();
    if (p[0] == 2) return;
    flag.SetValue(0, 1.0f);
    work.SetValue(1024, 1.0f);
    DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(flag);
    DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(work);
  } else {
    do {
      DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(flag);
    } while (flag.GetValue(0) != 1.0f);
    DataCopy(t, work, 64);
    Order<HardEvent::MTE2_MTE3>();
    DataCopy(Out(g)[64 * (GetBlockIdx() - 1)], t, 64);
  }
}
