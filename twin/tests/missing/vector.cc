// Vector instructions and copies on tensors of which some elements hold no value. Buffers: an
// output, zeros, a workspace. p: the elements without a value as bits, what lies there all the
// same (bits of a float), a number of the kernel's.
#include <cstring>

#include "twin/tests/harness.h"

using namespace AscendC;
using harness::Order;

namespace {

constexpr uint32_t kN = 64;
const BinaryRepeatParams kBinary(1, 1, 1, 8, 8, 8);
const UnaryRepeatParams kUnary(1, 1, 8, 8);

template <typename T = float>
LocalTensor<T> At(uint32_t address, uint32_t count = kN) {
  return LocalTensor<T>(TPosition::VECCALC, address, count);
}

// x is 2 but for the elements without a value, y is 0, one is 1; y is stored in the end.
struct Tensors {
  explicit Tensors(const int64_t* p) {
    for (uint32_t i = 0; i < kN; ++i) std::memcpy(x.GetPhyAddr(i), &p[1], sizeof(float));
    uint64_t mask[2] = {~static_cast<uint64_t>(p[0]), 0};
    Duplicate(x, 2.0f, mask, 1, 1, 8);
    Duplicate(y, 0.0f, kN);
    Duplicate(one, 1.0f, kN);
    PipeBarrier<PIPE_V>();
  }
  void Store(GM_ADDR to, uint32_t count = kN) {
    Order<HardEvent::V_MTE3>();
    Order<HardEvent::S_MTE3>();
    DataCopy(harness::Global<float>(to), y, count);
  }
  LocalTensor<float> x = At(0), y = At(4096), one = At(8192);
};

// Offsets of x's elements from the last to the first, and bits that choose every other element.
LocalTensor<uint32_t> Backwards() {
  const auto offsets = At<uint32_t>(12288);
  for (uint32_t i = 0; i < kN; ++i) offsets.SetValue(i, 4 * (kN - 1 - i));
  Order<HardEvent::S_V>();
  return offsets;
}
LocalTensor<uint8_t> EveryOther() {
  const auto bits = At<uint8_t>(12288, 32);
  for (uint32_t i = 0; i < 32; ++i) bits.SetValue(i, 0x55);
  Order<HardEvent::S_V>();
  return bits;
}

}  // namespace

// Computes y.
#define CARRIED(name)                                                                          \
  static void name(Tensors& t, GM_ADDR* g, const int64_t* p);                                  \
  static const harness::Registration register_##name(#name, [](GM_ADDR* g, const int64_t* p) { \
    Tensors t(p);                                                                              \
    name(t, g, p);                                                                             \
    t.Store(g[0]);                                                                             \
  });                                                                                          \
  static void name([[maybe_unused]] Tensors& t, [[maybe_unused]] GM_ADDR* g,                   \
                   [[maybe_unused]] const int64_t* p)

CARRIED(binary) { Add(t.y, t.one, t.x, kN); }
CARRIED(strided) { Mul(t.y, t.x, t.one, 20, 1, kBinary); }
CARRIED(in_place) {
  Exp(t.x, t.x, kN);
  PipeBarrier<PIPE_V>();
  Adds(t.y, t.x, 1.0f, kN);
}
CARRIED(overwritten) {
  Exp(t.x, t.x, kN);
  PipeBarrier<PIPE_V>();
  Duplicate(t.x, 3.0f, kN);
  PipeBarrier<PIPE_V>();
  Adds(t.y, t.x, 1.0f, kN);
}
CARRIED(into_dst) { Axpy(t.y, t.x, 2.0f, kN); }
CARRIED(of_dst) {
  MulAddDst(t.x, t.one, t.one, kN);
  PipeBarrier<PIPE_V>();
  Adds(t.y, t.x, 0.0f, kN);
}
CARRIED(narrowed) { Cast(t.y.ReinterpretCast<half>(), t.x, RoundMode::CAST_RINT, kN); }
CARRIED(widened) { Cast(t.y, t.x.ReinterpretCast<half>(), RoundMode::CAST_NONE, kN); }
CARRIED(copied) { Copy(t.y, t.x, uint64_t{kN}, 1, CopyRepeatParams(1, 1, 8, 8)); }
CARRIED(moved) { DataCopy(t.y, t.x, kN); }
CARRIED(broadcast_blocks) { Brcb(t.y, t.x, 1, BrcbRepeatParams(1, 8)); }
CARRIED(gathered) { Gather(t.y, t.x, Backwards(), 0, kN); }
CARRIED(gathered_blocks) {
  const auto offsets = At<uint32_t>(12288, 8);
  for (uint32_t i = 0; i < 8; ++i) offsets.SetValue(i, 32 * (7 - i));
  Order<HardEvent::S_V>();
  Gatherb(t.y.ReinterpretCast<uint32_t>(), t.x.ReinterpretCast<uint32_t>(), offsets, 1,
          GatherRepeatParams(1, 8));
}
CARRIED(packed) {
  uint64_t kept = 0;
  GatherMask(t.x, t.x, static_cast<uint8_t>(p[2]), false, 0, GatherMaskParams(1, 1, 8, 0), kept);
  PipeBarrier<PIPE_V>();
  Adds(t.y, t.x, 0.0f, static_cast<int32_t>(kept));
}
CARRIED(selected) { Select(t.y, EveryOther(), t.x, t.one, SELMODE::VSEL_TENSOR_TENSOR_MODE, kN); }
CARRIED(selected_or_scalar) {
  Select(t.y, EveryOther(), t.x, 5.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, kN);
}
CARRIED(summed) { WholeReduceSum(t.y, t.x, kN, 1, 1, 1, 8); }
CARRIED(summed_blocks) { BlockReduceSum(t.y, t.x, 1, kN, 1, 1, 8); }
CARRIED(summed_pairs) { PairReduceSum(t.y, t.x, 1, kN, 1, 1, 8); }
CARRIED(summed_all) { ReduceSum(t.y, t.x, At(16384), static_cast<int32_t>(kN)); }
CARRIED(largest_blocks) { BlockReduceMax(t.y, t.x, 1, kN, 1, 1, 8); }
CARRIED(largest_all) { ReduceMax(t.y, t.x, At(16384), static_cast<int32_t>(kN), true); }
// Squares of 16 by 16 halves, of which the first 128 are x; the first rows are stored.
template <typename F>
void Turn(Tensors& t, F turn) {
  const auto from = At<half>(0, 256), to = At<half>(16384, 256);
  Duplicate(At<half>(256, 128), half(1), 128);
  PipeBarrier<PIPE_V>();
  turn(to, from);
  PipeBarrier<PIPE_V>();
  DataCopy(t.y.ReinterpretCast<half>(), to, 128);
}
CARRIED(transposed) {
  Turn(t, [](const auto& to, const auto& from) { Transpose(to, from); });
}
CARRIED(transposed_blocks) {
  Turn(t, [](const auto& to, const auto& from) {
    LocalTensor<half> dst[16], src[16];
    for (uint32_t i = 0; i < 16; ++i) {
      dst[i] = to[16 * i];
      src[i] = from[16 * i];
    }
    TransDataTo5HDParams params;
    params.repeatTimes = 1;
    params.dstRepStride = params.srcRepStride = 0;
    TransDataTo5HD(dst, src, params);
  });
}
// Four rows of 16, of which 12 count.
CARRIED(softmaxed) {
  const SoftMaxTiling tiling = twin::MakeSoftmaxTiling(4, 16, 8, 4);
  SoftMax<float>(t.y, At(16384, 32), At(20480, 32), t.x, tiling, {4, 16, 4, 12});
}
CARRIED(softmax_sums) {
  const SoftMaxTiling tiling = twin::MakeSoftmaxTiling(4, 16, 8, 4);
  SoftMax<float>(At(16384), t.y, At(20480, 32), t.x, tiling, {4, 16, 4, 12});
}
CARRIED(row_sums) {
  const uint32_t shape[2] = {4, 16};
  ReduceSum<float, Pattern::Reduce::AR>(t.y, t.x, At<uint8_t>(16384, 8192), shape, true);
}
CARRIED(largest_of_columns) {
  const uint32_t shape[2] = {4, 16};
  ReduceMax<float, Pattern::Reduce::RA>(t.y, t.x, At<uint8_t>(16384, 8192), shape, true);
}
CARRIED(dropped) {
  DropOutShapeInfo info;
  info.firstAxis = 1;
  info.srcLastAxis = kN;
  info.maskLastAxis = kN / 8;
  DropOut<float, false, 3>(t.y, t.x, EveryOther(), At<uint8_t>(16384, 4096), 0.5f, info);
}
CARRIED(masked) {
  const auto mask = At<uint8_t>(20480, kN);
  for (uint32_t i = 0; i < kN; ++i) mask.SetValue(i, i % 2);
  Order<HardEvent::S_V>();
  SelectWithBytesMaskShapeInfo info;
  info.firstAxis = 1;
  info.srcLastAxis = info.maskLastAxis = kN;
  SelectWithBytesMask(t.y, t.x, 5.0f, mask, At<uint8_t>(16384, 4096), info);
}
// x is the first four rows of a square of 16 by 16, and four rows of the result are stored.
CARRIED(transposed_matrix) {
  const auto from = At(16384, 256), to = At(20480, 256);
  Duplicate(from, 1.0f, 256);
  PipeBarrier<PIPE_V>();
  DataCopy(from, t.x, kN);
  PipeBarrier<PIPE_V>();
  ConfusionTransposeTiling tiling{8, 16, 16, 1, 16, 2};
  ConfusionTranspose(to, from, TransposeType::TRANSPOSE_ND2ND_ONLY, tiling);
  PipeBarrier<PIPE_V>();
  DataCopy(t.y, to, kN);
}
CARRIED(broadcast) {
  const uint32_t to[] = {2, 32}, from[] = {1, 32};
  auto space = At<uint8_t>(16384, 4096);
  Broadcast<float, 2, 0>(t.y, t.x, to, from, space);
}
CARRIED(through_memory) {
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[2]), t.x, kN);
  Order<HardEvent::MTE3_MTE2>();
  Order<HardEvent::V_MTE2>();
  DataCopy(t.y, harness::Global<float>(g[2]), kN);
  Order<HardEvent::MTE2_MTE3>();
}
CARRIED(tail) {
  Exp(t.x, t.x, kN);
  PipeBarrier<PIPE_V>();
  Add(t.x, t.x, t.one, kN);
  PipeBarrier<PIPE_V>();
  Adds(t.y, t.x, 1.0f, static_cast<int32_t>(p[2]));
}

// Added p[2] times to zeros.
KERNEL(added_up) {
  Tensors t(p);
  Order<HardEvent::V_MTE3>();
  SetAtomicAdd<float>();
  for (int64_t i = 0; i < p[2]; ++i) DataCopy(harness::Global<float>(g[1]), t.x, kN);
  SetAtomicNone();
}
// A store whose tail the next store replaces, but for p[2] elements.
KERNEL(stored_twice) {
  Tensors t(p);
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[0]), t.x, kN);
  PipeBarrier<PIPE_MTE3>();
  DataCopyPad(harness::Global<float>(g[0])[kN / 2], t.one,
              DataCopyExtParams(1, static_cast<uint32_t>((kN / 2 - p[2]) * 4), 0, 0, 0));
}

// Where a value counts.
CARRIED(scalar) {
  Order<HardEvent::V_S>();
  t.one.SetValue(0, t.x.GetValue(5));
}
CARRIED(scalar_of_result) {
  Adds(t.x, t.x, 1.0f, kN);
  Order<HardEvent::V_S>();
  t.one.SetValue(0, t.x.GetValue(5));
}
CARRIED(scalar_of_sum) {
  float value = 0, index = 0;
  WholeReduceMax(t.y, t.x, kN, 1, 1, 1, 8);
  Order<HardEvent::V_S>();
  GetReduceMaxMinCount(value, index);
}
CARRIED(offset) { Gather(t.y, t.one, t.x.ReinterpretCast<uint32_t>(), 0, kN); }
CARRIED(offset_of_blocks) {
  Gatherb(t.y.ReinterpretCast<uint32_t>(), t.one.ReinterpretCast<uint32_t>(),
          t.x.ReinterpretCast<uint32_t>(), 1, GatherRepeatParams(1, 8));
}
CARRIED(pattern) {
  uint64_t kept = 0;
  GatherMask(t.y, t.one, t.x.ReinterpretCast<uint32_t>(), true, kN, GatherMaskParams(1, 1, 8, 8),
             kept);
}
CARRIED(compared) { Compare(t.y.ReinterpretCast<uint8_t>(), t.x, t.one, CMPMODE::LT, kN); }
CARRIED(compared_scalar) {
  CompareScalar(t.y.ReinterpretCast<uint8_t>(), t.x, 1.0f, CMPMODE::LT, kN);
}
CARRIED(compared_to_register) { Compare(t.x, t.one, CMPMODE::LT, uint64_t{kN}, kBinary); }
CARRIED(choice) {
  Select(t.y, t.x.ReinterpretCast<uint8_t>(), t.one, t.one, SELMODE::VSEL_TENSOR_TENSOR_MODE, kN);
}
CARRIED(sorted) { Sort32(t.y, t.x, t.one.ReinterpretCast<uint32_t>(), 1); }
CARRIED(added_to_nothing) {
  Order<HardEvent::V_MTE3>();
  SetAtomicAdd<float>();
  DataCopy(harness::Global<float>(g[0]), t.one, kN);
  SetAtomicNone();
}
