// Correct kernels with several cores: flags in every mode, SyncAll, caches, atomics.
#include "twin/tests/harness.h"

using namespace AscendC;

namespace {

template <HardEvent event>
void Order() {
  const auto id = static_cast<event_t>(GetTPipePtr()->FetchEventID(event));
  SetFlag<event>(id);
  WaitFlag<event>(id);
}

constexpr uint32_t kTile = 64;

struct Buffers {
  Buffers() {
    pipe.InitBuffer(a, kTile * 4);
    pipe.InitBuffer(b, kTile * 4);
  }
  TPipe pipe;
  TBuf<TPosition::VECCALC> a, b;
};

// Every core writes its number into its slot of the workspace, then reads all slots and adds them.
void SumOfSlots(GM_ADDR* g, void (*meet)(GM_ADDR*, LocalTensor<float>)) {
  Buffers buffers;
  LocalTensor<float> a = buffers.a.Get<float>(), b = buffers.b.Get<float>();
  auto work = harness::Global<float>(g[0]), out = harness::Global<float>(g[1]);
  const auto me = static_cast<uint32_t>(GetBlockIdx());
  const auto cores = static_cast<uint32_t>(GetBlockNum() * GetTaskRatio());
  Duplicate(a, static_cast<float>(me + 1), kTile);
  Order<HardEvent::V_MTE3>();
  DataCopy(work[me * kTile], a, kTile);
  meet(g, b);
  PipeBarrier<PIPE_ALL>();
  Duplicate(b, 0.0f, kTile);
  for (uint32_t core = 0; core < cores; ++core) {
    Order<HardEvent::V_MTE2>();
    DataCopy(a, work[core * kTile], kTile);
    Order<HardEvent::MTE2_V>();
    PipeBarrier<PIPE_V>();
    Add(b, b, a, kTile);
  }
  Order<HardEvent::V_MTE3>();
  DataCopy(out[me * kTile], b, kTile);
}

}  // namespace

// g: work [cores, 64], out [cores, 64], slots of the software barrier.
KERNEL(sum_sync_all) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  SumOfSlots(g, [](GM_ADDR*, LocalTensor<float>) { SyncAll(); });
}
KERNEL(sum_mode_0) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  SumOfSlots(g, [](GM_ADDR*, LocalTensor<float>) {
    CrossCoreSetFlag<0, PIPE_MTE3>(5);
    CrossCoreWaitFlag(5);
  });
}
KERNEL(sum_soft) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
  SumOfSlots(g, [](GM_ADDR* g, LocalTensor<float>) {
    LocalTensor<int32_t> ub(TPosition::VECCALC, 4096, 48 * 8);
    SyncAll(harness::Global<int32_t>(g[2]), ub);
    SyncAll(harness::Global<int32_t>(g[2]), ub);
  });
}
KERNEL(sum_mixed) {  // SyncAll<false> is also called on the cube cores
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  if ASCEND_IS_AIC {
    SyncAll<false>();
  } else {
    SumOfSlots(g, [](GM_ADDR*, LocalTensor<float>) { SyncAll<false>(); });
  }
}

// The two AIV of a block exchange their tiles. g: work, out.
KERNEL(exchange_mode_1) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  if ASCEND_IS_AIC
    return;
  Buffers buffers;
  LocalTensor<float> a = buffers.a.Get<float>(), b = buffers.b.Get<float>();
  auto work = harness::Global<float>(g[0]), out = harness::Global<float>(g[1]);
  const auto me = static_cast<uint32_t>(GetBlockIdx());
  const uint32_t other = me ^ 1;
  Duplicate(a, static_cast<float>(me), kTile);
  Order<HardEvent::V_MTE3>();
  DataCopy(work[me * kTile], a, kTile);
  CrossCoreSetFlag<1, PIPE_MTE3>(2);
  CrossCoreWaitFlag(2);
  DataCopy(b, work[other * kTile], kTile);
  Order<HardEvent::MTE2_MTE3>();
  DataCopy(out[me * kTile], b, kTile);
}

// AIC loads the input to L1 and stores it to the workspace, both AIV of the block add their number
// and say when the slot may be used again; p[0] rounds. g: in, work, out.
KERNEL(pipeline_mode_2) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  TPipe pipe;
  auto in = harness::Global<float>(g[0]), work = harness::Global<float>(g[1]),
       out = harness::Global<float>(g[2]);
  const auto block = static_cast<uint32_t>(ASCEND_IS_AIC ? GetBlockIdx() : GetBlockIdx() / 2);
  const auto rounds = static_cast<uint32_t>(p[0]);
  const uint32_t slots = block * 4 * kTile;  // two slots of two tiles
  if ASCEND_IS_AIC {
    TBuf<TPosition::A1> l1;
    pipe.InitBuffer(l1, 2 * kTile * 4);
    LocalTensor<float> tile = l1.Get<float>();
    for (uint32_t r = 0; r < rounds; ++r) {
      if (r >= 2) CrossCoreWaitFlag(1);
      DataCopy(tile, in[(block * rounds + r) * 2 * kTile], 2 * kTile);
      Order<HardEvent::MTE2_MTE3>();
      DataCopy(work[slots + r % 2 * 2 * kTile], tile, 2 * kTile);
      Order<HardEvent::MTE3_MTE2>();
      CrossCoreSetFlag<2, PIPE_MTE3>(0);
    }
    for (uint32_t r = rounds < 2 ? rounds : 2; r > 0; --r) CrossCoreWaitFlag(1);
  } else {
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
    pipe.InitBuffer(queue, 1, kTile * 4);
    const auto half_of = static_cast<uint32_t>(GetSubBlockIdx());
    for (uint32_t r = 0; r < rounds; ++r) {
      CrossCoreWaitFlag(0);
      LocalTensor<float> t = queue.AllocTensor<float>();
      DataCopy(t, work[slots + (r % 2 * 2 + half_of) * kTile], kTile);
      CrossCoreSetFlag<2, PIPE_MTE2>(1);
      Order<HardEvent::MTE2_V>();
      Adds(t, t, static_cast<float>(half_of + 1), kTile);
      Order<HardEvent::V_MTE3>();
      queue.EnQue(t);
      t = queue.DeQue<float>();
      DataCopy(out[((block * rounds + r) * 2 + half_of) * kTile], t, kTile);
      queue.FreeTensor(t);
    }
  }
}

namespace {

template <typename T>
void Atomics(GM_ADDR* g, void (*on)()) {
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 1, kTile * sizeof(T));
  LocalTensor<T> t = queue.AllocTensor<T>();
  DataCopy(t, harness::Global<T>(g[0])[GetBlockIdx() * kTile], kTile);
  queue.EnQue(t);
  t = queue.DeQue<T>();
  on();
  DataCopy(harness::Global<T>(g[1]), t, kTile);
  SetAtomicNone();
  queue.FreeTensor(t);
}

}  // namespace

// g: in [cores, 64], out [64] with values.
#define ATOMICS(T)                             \
  KERNEL(atomic_add_##T) {                     \
    Atomics<T>(g, [] { SetAtomicAdd<T>(); });  \
  }                                            \
  KERNEL(atomic_max_##T) {                     \
    Atomics<T>(g, [] { SetAtomicMax<T>(); });  \
  }                                            \
  KERNEL(atomic_min_##T) {                     \
    Atomics<T>(g, [] { SetAtomicMin<T>(); });  \
  }                                            \
  KERNEL(atomic_type_##T) {                    \
    Atomics<T>(g, [] { SetAtomicType<T>(); }); \
  }
ATOMICS(float)
ATOMICS(half)
ATOMICS(bfloat16_t)
ATOMICS(int32_t)
ATOMICS(int16_t)
ATOMICS(int8_t)

// Scalar stores in a line per core, cleaned, read by DMA and by the next core's scalar unit.
// g: slots [cores, 16], out [cores, 16].
KERNEL(scalar_slots) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  TPipe pipe;
  TBuf<> buf;
  pipe.InitBuffer(buf, 64);
  auto slots = harness::Global<int32_t>(g[0]), out = harness::Global<int32_t>(g[1]);
  const auto me = static_cast<uint32_t>(GetBlockIdx()),
             cores = static_cast<uint32_t>(GetBlockNum());
  for (uint32_t i = 0; i < 16; ++i) slots.SetValue(me * 16 + i, static_cast<int32_t>(me * 100 + i));
  DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(
      slots[me * 16]);
  SyncAll();
  const uint32_t other = (me + 1) % cores;
  LocalTensor<int32_t> t = buf.Get<int32_t>();
  DataCopy(t, slots[other * 16], 16);
  Order<HardEvent::MTE2_S>();
  t.SetValue(0, t.GetValue(0) + slots.GetValue(other * 16 + 3));
  Order<HardEvent::S_MTE3>();
  DataCopy(out[me * 16], t, 16);
}

// Who am I. g: out [cores, 8] int32: the cube cores first.
KERNEL(identity) {
  const auto me = static_cast<uint32_t>(GetBlockIdx());
  const auto row = ASCEND_IS_AIC ? me : static_cast<uint32_t>(p[0]) + me;
  auto out = harness::Global<int32_t>(g[0])[row * 16];
  const int64_t values[] = {GetBlockIdx(),   GetBlockNum(), GetSubBlockIdx(), GetTaskRatio(),
                            GetTaskRation(), ASCEND_IS_AIC, ASCEND_IS_AIV,    TILING_KEY_IS(9)};
  for (int i = 0; i < 8; ++i) out.SetValue(i, static_cast<int32_t>(values[i]));
  DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE>(out);
}
// The order in which the cores did their steps.
static int32_t trace[4096];
static int32_t steps = 0;
extern "C" __attribute__((visibility("default"))) int32_t* trace_of_last_launch() {
  trace[steps] = -1;
  steps = 0;
  return trace;
}
KERNEL(traced) {
  TPipe pipe;
  TBuf<> buf;
  pipe.InitBuffer(buf, 1024);
  for (uint32_t i = 0; i < 32; ++i) {
    DataCopy(buf.Get<float>()[i * 8], harness::Global<float>(g[0]), 8);
    trace[steps++] = static_cast<int32_t>(GetBlockIdx());
  }
}

KERNEL(declares_by_key) {
  KERNEL_TASK_TYPE(1, KERNEL_TYPE_MIX_AIC_1_1);
  KERNEL_TASK_TYPE(2, KERNEL_TYPE_AIC_ONLY);
}
