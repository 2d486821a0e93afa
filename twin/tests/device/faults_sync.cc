// Kernels that each do one thing wrong with flags, barriers, or between cores.
#include "twin/tests/device/kernels.h"

using namespace device_test;

namespace {

// A destructor may not throw, and this one finds no flag.
struct WaitsAtEnd {
  ~WaitsAtEnd() { WaitFlag<HardEvent::MTE2_V>(EVENT_ID3); }
};
struct WaitsForOthers {
  ~WaitsForOthers() { CrossCoreWaitFlag(3); }
};

}  // namespace

// g[0]: 1024 floats in; g[1]: 1024 floats out; g[2]: workspace of 1024 floats; g[3]: 1024 zeros.

KERNEL(load_then_compute) {  // no MTE2_V
  Place place;
  DataCopy(place.Get(), In(g), 64);
  Adds(place.Get()[64], place.Get(), 1.0f, 64);
}
KERNEL(load_then_store) {  // no MTE2_MTE3
  Place place;
  DataCopy(place.Get(), In(g), 64);
  DataCopy(Out(g), place.Get(), 64);
}
KERNEL(compute_then_store) {  // no V_MTE3
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  DataCopy(Out(g), place.Get(), 64);
}
KERNEL(compute_then_reload) {  // no V_MTE2: the load overwrites what V still reads
  Place place;
  DataCopy(place.Get(), In(g), 64);
  Order<HardEvent::MTE2_V>();
  Adds(place.Get()[64], place.Get(), 1.0f, 64);
  DataCopy(place.Get(), In(g), 64);
}
KERNEL(store_then_compute) {  // no MTE3_V
  Place place;
  Ones(place);
  DataCopy(Out(g), place.Get(), 64);
  Duplicate(place.Get(), 2.0f, 64);
}
KERNEL(compute_then_compute) {  // no PipeBarrier<PIPE_V>
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  Adds(place.Get()[64], place.Get(), 1.0f, 64);
}
KERNEL(compute_over_source) {  // the second writes what the first reads
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  PipeBarrier<PIPE_V>();
  Adds(place.Get()[64], place.Get(), 1.0f, 64);
  Duplicate(place.Get(), 2.0f, 64);
}
KERNEL(error_before_destructor) {
  Place place;
  WaitsAtEnd end;
  DataCopy(place.Get(), In(g), 64);
  Adds(place.Get()[64], place.Get(), 1.0f, 64);
}
KERNEL(error_in_destructor) { WaitsAtEnd end; }
KERNEL(error_while_others_wait) {
  WaitsForOthers end;
  if (GetBlockIdx() != 0) return;
  Place place;
  DataCopy(place.Get(), In(g), 64);
  Adds(place.Get()[64], place.Get(), 1.0f, 64);
}
// p[0]: nothing, an event or a barrier before CTRL changes under a Cast.
KERNEL(saturation_under_a_cast) {
  Place place;
  LocalTensor<half> narrow = place.Get()[64].ReinterpretCast<half>();
  Duplicate(place.Get(), 1.0f, 64);
  PipeBarrier<PIPE_V>();
  Cast(narrow, place.Get(), RoundMode::CAST_RINT, 64);
  if (p[0] == 1) Order<HardEvent::V_S>();
  if (p[0] == 2) PipeBarrier<PIPE_ALL>();
  if (p[0] == 3) {
    SetCtrlSpr<48, 48>(1);
  } else if (p[0] == 4) {
    set_ctrl(sbitset1(get_ctrl(), 48));
  } else {
    SetSaturationFlag<SaturationMode::FLOAT>(false);
  }
  // A result in float does not depend on it.
  PipeBarrier<PIPE_V>();
  Cast(place.Get(), narrow, RoundMode::CAST_NONE, 64);
  SetSaturationFlag<SaturationMode::FLOAT>(true);
}
// p[0]: a bit that is set or cleared besides the one of saturation; p[1]: the one it is to be.
KERNEL(other_bits_of_ctrl) {
  const uint64_t before = get_ctrl();
  set_ctrl(sbitset1(before, 48));
  if ((get_ctrl() >> 48 & 1) != 1) set_ctrl(0);
  set_ctrl(p[1] != 0 ? sbitset1(before, static_cast<int>(p[0]))
                     : sbitset0(before, static_cast<int>(p[0])));
}
KERNEL(load_over_load) {
  Place place;
  DataCopy(place.Get(), In(g), 64);
  DataCopy(place.Get()[32], In(g), 64);
}
KERNEL(store_over_store) {
  Place place;
  Ones(place);
  DataCopy(Out(g), place.Get(), 64);
  DataCopy(Out(g)[32], place.Get(), 64);
}
KERNEL(store_then_load) {  // no MTE3_MTE2
  Place place;
  Ones(place);
  DataCopy(Work(g), place.Get(), 64);
  DataCopy(place.Get()[64], Work(g), 64);
}
KERNEL(scalar_then_compute) {  // no S_V
  Place place;
  for (int i = 0; i < 64; ++i) place.Get().SetValue(i, 1.0f);
  Adds(place.Get()[64], place.Get(), 1.0f, 64);
}
KERNEL(compute_then_scalar) {  // no V_S
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  place.Get().GetValue(5);
}
KERNEL(load_then_scalar) {  // no MTE2_S
  Place place;
  DataCopy(place.Get(), In(g), 64);
  place.Get()(7);
  const float value = place.Get()(7);
  (void)value;
}
KERNEL(wrong_direction) {  // V_MTE2 where MTE2_V is needed
  Place place;
  DataCopy(place.Get(), In(g), 64);
  Order<HardEvent::V_MTE2>();
  Adds(place.Get()[64], place.Get(), 1.0f, 64);
}
KERNEL(flag_too_early) {  // set before the load it should cover
  Place place;
  SetFlag<HardEvent::MTE2_V>(0);
  DataCopy(place.Get(), In(g), 64);
  WaitFlag<HardEvent::MTE2_V>(0);
  Adds(place.Get()[64], place.Get(), 1.0f, 64);
}
KERNEL(write_after_enque) {  // the producer goes on after EnQue
  TPipe pipe;
  TQue<TPosition::VECIN, 1> queue;
  TBuf<> buf;
  pipe.InitBuffer(queue, 1, 256);
  pipe.InitBuffer(buf, 256);
  LocalTensor<float> t = queue.AllocTensor<float>();
  DataCopy(t, In(g), 32);
  queue.EnQue(t);
  DataCopy(t[32], In(g), 32);
  t = queue.DeQue<float>();
  Adds(buf.Get<float>(), t, 1.0f, 64);
  queue.FreeTensor(t);
}

KERNEL(wait_without_set) { WaitFlag<HardEvent::MTE2_V>(3); }
KERNEL(set_without_wait) { SetFlag<HardEvent::MTE2_V>(3); }
KERNEL(event_id_limit) { SetFlag<HardEvent::MTE2_V>(8); }
KERNEL(event_of_cube) { SetFlag<HardEvent::MTE1_M>(0); }
KERNEL(event_of_vector) { SetFlag<HardEvent::MTE2_V>(0); }
KERNEL(vector_on_cube) {
  LocalTensor<float> t(TPosition::VECCALC, 0, 64);
  Duplicate(t, 1.0f, 64);
}
KERNEL(ub_on_cube) {
  LocalTensor<float> t(TPosition::VECCALC, 0, 64);
  DataCopy(t, In(g), 64);
}
KERNEL(l1_on_vector) {
  LocalTensor<float> t(TPosition::A1, 0, 64);
  DataCopy(t, In(g), 64);
}
KERNEL(barrier_of_cube) { PipeBarrier<PIPE_M>(); }
KERNEL(set_twice) {
  SetFlag<HardEvent::MTE2_V>(0);
  SetFlag<HardEvent::MTE2_V>(0);
  WaitFlag<HardEvent::MTE2_V>(0);
  WaitFlag<HardEvent::MTE2_V>(0);
}
KERNEL(reserved_id) {
  SetFlag<HardEvent::MTE2_V>(6);
  WaitFlag<HardEvent::MTE2_V>(6);
}
KERNEL(atomic_left_on) { SetAtomicAdd<float>(); }
KERNEL(float_atomics) {
  Place place;
  Ones(place);
  SetAtomicAdd<float>();
  DataCopy(harness::Global<float>(g[3]), place.Get(), 64);
  SetAtomicNone();
}

// Several cores.

KERNEL(cores_write_same) {
  Place place;
  Ones(place);
  DataCopy(Out(g), place.Get(), 64);
}
KERNEL(core_reads_other) {  // nothing between the store of core 0 and the load of core 1
  Place place;
  if (GetBlockIdx() == 0) {
    Ones(place);
    DataCopy(harness::Global<float>(g[3]), place.Get(), 64);
  } else {
    DataCopy(place.Get(), harness::Global<float>(g[3]), 64);
  }
}
KERNEL(flag_on_wrong_pipe) {  // MTE2 has nothing to do with the store
  Place place;
  Ones(place);
  DataCopy(Work(g)[GetBlockIdx() * 64], place.Get(), 64);
  CrossCoreSetFlag<0, PIPE_MTE2>(0);
  CrossCoreWaitFlag(0);
  DataCopy(place.Get()[64], Work(g)[(1 - GetBlockIdx()) * 64], 64);
}
KERNEL(pure_kernel_flag) {
  CrossCoreSetFlag<0, PIPE_MTE3>(0);
  CrossCoreWaitFlag(0);
}
KERNEL(flag_limit) { CrossCoreSetFlag<0, PIPE_MTE3>(16); }
KERNEL(flag_of_sync_all) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0);
  CrossCoreSetFlag<0, PIPE_MTE3>(11);
  CrossCoreWaitFlag(11);
}
KERNEL(mode_one_in_aiv) { CrossCoreSetFlag<1, PIPE_MTE3>(0); }
KERNEL(flag_pipe_of_cube) { CrossCoreSetFlag<0, PIPE_FIX>(0); }
KERNEL(unequal_sync_all) {
  SyncAll();
  if (GetBlockIdx() == 0) SyncAll();
}
KERNEL(one_vector_core_sets) {  // both AIV have to set in mode 2
  if ASCEND_IS_AIC {
    CrossCoreWaitFlag(3);
  } else if (GetSubBlockIdx() == 0) {
    CrossCoreSetFlag<2, PIPE_MTE3>(3);
  }
}
KERNEL(flag_never_waited) {
  if ASCEND_IS_AIC
    CrossCoreSetFlag<2, PIPE_FIX>(3);
}
KERNEL(flag_counter) {
  if ASCEND_IS_AIC {
    for (int i = 0; i < 16; ++i) CrossCoreSetFlag<2, PIPE_FIX>(3);
  } else {
    CrossCoreWaitFlag(4);
  }
}
KERNEL(mode_changes) {
  if ASCEND_IS_AIV {
    if (GetBlockIdx() == 0) {
      CrossCoreSetFlag<1, PIPE_MTE3>(3);
      CrossCoreSetFlag<2, PIPE_MTE3>(3);
    }
  }
}
KERNEL(more_blocks_than_cores) { SyncAll(); }
KERNEL(soft_sync_dirty) {  // the slots are not zero
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  SyncAll(harness::Global<int32_t>(g[0]), place.buf.Get<int32_t>(), 2);
}
KERNEL(soft_sync_small) {
  TPipe pipe;
  TBuf<> buf;
  pipe.InitBuffer(buf, 32);
  SyncAll(harness::Global<int32_t>(g[3]), buf.Get<int32_t>());
}

KERNEL(soft_sync_many) {
  Place place;
  SyncAll(harness::Global<int32_t>(g[3]), place.buf.Get<int32_t>(), 3);
}
KERNEL(soft_sync_few) {  // the second core does not take part
  Place place;
  SyncAll(harness::Global<int32_t>(g[3]), place.buf.Get<int32_t>(), 1);
}
KERNEL(mode_one_on_cube) {
  if ASCEND_IS_AIC
    CrossCoreSetFlag<1, PIPE_FIX>(0);
}
KERNEL(input_in_vecout) {  // EnQue and DeQue of VECOUT order PIPE_V before PIPE_MTE3
  TPipe pipe;
  TQue<TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 1, 256);
  LocalTensor<float> tensor = queue.AllocTensor<float>();
  DataCopy(tensor, harness::Global<float>(g[0]), 64);
  queue.EnQue(tensor);
  tensor = queue.DeQue<float>();
  Adds(tensor, tensor, 1.0f, 64);
  queue.FreeTensor(tensor);
}
KERNEL(queue_passed_by) {  // no EnQue
  TPipe pipe;
  TQue<TPosition::VECIN, 1> queue;
  pipe.InitBuffer(queue, 1, 256);
  LocalTensor<float> tensor = queue.AllocTensor<float>();
  DataCopy(tensor, harness::Global<float>(g[0]), 64);
  Adds(tensor, tensor, 1.0f, 64);
  queue.FreeTensor(tensor);
}
KERNEL(no_event) { set_flag(PIPE_M, PIPE_MTE3, EVENT_ID0); }

KERNEL(scalar_store_not_cleaned) {  // DMA does not see the data cache
  Place place;
  for (int i = 0; i < 8; ++i) Work(g).SetValue(i, 1.0f);
  Order<HardEvent::S_MTE2>();
  DataCopy(place.Get(), Work(g), 8);
}
KERNEL(scalar_load_stale) {  // the line was read before the store
  Place place;
  GlobalTensor<float> slots = harness::Global<float>(g[3]);
  slots.GetValue(0);
  Ones(place);
  DataCopy(slots, place.Get(), 8);
  Order<HardEvent::MTE3_S>();
  slots.GetValue(0);
}
KERNEL(cache_line_shared) {  // both cores store to one line
  GlobalTensor<float> slots = harness::Global<float>(g[3]);
  slots.SetValue(GetBlockIdx(), 1.0f);
  DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(slots);
}
KERNEL(scalar_store_left) { Out(g).SetValue(0, 1.0f); }
