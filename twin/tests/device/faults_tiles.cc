// Kernels with the mistakes that are made when a working kernel gets tiles, tails, double buffers,
// workspaces and several cores; the comment says what is wrong.
#include "twin/tests/device/kernels.h"

using namespace device_test;

namespace {

constexpr uint32_t kTile = 256;

struct Queues {
  Queues() {
    pipe.InitBuffer(in, 1, kTile * 4);
    pipe.InitBuffer(out, 1, kTile * 4);
    pipe.InitBuffer(buf, 4 * kTile * 4);
  }
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<> buf;
};

const DataCopyPadExtParams<float> kNoPadding(false, 0, 0, 0.0f);

}  // namespace

KERNEL(stale_tail) {  // the second tile has 64 elements, 256 are computed on
  Queues q;
  for (uint32_t i = 0; i < 2; ++i) {
    LocalTensor<float> t = q.in.AllocTensor<float>();
    DataCopy(t, In(g)[i * kTile], i == 0 ? kTile : 64);
    q.in.EnQue(t);
    t = q.in.DeQue<float>();
    LocalTensor<float> r = q.out.AllocTensor<float>();
    Adds(r, t, 1.0f, kTile);
    q.in.FreeTensor(t);
    q.out.EnQue(r);
    r = q.out.DeQue<float>();
    DataCopy(Out(g)[i * kTile], r, i == 0 ? kTile : 64);
    q.out.FreeTensor(r);
  }
}
KERNEL(stale_after_reset) {  // the buffer of the next phase holds nothing yet
  TPipe pipe;
  TBuf<> first, second;
  pipe.InitBuffer(first, 1024);
  Duplicate(first.Get<float>(), 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  pipe.Reset();
  pipe.InitBuffer(second, 1024);
  DataCopy(Out(g), second.Get<float>(), 64);
}
KERNEL(stored_from_vecin) {  // FreeTensor of VECIN waits for V, not for the store
  Queues q;
  for (uint32_t i = 0; i < 2; ++i) {
    LocalTensor<float> t = q.in.AllocTensor<float>();
    DataCopy(t, In(g)[i * kTile], kTile);
    q.in.EnQue(t);
    t = q.in.DeQue<float>();
    Order<HardEvent::MTE2_MTE3>();
    DataCopy(Out(g)[i * kTile], t, kTile);
    q.in.FreeTensor(t);
  }
}
KERNEL(computed_after_enque) {
  Queues q;
  LocalTensor<float> r = q.out.AllocTensor<float>();
  Duplicate(r, 1.0f, kTile);
  q.out.EnQue(r);
  PipeBarrier<PIPE_V>();
  Adds(r, r, 1.0f, kTile);
  r = q.out.DeQue<float>();
  DataCopy(Out(g), r, kTile);
}
KERNEL(stored_without_deque) {
  Queues q;
  LocalTensor<float> r = q.out.AllocTensor<float>();
  Duplicate(r, 1.0f, kTile);
  q.out.EnQue(r);
  DataCopy(Out(g), r, kTile);
}
KERNEL(loaded_after_deque) {
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  DataCopy(t, In(g), 128);
  q.in.EnQue(t);
  t = q.in.DeQue<float>();
  DataCopy(t[128], In(g), 128);
  Adds(q.buf.Get<float>(), t, 1.0f, kTile);
}
KERNEL(two_buffers_three_tiles) {  // the third load does not wait for the first computation
  TPipe pipe;
  TBuf<> loaded, computed;
  pipe.InitBuffer(loaded, 2 * kTile * 4);
  pipe.InitBuffer(computed, 3 * kTile * 4);
  for (uint32_t i = 0; i < 3; ++i) {
    LocalTensor<float> t = loaded.Get<float>()[i % 2 * kTile];
    DataCopy(t, In(g)[i * kTile], kTile);
    Order<HardEvent::MTE2_V>(static_cast<int32_t>(i % 2));
    Adds(computed.Get<float>()[i * kTile], t, 1.0f, kTile);
  }
}
KERNEL(flag_of_other_buffer) {  // flag 0 says that the first buffer is loaded
  Queues q;
  LocalTensor<float> t = q.buf.Get<float>();
  DataCopy(t, In(g), kTile);
  SetFlag<HardEvent::MTE2_V>(0);
  DataCopy(t[kTile], In(g), kTile);
  SetFlag<HardEvent::MTE2_V>(1);
  WaitFlag<HardEvent::MTE2_V>(0);
  Adds(t[2 * kTile], t[kTile], 1.0f, kTile);
  WaitFlag<HardEvent::MTE2_V>(1);
}
KERNEL(prefilled_without_flag) {  // no V_MTE2 between the padding and the load over it
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  Duplicate(t, 0.0f, kTile);
  DataCopyPad(t, In(g), DataCopyExtParams(1, 400, 0, 0, 0), kNoPadding);
}
KERNEL(scalar_over_load) {  // no MTE2_S
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  DataCopy(t, In(g), kTile);
  t.SetValue(kTile - 1, 0.0f);
}

KERNEL(length_in_elements) {  // blockLen counts bytes
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  DataCopyPad(t, In(g), DataCopyExtParams(1, 100, 0, 0, 0), kNoPadding);
  q.in.EnQue(t);
  t = q.in.DeQue<float>();
  Adds(q.buf.Get<float>(), t, 1.0f, 100);
}
KERNEL(stride_in_bytes) {  // dstStride counts blocks of 32 bytes in UB
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  DataCopyPad(t, In(g), DataCopyExtParams(4, 32, 0, 32, 0), kNoPadding);
}
KERNEL(many_rows) {  // 65537 does not fit into blockCount
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  const int rows = 65537;
  DataCopyPad(t, In(g), DataCopyExtParams(rows, 32, 0, 0, 0), kNoPadding);
}
KERNEL(long_rows) {  // 65538 does not fit into the blockLen of DataCopyParams
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  DataCopyParams params;
  params.blockLen = 65538;
  DataCopy(t, In(g), params);
}
KERNEL(wide_gap) {  // the gap of DataCopyPad with DataCopyParams has 16 bits
  Queues q;
  const DataCopyParams params(2, 4, 70000, 0);
  DataCopyPad(q.in.AllocTensor<float>(), In(g), params, DataCopyPadParams());
}
KERNEL(wider_gap) {  // and that of DataCopyPad with DataCopyExtParams 32
  Queues q;
  const int64_t gap = int64_t{1} << 32;
  DataCopyPad(q.in.AllocTensor<float>(), In(g), DataCopyExtParams(2, 128, gap, 0, 0), kNoPadding);
}
KERNEL(negative_gap) {  // rows of 128 bytes that begin 96 bytes apart
  Queues q;
  const int64_t pitch = 96, bytes = 128;
  DataCopyExtParams params(2, 128, 0, 0, 0);
  params.srcStride = pitch - bytes;
  DataCopyPad(q.in.AllocTensor<float>(), In(g), params, kNoPadding);
}
KERNEL(many_buffers) {  // 257 does not fit into the number of buffers
  TPipe pipe;
  TQue<TPosition::VECIN, 1> queue;
  pipe.InitBuffer(queue, 257, 32);
}
KERNEL(stride_of_wide_type) {  // 64 halves of a repeat are 4 blocks
  Queues q;
  LocalTensor<half> t = q.in.AllocTensor<half>();
  DataCopy(t, harness::Global<half>(g[0]), kTile);
  q.in.EnQue(t);
  t = q.in.DeQue<half>();
  Cast(q.buf.Get<float>(), t, RoundMode::CAST_NONE, 64, 4, UnaryRepeatParams(1, 1, 8, 8));
}
KERNEL(offset_in_elements) {  // bufOffset counts bytes
  Queues q;
  Duplicate(q.buf.GetWithOffset<float>(64, 0), 1.0f, 64);
  Duplicate(q.buf.GetWithOffset<float>(64, 64), 2.0f, 64);
}
KERNEL(freed_in_other_queue) {
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  q.out.FreeTensor(t);
}
KERNEL(event_ids_kept) {  // no ReleaseEventID in the loop
  TPipe pipe;
  for (int i = 0; i < 9; ++i) Order<HardEvent::MTE2_V>(pipe.AllocEventID<HardEvent::MTE2_V>());
}
KERNEL(repeats_meet) {  // dstRepStride 4: half of each repeat is lost
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  LocalTensor<float> other(TPosition::VECCALC, 4096, 256);
  PipeBarrier<PIPE_V>();
  Adds(other, place.Get(), 1.0f, 64, 4, UnaryRepeatParams(1, 1, 4, 0));
}

// Several cores.

KERNEL(added_before_zero) {  // core 0 clears the sum, nobody waits for it
  Place place;
  LocalTensor<float> t = place.Get();
  if (GetBlockIdx() == 0) {
    Duplicate(t, 0.0f, 64);
    Order<HardEvent::V_MTE3>();
    DataCopy(Out(g), t, 64);
    Order<HardEvent::MTE3_V>();
  }
  Ones(place);
  SetAtomicAdd<float>();
  DataCopy(Out(g), t, 64);
  SetAtomicNone();
}
KERNEL(sum_read_early) {
  Place place;
  Ones(place);
  SetAtomicAdd<float>();
  DataCopy(Zeros(g), place.Get(), 64);
  SetAtomicNone();
  Order<HardEvent::MTE3_MTE2>();
  DataCopy(place.Get(), Zeros(g), 64);
}
KERNEL(slots_overlap) {  // slots of 64 elements, 128 are written
  Place place;
  Duplicate(place.Get(), 1.0f, 128);
  Order<HardEvent::V_MTE3>();
  DataCopy(Work(g)[GetBlockIdx() * 64], place.Get(), 128);
}
KERNEL(core_without_work) {  // returns before SyncAll
  if (GetBlockIdx() == 2) return;
  SyncAll();
}
KERNEL(flag_after_wrong_pipe) {  // the store is on MTE3
  Place place;
  Ones(place);
  const auto me = static_cast<uint32_t>(GetBlockIdx());
  DataCopy(Work(g)[me * 64], place.Get(), 64);
  CrossCoreSetFlag<0, PIPE_V>(0);
  CrossCoreWaitFlag(0);
  DataCopy(place.Get()[64], Work(g)[(1 - me) * 64], 64);
}

namespace {

// AIC stores to the workspace in each round, both AIV load a half of it.
template <bool waits, bool answers>
void Rounds(GM_ADDR* g, int rounds) {
  if ASCEND_IS_AIC {
    TPipe pipe;
    TBuf<TPosition::A1> l1;
    pipe.InitBuffer(l1, 512);
    for (int i = 0; i < rounds; ++i) {
      DataCopy(l1.Get<float>(), In(g), 128);
      Order<HardEvent::MTE2_MTE3>();
      if (answers && i > 0) CrossCoreWaitFlag(1);
      PipeBarrier<PIPE_MTE3>();
      DataCopy(Work(g), l1.Get<float>(), 128);
      Order<HardEvent::MTE3_MTE2>();
      CrossCoreSetFlag<2, PIPE_MTE3>(0);
    }
  } else {
    Place place;
    for (int i = 0; i < rounds; ++i) {
      if (waits) CrossCoreWaitFlag(0);
      PipeBarrier<PIPE_MTE2>();
      DataCopy(place.Get(), Work(g)[GetSubBlockIdx() * 64], 64);
      if (!waits) CrossCoreWaitFlag(0);
      if (answers && i + 1 < rounds) CrossCoreSetFlag<2, PIPE_MTE2>(1);
    }
  }
}

}  // namespace

KERNEL(vector_does_not_wait) { Rounds<false, false>(g, 1); }
KERNEL(slot_overwritten) { Rounds<true, false>(g, 3); }
KERNEL(slot_handed_back) { Rounds<true, true>(g, 3); }
