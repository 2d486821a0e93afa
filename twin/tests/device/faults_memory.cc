// Kernels that each do one thing wrong with memory or with a queue; the comment says what.
#include "twin/tests/device/kernels.h"

using namespace device_test;

// g[0]: 64 floats in; g[1]: 64 floats out; g[2]: workspace of 64 floats.

KERNEL(gm_read_past_end) {  // 8 floats beyond the input
  Place place;
  DataCopy(place.Get(), harness::Global<float>(g[0])[8], 64);
}
KERNEL(gm_write_past_end) {
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[1])[32], place.Get(), 40);
}
KERNEL(gm_write_before_start) {
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[1])[-8], place.Get(), 8);
}
KERNEL(gm_foreign_pointer) {
  static float elsewhere[64];
  Place place;
  DataCopy(place.Get(), harness::Global<float>(reinterpret_cast<GM_ADDR>(elsewhere)), 64);
}
KERNEL(gm_scalar_past_end) { harness::Global<float>(g[0]).GetValue(64); }
KERNEL(ub_past_tensor) {  // the view has 16 floats
  Place place;
  DataCopy(place.buf.Get<float>(16), harness::Global<float>(g[0]), 64);
}
KERNEL(ub_view_beyond) {
  Place place;
  DataCopy(place.Get()[300], harness::Global<float>(g[0]), 8);
}
KERNEL(ub_size_beyond_buffer) {  // SetSize does not make the buffer larger
  Place place;
  LocalTensor<float> t = place.Get();
  t.SetSize(512);
  Duplicate(t, 0.0f, 512);
}
KERNEL(ub_scalar_past_end) {
  Place place;
  place.Get().SetValue(256, 1.0f);
}
KERNEL(ub_exceeded) {
  Place place;
  TBuf<> more;
  place.pipe.InitBuffer(more, 192 * 1024 - 1024 + 32);
}
KERNEL(ub_to_the_end) {
  Place place;
  TBuf<> more;
  place.pipe.InitBuffer(more, 192 * 1024 - 1024);
  DataCopy(more.GetWithOffset<float>(64, 191 * 1024 - 256), harness::Global<float>(g[0]), 64);
}
KERNEL(tbuf_get_too_long) {
  Place place;
  place.buf.Get<float>(257);
}
KERNEL(static_tensor_beyond) { LocalTensor<float> t(TPosition::VECCALC, 196576, 16); }
KERNEL(static_tensor_unaligned) { LocalTensor<float> t(TPosition::VECCALC, 16, 16); }
KERNEL(too_many_buffers) {
  Place place;
  TQue<TPosition::VECIN, 1> queue;
  place.pipe.InitBuffer(queue, 64, 32);
}
KERNEL(zero_length) {
  Place place;
  TBuf<> more;
  place.pipe.InitBuffer(more, 0);
}
KERNEL(never_allocated) {
  Place place;
  LocalTensor<float> t;
  DataCopy(t, harness::Global<float>(g[0]), 8);
}

KERNEL(ub_unaligned) {
  Place place;
  DataCopy(place.Get()[1], harness::Global<float>(g[0]), 8);
}
KERNEL(gm_unaligned) {
  Place place;
  DataCopy(place.Get(), harness::Global<float>(g[0] + 2), 8);
}
KERNEL(count_not_blocks) {
  Place place;
  DataCopy(place.Get(), harness::Global<float>(g[0]), 10);
}
KERNEL(block_count_limit) {
  Place place;
  DataCopy(place.Get(), harness::Global<float>(g[0]), DataCopyParams(4096, 1, 0, 0));
}
KERNEL(pad_block_length) {
  Place place;
  DataCopyPad(place.Get(), harness::Global<float>(g[0]), DataCopyExtParams(1, 6, 0, 0, 0),
              DataCopyPadExtParams<float>());
}
KERNEL(pad_limit) {
  Place place;
  DataCopyPad(place.Get(), harness::Global<float>(g[0]), DataCopyExtParams(1, 4, 0, 0, 0),
              DataCopyPadExtParams<float>(true, 0, 9, 0.0f));
}
KERNEL(pad_value_of_wide_type) {
  Place place;
  DataCopyPad(place.buf.Get<int64_t>(), harness::Global<int64_t>(g[0]),
              DataCopyExtParams(1, 8, 0, 0, 0), DataCopyPadExtParams<int64_t>(true, 0, 1, 1));
}
KERNEL(no_path) {  // UB of an AIV to L1
  Place place;
  LocalTensor<float> l1(TPosition::A1, 0, 64);
  DataCopy(l1, place.Get(), 64);
}

KERNEL(write_input) {
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[0]), place.Get(), 64);
}

KERNEL(write_tiling) {
  Place place;
  Ones(place);
  DataCopy(Zeros(g), place.Get(), 16);
}

KERNEL(ub_uninitialised) {
  Place place;
  DataCopy(harness::Global<float>(g[1]), place.Get(), 64);
}
KERNEL(ub_partly_uninitialised) {
  Place place;
  Duplicate(place.Get(), 1.0f, 63);
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[1]), place.Get(), 64);
}
KERNEL(workspace_uninitialised) {
  Place place;
  DataCopy(place.Get(), harness::Global<float>(g[2]), 64);
}
KERNEL(output_uninitialised) { harness::Global<float>(g[1]).GetValue(3); }
KERNEL(padding_undefined) {  // isPad off, but padding asked for
  Place place;
  DataCopyPad(place.Get(), harness::Global<float>(g[0]), DataCopyExtParams(1, 12, 0, 0, 0),
              DataCopyPadExtParams<float>(false, 0, 1, 0.0f));
  Order<HardEvent::MTE2_MTE3>();
  DataCopy(harness::Global<float>(g[1]), place.Get(), 8);
}
KERNEL(atomic_uninitialised) {
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  SetAtomicAdd<float>();
  DataCopy(harness::Global<float>(g[1]), place.Get(), 64);
}
KERNEL(atomic_other_dtype) {
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  SetAtomicAdd<half>();
  DataCopy(harness::Global<float>(g[1]), place.Get(), 64);
}
KERNEL(copy_overlap) {
  Place place;
  Duplicate(place.Get(), 1.0f, 128);
  PipeBarrier<PIPE_V>();
  DataCopy(place.Get()[8], place.Get(), 64);
}

namespace {

using Input = TQue<TPosition::VECIN, 2>;

struct Queues {
  Queues() {
    pipe.InitBuffer(in, 2, 256);
    pipe.InitBuffer(one, 1, 256);
  }
  TPipe pipe;
  Input in;
  TQue<TPosition::VECIN, 1> one;
};

}  // namespace

KERNEL(deque_empty) {
  Queues q;
  q.in.DeQue<float>();
}
KERNEL(enque_twice) {
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  q.in.EnQue(t);
  q.in.EnQue(t);
}
KERNEL(enque_beyond_depth) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> queue;
  pipe.InitBuffer(queue, 2, 256);
  LocalTensor<float> a = queue.AllocTensor<float>(), b = queue.AllocTensor<float>();
  queue.EnQue(a);
  queue.EnQue(b);
}
KERNEL(enque_foreign) {
  Queues q;
  LocalTensor<float> t = q.one.AllocTensor<float>();
  q.in.EnQue(t);
}
KERNEL(free_twice) {
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  q.in.FreeTensor(t);
  q.in.FreeTensor(t);
}
KERNEL(free_in_queue) {
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  q.in.EnQue(t);
  q.in.FreeTensor(t);
}
KERNEL(use_after_free) {
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  q.in.FreeTensor(t);
  DataCopy(t, harness::Global<float>(g[0]), 64);
}
KERNEL(use_of_an_earlier_tensor) {  // the same buffer was handed out again
  Queues q;
  LocalTensor<float> t = q.one.AllocTensor<float>();
  LocalTensor<float> old = t;
  q.one.FreeTensor(t);
  t = q.one.AllocTensor<float>();
  DataCopy(old, harness::Global<float>(g[0]), 64);
}
KERNEL(all_busy) {
  Queues q;
  q.in.AllocTensor<float>();
  q.in.AllocTensor<float>();
  q.in.AllocTensor<float>();
}
KERNEL(queue_without_buffers) {
  TPipe pipe;
  Input in;
  in.AllocTensor<float>();
}
KERNEL(event_ids_run_out) {  // five double-buffered queues of one position, all in use
  TPipe pipe;
  Input queues[5];
  for (Input& queue : queues) {
    pipe.InitBuffer(queue, 2, 256);
    for (int i = 0; i < 2; ++i) {
      LocalTensor<float> t = queue.AllocTensor<float>();
      DataCopy(t, harness::Global<float>(g[0]), 64);
      queue.EnQue(t);
    }
  }
}
KERNEL(deque_of_other_positions) {
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 1, 256);
  LocalTensor<float> t = queue.AllocTensor<float>();
  queue.EnQue<TPosition::GM, TPosition::VECIN, float>(t);
  queue.DeQue<TPosition::VECOUT, TPosition::GM, float>();
}
KERNEL(queue_without_path) {  // nothing moves data from UB to L0A
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::A2, 1> queue;
  pipe.InitBuffer(queue, 1, 256);
}
KERNEL(buffer_in_gm) {
  TPipe pipe;
  TBuf<TPosition::CO2> buf;
  pipe.InitBuffer(buf, 256);
}
KERNEL(released_id_limit) {
  TPipe pipe;
  pipe.ReleaseEventID<HardEvent::MTE2_V>(8);
}
KERNEL(destroyed_pipe) {
  Place place;
  place.pipe.Destroy();
  place.pipe.InitBuffer(place.buf, 256);
}
KERNEL(no_pipe) { GetTPipePtr(); }
KERNEL(second_pipe) {
  TPipe pipe;
  TPipe other;
}
KERNEL(use_after_reset) {
  Place place;
  LocalTensor<float> t = place.Get();
  place.pipe.Reset();
  DataCopy(t, harness::Global<float>(g[0]), 64);
}
KERNEL(use_after_next_pipe) {
  LocalTensor<float> t;
  {
    Place place;
    t = place.Get();
  }
  Place next;
  DataCopy(t, harness::Global<float>(g[0]), 64);
}
KERNEL(gm_base_of_nothing) {
  // So far from all memory that no offset leads back.
  GlobalTensor<float> in;
  in.SetGlobalBuffer(reinterpret_cast<float*>(uintptr_t{1} << 40));
  Place place;
  DataCopy(place.Get(), in[16], 64);
}
KERNEL(not_freed) {
  Queues q;
  LocalTensor<float> t = q.in.AllocTensor<float>();
  DataCopy(t, harness::Global<float>(g[0]), 64);
}
KERNEL(declared_size) {  // inside the buffer, beyond the size given to SetGlobalBuffer
  Place place;
  GlobalTensor<float> in;
  in.SetGlobalBuffer(reinterpret_cast<float*>(g[0]), 32);
  DataCopy(place.Get(), in, 64);
}

struct LargeTiling {
  int64_t values[32];
};
struct SmallTiling {
  int64_t first;
};
KERNEL(tiling_too_small) { GET_TILING_DATA_WITH_STRUCT(LargeTiling, data, g[3]); }
KERNEL(tiling_over_ub) {
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  GET_TILING_DATA_WITH_STRUCT(SmallTiling, data, g[3]);
}
KERNEL(tiling_of_key) {
  REGISTER_TILING_DEFAULT(SmallTiling);
  REGISTER_TILING_FOR_TILINGKEY("TILING_KEY_VAR >= 5 && (TILING_KEY_VAR & 1) == 1", LargeTiling);
  GET_TILING_DATA(data, g[3]);
}
KERNEL(tiling_bad_condition) { REGISTER_TILING_FOR_TILINGKEY("TILING_KEY ==", SmallTiling); }

// The processor stops these: the last instruction before it is in the error.
KERNEL(null_write) {
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  volatile uintptr_t nothing = 0;
  if (GetBlockIdx() == 1) *reinterpret_cast<volatile float*>(nothing) = 1.0f;
}
KERNEL(wild_read) {
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  volatile uintptr_t nowhere = 0x123456789000;
  *reinterpret_cast<volatile float*>(nowhere);
}
namespace {
__attribute__((noinline)) unsigned Deeper(unsigned n) {
  volatile char room[3000];
  room[n % 3000] = 1;
  return n == ~0u ? room[0] : Deeper(n + 1) + room[1];
}
}  // namespace
KERNEL(stack_overflow) {
  Place place;
  Duplicate(place.Get(), 1.0f, 64);
  if (Deeper(0) == 7) Duplicate(place.Get(), 2.0f, 64);
}
KERNEL(null_write_first) {
  volatile uintptr_t nothing = 0;
  *reinterpret_cast<volatile float*>(nothing) = 1.0f;
}
