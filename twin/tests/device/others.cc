// Kernels of others use these beside instructions: allocators, flags in GM, slices, bits, lists.
#include "twin/tests/device/kernels.h"

using namespace device_test;

// y = x + 1 on addresses that an allocator gives out; what it found is in y[64...].
KERNEL(allocated) {
  SetAtomicAdd<float>();
  SetMaskCount();
  InitSocState();
  WaitPreTaskEnd();
  LocalMemAllocator<Hardware::UB> memory;
  const LocalTensor<float> x = memory.Alloc<float, 64>();
  const LocalTensor<float> y = memory.Alloc<TPosition::VECOUT, float>(72);
  DataCopy(x, In(g), 64);
  Order<HardEvent::MTE2_V>();
  Adds(y, x, 1.0f, static_cast<uint64_t>(64), 1, UnaryRepeatParams(1, 1, 8, 8));
  Order<HardEvent::V_S>();
  const float seen[] = {static_cast<float>(memory.GetCurAddr()),
                        static_cast<float>(block_idx),
                        g_coreType == AIV ? 1.0f : 0.0f,
                        ASCEND_IS_NOT_AIC ? 1.0f : 0.0f,
                        likely(y.GetSize() == 72) ? 1.0f : 0.0f,
                        IsSameType<half, float>::value ? 1.0f : 0.0f,
                        static_cast<float>(DivCeil(65, 64) + K_MAX_DIM),
                        GetSystemCycle() > 0 ? 1.0f : 0.0f};
  for (uint32_t i = 0; i < 8; ++i) y.SetValue(64 + i, seen[i]);
  Order<HardEvent::S_MTE3>();
  Order<HardEvent::V_MTE3>();
  DataCopy(Out(g), y, 72);
  SetNextTaskStart();
}

// Bits of p[0] and p[1].
KERNEL(bits) {
  const auto value = static_cast<uint64_t>(p[0]);
  const int64_t counts[] = {GetBitCount<1>(value),          GetBitCount<0>(value),
                            CountLeadingZero(value),        CountBitsCntSameAsSignBit(p[0]),
                            GetSFFValue<0>(value),          ScalarGetSFFValue<1>(value),
                            ScalarGetCountOfValue<1>(value)};
  auto out = harness::Global<int64_t>(g[0]);
  for (uint64_t i = 0; i < 7; ++i) out.SetValue(i, counts[i]);
  DataCacheCleanAndInvalid<int64_t, CacheLine::ENTIRE_DATA_CACHE>(out);
}

// Core 0 writes a tile and raises a flag for each other core, p[0] rounds; p[1]: 1 where the others
// do not wait, 2 where core 0 does not set.
KERNEL(block_flags) {
  const auto flags = harness::Global<int32_t>(g[3]);
  const LocalTensor<int32_t> space(TPosition::VECCALC, 1024, 64);
  const LocalTensor<float> t(TPosition::VECCALC, 0, 64);
  const auto me = static_cast<int32_t>(GetBlockIdx());
  for (int64_t round = 0; round < p[0]; ++round) {
    if (me == 0) {
      DataCopy(t, In(g)[64 * round], 64);
      Order<HardEvent::MTE2_MTE3>();
      for (int32_t other = 1; other < GetBlockNum(); ++other) {
        if (round > 0) IBWait(flags, space, other, 1);
        DataCopy(Work(g)[64 * other], t, 64);
        if (p[1] != 2) IBSet(flags, space, other, 0);
      }
      PipeBarrier<PIPE_ALL>();
    } else {
      if (p[1] != 1) IBWait(flags, space, me, 0);
      DataCopy(t, Work(g)[64 * me], 64);
      Order<HardEvent::MTE2_MTE3>();
      DataCopy(Out(g)[64 * (me - 1 + round * (GetBlockNum() - 1))], t, 64);
      if (round + 1 < p[0]) IBSet(flags, space, me, 1);
      PipeBarrier<PIPE_ALL>();
    }
  }
}

// A tile of In at a time through a ring of four slots in the workspace, p[0] tiles, from core 0 to
// core 1. p[1]: 1 writes into one of three slots, 2 reads the next slot, 3 gives a slot back before
// it is read, 4 does not wait for a free one.
KERNEL(ring_of_slots) {
  constexpr int64_t kSlots = 4;
  const auto flags = harness::Global<int32_t>(g[3]);
  const LocalTensor<int32_t> space(TPosition::VECCALC, 1024, 64);
  const LocalTensor<float> t(TPosition::VECCALC, 0, 64);
  const int64_t tiles = p[0], fault = p[1];
  for (int64_t i = 0; i < tiles; ++i) {
    const auto slot = static_cast<int32_t>(i % kSlots);
    if (GetBlockIdx() == 0) {
      if (i >= kSlots && fault != 4) IBWait(flags, space, slot % 2, 4 + slot);
      DataCopy(t, In(g)[64 * i], 64);
      Order<HardEvent::MTE2_MTE3>();
      DataCopy(Work(g)[64 * (fault == 1 ? i % 3 : slot)], t, 64);
      IBSet(flags, space, slot % 2, slot);
      PipeBarrier<PIPE_ALL>();
    } else {
      IBWait(flags, space, slot % 2, slot);
      const bool again = i + kSlots < tiles && fault != 4;
      if (fault == 3 && again) IBSet(flags, space, slot % 2, 4 + slot);
      DataCopy(t, Work(g)[64 * (fault == 2 ? (i + 1) % kSlots : slot)], 64);
      Order<HardEvent::MTE2_MTE3>();
      DataCopy(Out(g)[64 * i], t, 64);
      if (fault != 3 && again) IBSet(flags, space, slot % 2, 4 + slot);
      PipeBarrier<PIPE_ALL>();
    }
  }
}

// Like flag_in_memory, with scalar accesses past the data cache.
KERNEL(flag_past_the_cache) {
  float* const flag = reinterpret_cast<float*>(g[3]);
  const LocalTensor<float> t(TPosition::VECCALC, 0, 64);
  if (GetBlockIdx() == 0) {
    DataCopy(t, In(g), 64);
    Order<HardEvent::MTE2_MTE3>();
    DataCopy(Work(g), t, 64);
    if (p[0] != 1) Order<HardEvent::MTE3_S>();
    WriteGmByPassDCache(flag, 1.0f);
  } else {
    while (ReadGmByPassDCache(flag) != 1.0f) {
    }
    DataCopy(t, Work(g), 64);
    Order<HardEvent::MTE2_MTE3>();
    DataCopy(Out(g)[64 * (GetBlockIdx() - 1)], t, 64);
  }
}

// Every second row of 8 x 32 floats, columns 8 to 23, to GM with a gap of p[0] rows.
KERNEL(slices) {
  const LocalTensor<float> t(TPosition::VECCALC, 0, 256);
  const SliceInfo from[] = {SliceInfo(8, 23, 0, 2, 32), SliceInfo(0, 7, 1, 1, 8)};
  const SliceInfo packed[] = {SliceInfo(0, 15, 0, 2, 16), SliceInfo(0, 3, 0, 1, 4)};
  DataCopy(t, In(g), packed, from, 2);
  Order<HardEvent::MTE2_MTE3>();
  const SliceInfo to[] = {
      SliceInfo(0, 15, 0, 2, 16),
      SliceInfo(0, static_cast<uint32_t>(3 * (p[0] + 1)), static_cast<uint32_t>(p[0]), 1, 16)};
  DataCopy(Out(g), t, to, packed, 2);
}

// The list in g[3]: sums of its tensors go to Out.
KERNEL(list_of_tensors) {
  ListTensorDesc list(g[3]);
  const LocalTensor<float> t(TPosition::VECCALC, 0, 64);
  Duplicate(t, 0.0f, 64);
  for (uint32_t i = 0; i < list.GetSize(); ++i) {
    uint64_t shape[4] = {};
    TensorDesc<float> desc;
    desc.SetShapeAddr(shape);
    list.GetDesc(desc, i);
    const LocalTensor<float> x(TPosition::VECCALC, 1024, 64);
    Order<HardEvent::V_MTE2>();
    DataCopy(x, desc.GetDataObj(), static_cast<uint32_t>(desc.GetShape(0) * desc.GetShape(1)));
    Order<HardEvent::MTE2_V>();
    Add(t, t, x, static_cast<int32_t>(desc.GetShape(0) * desc.GetShape(1)));
  }
  Order<HardEvent::V_MTE3>();
  DataCopy(Out(g), t, 64);
  list.GetDataPtr<float>(static_cast<uint32_t>(p[0]));
}

// y = 2 y + 1 + the core's index, p[0] rounds, one core after the other. p[1]: 1 where a core does
// not wait, 2 where it does not end its turn, 3 where nothing is set up.
KERNEL(turns) {
  auto slots = harness::Global<int32_t>(g[3]);
  LocalTensor<int32_t> space(TPosition::VECCALC, 1024, 64);
  const LocalTensor<float> y(TPosition::VECCALC, 0, 64);
  const auto out = Zeros(g)[1024];
  if (p[1] != 3) InitDetermineComputeWorkspace(slots, space);
  for (int64_t round = 0; round < p[0]; ++round) {
    if (p[1] != 1) WaitPreBlock(slots, space);
    DataCopy(y, out, 64);
    Order<HardEvent::MTE2_V>();
    Muls(y, y, 2.0f, 64);
    PipeBarrier<PIPE_V>();
    Adds(y, y, static_cast<float>(1 + GetBlockIdx()), 64);
    Order<HardEvent::V_MTE3>();
    DataCopy(out, y, 64);
    Order<HardEvent::MTE3_MTE2>();
    if (p[1] != 2) NotifyNextBlock(slots, space);
  }
}

// Rows of 16 floats whose maximum is p[0] become 7; the maxima are in blocks, or one a row.
KERNEL(adjusted_rows) {
  const LocalTensor<float> x(TPosition::VECCALC, 0, 128);
  const LocalTensor<float> most(TPosition::VECCALC, 1024, 64);
  DataCopy(x, In(g), 128);
  DataCopy(most, In(g)[128], 64);
  Order<HardEvent::MTE2_V>();
  SoftMaxShapeInfo shape;
  shape.srcM = shape.oriSrcM = 8;
  shape.srcK = shape.oriSrcK = 16;
  const auto from = static_cast<uint32_t>(p[0]);
  const bool any = p[1] ? AdjustSoftMaxRes<float, float, false, 1>(x, most, from, 7.0f, shape)
                        : AdjustSoftMaxRes(x, most, from, 7.0f, shape);
  Order<HardEvent::V_MTE3>();
  DataCopy(Out(g), x, 128);
  Out(g).SetValue(128, any ? 1.0f : 0.0f);
  DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(Out(g));
}

// Tensors whose fields the kernel sets itself.
KERNEL(set_by_hand) {
  LocalTensor<uint8_t> memory;
  memory.InitBuffer(0, 4096);
  memory.address_.logicPos = static_cast<uint8_t>(TPosition::VECIN);
  const auto x = memory[512].ReinterpretCast<float>();
  DataCopy(x, In(g), 64);
  Order<HardEvent::MTE2_V>();
  LocalTensor<float> y(TPosition::VECCALC, 2048, 16), z;
  z.SetAddr(y.address_);
  z.SetBufferLen(256);
  Adds(z, x, 1.0f, 64);
  Order<HardEvent::V_MTE3>();
  z.address_.bufferAddr += 128;
  DataCopy(Out(g), z, 32);
  LocalTensor<float> last;
  last.SetAddr(x.address_);
  DataCopy(Out(g)[32], last, 32);
}

// GM with one value while a TPipe has all of UB but p[0] bytes.
KERNEL(fills_what_is_left) {
  TPipe pipe;
  TBuf<> buf;
  pipe.InitBuffer(buf, static_cast<uint32_t>(192 * 1024 - 256 - p[0]));
  InitOutput<float>(Out(g), 600, 3.0f);
  Order<HardEvent::MTE3_V>();
  auto rest = Out(g)[600];
  Fill(rest, 100, 4.0f);
}

// Both halves of one source; each knows its kind of core when it is compiled.
namespace kinds {
void Cube(GM_ADDR* g);
void Vector(GM_ADDR* g);
}  // namespace kinds
KERNEL(two_kinds) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  g_coreType == AIC ? kinds::Cube(g) : kinds::Vector(g);
}

KERNEL(asserts) { ascendc_assert(p[0] == 1, "p[0] is %ld", p[0]); }

// Kernels of others take these from CANN's base headers without a name of an instruction.
KERNEL(words_of_others) {
  GlobalTensor<float> out = Out(g);
  const auto put = [&](uint64_t at, float value) { out.SetValue(at, value); };
  put(0, static_cast<float>(min(3, 2) + max(int64_t{5}, int64_t{4})));
  put(1, ToFloat(ToBfloat16(1.5f)) + Cast(Cast(0.25f)));
  put(2, static_cast<float>(Std::min(7, int64_t{9}) + Std::max(2u, uint16_t{3})));
  put(3, static_cast<float>(Std::get<1>(Std::make_tuple(1, 2)) + Std::is_one_of_v<int, half, int>));
  put(4, static_cast<float>(Ceil(33, 32) + ConstCeil(5, 4)));
  __bf16 narrow = 3;
  put(5, static_cast<float>(narrow));
  put(6, static_cast<float>(AscendCUtils::GetC0Count(sizeof(half)) + AscendCUtils::GetBitSize(4)));
  out(7) = 1.0f;
  out(7) += 4.0f;
  out(7) *= 3.0f;
  out(7) -= 1.0f;
  assert(p[0] != 1, "p[0] is %ld", p[0]);
  ASSERT(p[0] != 2 && "two");
  ASSERT_MSG(p[0] != 3, "three");
  PRELOAD(8);
  DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(out);
}

// Braces that take another number of values: nobody tells where.
KERNEL(values_in_braces) {
  const LocalTensor<float> x(TPosition::VECCALC, 0, 64);
  Duplicate(x, 1.0f, 64);
  [[maybe_unused]] const BrcbRepeatParams params{uint16_t{1}};
}
