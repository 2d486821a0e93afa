// Kernels with one fault each (test_faults.py). Their tensors X, Y and Z are 16 KB of zeros each.
#include "twin/tests/harness.h"

using namespace AscendC;

namespace {

constexpr uint32_t kBytes = 16 * 1024;
const BinaryRepeatParams kStrides(1, 1, 1, 8, 8, 8);
const UnaryRepeatParams kUnary(1, 1, 8, 8);

struct Tensors {
  explicit Tensors(uint32_t bytes = 4 * kBytes) {
    pipe.InitBuffer(buffer, bytes);
    Duplicate(At<float>(0), 0.0f, 3 * kBytes / 4);
    PipeBarrier<PIPE_ALL>();
  }
  template <typename T>
  LocalTensor<T> At(uint32_t byte) {
    return buffer.Get<uint8_t>()[byte].template ReinterpretCast<T>();
  }
  template <typename T = float>
  LocalTensor<T> X() {
    return buffer.GetWithOffset<T>(kBytes / sizeof(T), 0);
  }
  template <typename T = float>
  LocalTensor<T> Y() {
    return buffer.GetWithOffset<T>(kBytes / sizeof(T), kBytes);
  }
  template <typename T = float>
  LocalTensor<T> Z() {
    return buffer.GetWithOffset<T>(kBytes / sizeof(T), 2 * kBytes);
  }
  // Never written.
  template <typename T = float>
  LocalTensor<T> Fresh() {
    return buffer.GetWithOffset<T>(kBytes / sizeof(T), 3 * kBytes);
  }
  TPipe pipe;
  TBuf<> buffer;
};

}  // namespace

#define FAULT(name)                                                                          \
  static void name(Tensors& t, [[maybe_unused]] GM_ADDR* g);                                 \
  static const harness::Registration register_##name(#name, [](GM_ADDR* g, const int64_t*) { \
    Tensors t;                                                                               \
    name(t, g);                                                                              \
  });                                                                                        \
  static void name([[maybe_unused]] Tensors& t, [[maybe_unused]] GM_ADDR* g)

FAULT(none) {
  Add(t.X(), t.Y(), t.Z(), 4096);
  PipeBarrier<PIPE_V>();
  Muls(t.Y(), t.X(), 2.0f, 4096);
}

// Limits of the mask and of the repeats.
FAULT(mask_above_repeat) { Add(t.X(), t.Y(), t.Z(), 65, 1, kStrides); }
FAULT(mask_zero) { Add(t.X(), t.Y(), t.Z(), uint64_t{0}, 1, kStrides); }
FAULT(mask_high_word_of_float) {
  uint64_t mask[2] = {~uint64_t{0}, 1};
  Add(t.X(), t.Y(), t.Z(), mask, 1, kStrides);
}
FAULT(mask_bits_zero) {
  uint64_t mask[2] = {0, 0};
  Exp(t.X(), t.Y(), mask, 1, kUnary);
}
FAULT(repeat_256) { Add(t.X(), t.Y(), t.Z(), 1, 256, BinaryRepeatParams(1, 1, 1, 0, 0, 0)); }
FAULT(repeat_negative) { Exp(t.X(), t.Y(), 64, -1, kUnary); }
FAULT(count_negative) { Add(t.X(), t.Y(), t.Z(), -1); }
FAULT(register_above_repeat) { SetVectorMask<float, MaskMode::NORMAL>(65); }

// Strides.
FAULT(stride_256) { Add(t.X(), t.Y(), t.Z(), 64, 2, BinaryRepeatParams(1, 1, 1, 8, 256, 8)); }
FAULT(block_stride_0) { Add(t.X(), t.Y(), t.Z(), 64, 1, BinaryRepeatParams(0, 1, 1, 8, 8, 8)); }
FAULT(brcb_stride_0) { Brcb(t.X(), t.Y(), 1, BrcbRepeatParams(0, 8)); }

// Addresses and bounds.
FAULT(misaligned) { Add(t.At<float>(4), t.Y(), t.Z(), 8); }
FAULT(misaligned_source) { Exp(t.X(), t.At<float>(kBytes + 16), 8); }
FAULT(beyond_tensor) { Add(t.X(), t.Y(), t.Z(), 4097); }
FAULT(beyond_by_stride) { Exp(t.X(), t.Y(), 64, 9, UnaryRepeatParams(1, 1, 8, 64)); }
FAULT(uninitialised) { Add(t.X(), t.Y(), t.Fresh(), 8); }
FAULT(reduce_misaligned) { WholeReduceSum(t.At<float>(6), t.Y(), 64, 1, 1, 1, 8); }
FAULT(not_ub) {
  LocalTensor<float> l1(TPosition::A1, 0, 1024);
  Add(l1, t.Y(), t.Z(), 8);
}

// Overlap.
FAULT(overlap) { Add(t.At<float>(32), t.At<float>(0), t.Z(), 64, 1, kStrides); }
FAULT(overlap_repeats) { Adds(t.At<float>(256), t.At<float>(0), 1.0f, 64, 4, kUnary); }
FAULT(overlap_widening) {
  Cast(t.At<float>(0), t.At<half>(0), RoundMode::CAST_NONE, 64, 2, UnaryRepeatParams(1, 1, 8, 4));
}
FAULT(overlap_brcb) { Brcb(t.X(), t.X(), 1, BrcbRepeatParams(1, 8)); }
FAULT(overlap_gather) { Gather(t.X(), t.X(), t.Y<uint32_t>(), 0, 64); }

// Hazards: one pipe does not wait for itself.
FAULT(read_after_write) {
  Add(t.X(), t.Y(), t.Z(), 64);
  Muls(t.Y(), t.X(), 2.0f, 64);
}
FAULT(write_after_read) {
  Add(t.X(), t.Y(), t.Z(), 64);
  Muls(t.Y(), t.Z(), 2.0f, 64);
}
FAULT(write_after_write) {
  Add(t.X(), t.Y(), t.Z(), 64);
  Muls(t.X(), t.Z(), 2.0f, 64);
}
FAULT(tree_without_barrier) {
  BlockReduceSum(t.X(), t.Y(), 8, 64, 1, 1, 8);
  BlockReduceSum(t.Z(), t.X(), 1, 64, 1, 1, 8);
}
FAULT(cast_without_barrier) {
  Cast(t.X<half>(), t.Y(), RoundMode::CAST_RINT, 64);
  Add(t.Z<half>(), t.X<half>(), t.X<half>(), 64);
}
FAULT(scalar_before_vector) {
  t.X().SetValue(0, 1.0f);
  Adds(t.Y(), t.X(), 1.0f, 64);
}
FAULT(vector_before_scalar) {
  Adds(t.Y(), t.X(), 1.0f, 64);
  t.X().SetValue(1, t.Y().GetValue(0));
}
FAULT(load_before_vector) {
  DataCopy(t.X(), harness::Global<float>(g[0]), 64);
  Adds(t.Y(), t.X(), 1.0f, 64);
}

// The mask register.
FAULT(counter_mode_forgotten) {
  SetMaskCount();
  Add(t.X(), t.Y(), t.Z(), 64, 4, kStrides);
}
FAULT(stale_counter_mask) {
  SetMaskCount();
  SetVectorMask<float, MaskMode::COUNTER>(100);
  Add<float, false>(t.X(), t.Y(), t.Z(), MASK_PLACEHOLDER, 1, kStrides);
  SetMaskNorm();
  PipeBarrier<PIPE_V>();
  Add<float, false>(t.X(), t.Y(), t.Z(), MASK_PLACEHOLDER, 1, kStrides);
}
FAULT(stale_normal_mask) {
  SetVectorMask<float, MaskMode::NORMAL>(40);
  SetMaskCount();
  Exp<float, false>(t.X(), t.Y(), MASK_PLACEHOLDER, 1, kUnary);
}

// Limits of single instructions.
FAULT(cast_mode) { Cast(t.X(), t.Y<half>(), RoundMode::CAST_RINT, 64); }
FAULT(cast_mode_none) { Cast(t.X<int32_t>(), t.Y(), RoundMode::CAST_NONE, 64); }
FAULT(deq_scale) { Cast(t.X<half>(), t.Y<int32_t>(), RoundMode::CAST_NONE, 64); }
FAULT(shift) { ShiftLeft(t.X<int32_t>(), t.Y<int32_t>(), int32_t{33}, 64); }
FAULT(compare_count) { Compare(t.X<uint8_t>(), t.Y(), t.Z(), CMPMODE::LT, 65); }
FAULT(compare_integer) { Compare(t.X<uint8_t>(), t.Y<int32_t>(), t.Z<int32_t>(), CMPMODE::LT, 64); }
FAULT(compare_register_unset) { GetCmpMask(t.X<uint32_t>()); }
FAULT(compare_register_small) {
  Compare(t.Y(), t.Z(), CMPMODE::LT, 64, kStrides);
  PipeBarrier<PIPE_V>();
  GetCmpMask(t.buffer.GetWithOffset<uint32_t>(8, 0));
}
FAULT(select_mode) {
  Select(t.X(), t.Y<uint8_t>(), t.Z(), t.X(), SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
}
FAULT(select_scalar_mode) {
  Select(t.X(), t.Y<uint8_t>(), t.Z(), 1.0f, SELMODE::VSEL_CMPMASK_SPR, 64);
}
// 64 floats from byte 184 * 1024 + p[0] of UB are read after a Select that keeps its scalar there.
static const harness::Registration register_select_scratch("select_scratch", [](GM_ADDR*,
                                                                                const int64_t* p) {
  Tensors t(192 * 1024);
  const auto last = t.At<float>(184 * 1024 + static_cast<uint32_t>(p[0]));
  Duplicate(last, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  for (int i = 0; i < 2; ++i) {
    Select(t.X(), t.Y<uint8_t>(), t.Z(), 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
    PipeBarrier<PIPE_V>();
  }
  Adds(t.X(), last, 1.0f, 64);
});
// Count forms over themselves: float of a half that lies in the first or the second half of dst.
static const harness::Registration register_overlap_count("overlap_count", [](GM_ADDR* g,
                                                                              const int64_t* p) {
  Tensors t;
  const auto narrow = t.At<half>(p[0] ? 256 : 0);
  Duplicate(narrow, half(1), 128);
  PipeBarrier<PIPE_V>();
  Cast(t.At<float>(0), narrow, RoundMode::CAST_NONE, 128);
  SetFlag<HardEvent::V_MTE3>(0);
  WaitFlag<HardEvent::V_MTE3>(0);
  DataCopy(harness::Global<float>(g[0]), t.At<float>(0), 128);
});
FAULT(gather_misaligned) {
  Duplicate(t.Z<uint32_t>(), uint32_t{2}, 64);
  PipeBarrier<PIPE_V>();
  Gather(t.X(), t.Y(), t.Z<uint32_t>(), 0, 64);
}
FAULT(gather_beyond) {
  Duplicate(t.Z<uint32_t>(), uint32_t{kBytes}, 64);
  PipeBarrier<PIPE_V>();
  Gather(t.X(), t.Y(), t.Z<uint32_t>(), 0, 64);
}
FAULT(gather_mask_pattern) {
  uint64_t count = 0;
  GatherMask(t.X(), t.Y(), 8, false, 0, GatherMaskParams(1, 1, 8, 0), count);
}
FAULT(gather_mask_nothing) {
  uint64_t count = 0;
  GatherMask(t.X(), t.Y(), 1, true, 0, GatherMaskParams(1, 1, 8, 0), count);
}
FAULT(reduce_tmp) {
  ReduceMax(t.X(), t.Y(), t.buffer.GetWithOffset<float>(8, 2 * kBytes), 4096, true);
}
FAULT(reduce_repeats) { WholeReduceMax(t.X(), t.Y(), 64, 256, 0, 1, 0); }
FAULT(sort_repeats) { Sort32(t.X(), t.Y(), t.Z<uint32_t>(), 256); }
FAULT(merge_valid_bit) {
  const uint16_t lengths[4] = {32, 32, 32, 32};
  MrgSort(t.X(), MrgSortSrcList<float>(t.Y(), t.Y(), t.Y(), t.Y()),
          MrgSort4Info(lengths, false, 5, 1));
}
FAULT(merge_length) {
  const uint16_t lengths[4] = {4096, 32, 0, 0};
  MrgSort(t.X(), MrgSortSrcList<float>(t.Y(), t.Y(), t.Y(), t.Y()),
          MrgSort4Info(lengths, false, 3, 1));
}
FAULT(merge_repeats) {
  const uint16_t lengths[4] = {32, 32, 32, 16};
  MrgSort(t.X(), MrgSortSrcList<float>(t.Y(), t.Y(), t.Y(), t.Y()),
          MrgSort4Info(lengths, false, 15, 2));
}
FAULT(merge_result_early) {
  const uint16_t lengths[4] = {32, 32, 0, 0};
  MrgSort(t.X(), MrgSortSrcList<float>(t.Y(), t.Z(), t.Z(), t.Z()),
          MrgSort4Info(lengths, true, 3, 1));
  uint16_t taken[4];
  GetMrgSortResult(taken[0], taken[1], taken[2], taken[3]);
}
FAULT(maximum_early) {
  WholeReduceMax(t.X(), t.Y(), 64, 1, 1, 1, 8, ReduceOrder::ORDER_VALUE_INDEX);
  float value = 0, index = 0;
  GetReduceRepeatMaxMinSpr<float>(value, index);
}
FAULT(high_half) {
  LocalTensor<half> list[16];
  for (uint32_t i = 0; i < 16; ++i) list[i] = t.X<half>()[16 * i];
  TransDataTo5HD<half>(list, list, TransDataTo5HDParams(true, false, 1, 0, 0));
}
FAULT(address_list) {
  uint64_t list[16] = {};
  TransDataTo5HD<half>(list, list, TransDataTo5HDParams(false, false, 1, 0, 0));
}

// A vector instruction on a cube core.
static const harness::Registration register_on_cube("on_cube", [](GM_ADDR*, const int64_t*) {
  LocalTensor<float> x(TPosition::VECCALC, 0, 64);
  Duplicate(x, 0.0f, 64);
});

// The high-level APIs.
namespace {
SoftMaxShapeInfo ShapeOf(uint32_t m, uint32_t k) { return {m, k, m, k}; }
TopkTiling TopkOf(int32_t all, int32_t k) {
  TopkTiling tiling;
  tiling.allDataSize = all;
  tiling.kAlignFourBytes = (k + 7) / 8 * 8;
  return tiling;
}
void TopkAs(Tensors& t, int32_t k, int32_t inner, const TopkTiling& tiling) {
  TopKInfo info;
  info.outter = 1;
  info.inner = info.n = inner;
  TopK(t.X(), t.Y<int32_t>(), t.Z(), {}, {}, k, tiling, info);
}
}  // namespace
FAULT(softmax_columns) {
  SoftMax(t.X(), t.Y(), twin::MakeSoftmaxTiling(4, 33, 8, 4), ShapeOf(4, 33));
}
FAULT(softmax_tiling) {
  SoftMax(t.X(), t.Y(), twin::MakeSoftmaxTiling(4, 32, 8, 0), ShapeOf(4, 32));
}
FAULT(softmax_tmp) {
  auto tmp = t.buffer.GetWithOffset<uint8_t>(32, 2 * kBytes);
  SoftMax(t.X(), t.Y(), tmp, twin::MakeSoftmaxTiling(4, 32, 8, 4), ShapeOf(4, 32));
}
FAULT(softmax_early) {
  DataCopy(t.Y(), harness::Global<float>(g[0]), 64);
  SoftMax(t.X(), t.Y(), twin::MakeSoftmaxTiling(2, 32, 8, 2), ShapeOf(2, 32));
}
FAULT(topk_tmp) {
  TopKInfo info;
  info.outter = 1;
  info.inner = info.n = 64;
  auto tmp = t.buffer.GetWithOffset<uint8_t>(32, 3 * kBytes);
  TopK(t.X(), t.Y<int32_t>(), t.Z(), {}, {}, tmp, 4, TopkOf(64, 4), info);
}
FAULT(topk_k) { TopkAs(t, 33, 32, TopkOf(32, 33)); }
FAULT(topk_inner) { TopkAs(t, 4, 48, TopkOf(48, 4)); }
FAULT(topk_tiling) { TopkAs(t, 4, 64, TopkOf(32, 4)); }
FAULT(broadcast_shape) {
  const uint32_t dst[2] = {4, 32}, src[2] = {2, 32};
  Broadcast<float, 2, 0>(t.X(), t.Y(), dst, src);
}
FAULT(broadcast_axis) {
  const uint32_t dst[2] = {4, 32}, src[2] = {4, 1};
  Broadcast<float, 2, 0>(t.X(), t.Y(), dst, src);
}
FAULT(broadcast_columns) {
  const uint32_t dst[2] = {4, 33}, src[2] = {1, 33};
  Broadcast<float, 2, 0>(t.X(), t.Y(), dst, src);
}
FAULT(select_bytes_size) {
  SelectWithBytesMaskShapeInfo info;
  info.firstAxis = 1;
  info.srcLastAxis = info.maskLastAxis = 64;
  Select(t.X(), t.Y(), 1.0f, t.Z<uint8_t>(), t.Fresh<uint8_t>(), info);
}
FAULT(fill_without_room) {
  TBuf<TPosition::VECCALC> rest;
  t.pipe.InitBuffer(rest, 192 * 1024 - 256 - 4 * kBytes);
  auto out = harness::Global<float>(g[0]);
  Fill(out, 64, 1.0f);
}

// No fault. p: Fill or InitOutput, data type, elements.
template <typename T>
static void FillWith(GM_ADDR address, const int64_t* p) {
  TPipe pipe;
  GlobalTensor<T> out;
  out.SetGlobalBuffer(reinterpret_cast<T*>(address));
  p[0] == 0 ? Fill(out, static_cast<uint64_t>(p[2]), T(42))
            : InitOutput(out, static_cast<uint32_t>(p[2]), T(42));
}
KERNEL(fill) {
  void (*const kinds[])(GM_ADDR, const int64_t*) = {FillWith<int16_t>,  FillWith<uint16_t>,
                                                    FillWith<half>,     FillWith<int32_t>,
                                                    FillWith<uint32_t>, FillWith<float>};
  kinds[p[1]](g[0], p);
}

// Progressions, logarithms, reductions of a matrix, transposition and dropout.
FAULT(arange_count) { Arange(t.X(), 0.0f, 1.0f, 0); }
FAULT(arange_falling) { ArithProgression(t.X(), 0.0f, -1.0f, 64); }
FAULT(arange_early) {
  Adds(t.Y(), t.X(), 1.0f, 64);
  Arange(t.X(), 0.0f, 1.0f, 64);
}
FAULT(silu_in_place) { Silu(t.X(), t.X(), 64); }
FAULT(sigmoid_in_place) { Sigmoid(t.X(), t.X(), 64); }
FAULT(sigmoid_without_space) {
  LocalTensor<uint8_t> space = t.Z().ReinterpretCast<uint8_t>();
  space.SetSize(16);
  Sigmoid(t.X(), t.Y(), space, 64);
}
FAULT(cumsum_short_rows) {
  LocalTensor<float> x = t.X(), y = t.Y();
  CumSum(x, y, t.Z(), {4, 12});
}
FAULT(cumsum_without_space) {
  LocalTensor<float> x = t.X(), y = t.Y();
  LocalTensor<uint8_t> space = t.Z().ReinterpretCast<uint8_t>();
  space.SetSize(256);
  CumSum(x, y, t.Z()[1024], space, {4, 16});
}
FAULT(silu_beyond) { Silu(t.X(), t.Z(), 4097); }
FAULT(log_in_place) { Log(t.X(), t.X()[8], 64); }
FAULT(log_early) {
  Adds(t.X(), t.Y(), 1.0f, 64);
  Log2(t.Z(), t.X(), 64);
}
FAULT(log_tmp) {
  Log2(t.X<half>(), t.Y<half>(), t.buffer.GetWithOffset<uint8_t>(96, 2 * kBytes), 64);
}
FAULT(sum_inner) { Sum(t.X(), t.Y(), SumParams{2, 16, 5}); }
FAULT(sum_n) { Sum(t.X(), t.Y(), SumParams{2, 8, 9}); }
FAULT(sum_in_place) { Sum(t.X(), t.X(), SumParams{2, 8, 8}); }
FAULT(sum_early) {
  Adds(t.X(), t.Y(), 1.0f, 64);
  Sum(t.Z(), t.X(), SumParams{8, 8, 8});
}
FAULT(sum_uninitialised) { Sum(t.X(), t.Fresh(), SumParams{2, 8, 8}); }
FAULT(reduce_axis_tmp) {
  const uint32_t shape[] = {4, 128};
  auto tmp = t.buffer.GetWithOffset<uint8_t>(64, 2 * kBytes);
  ReduceSum<float, Pattern::Reduce::AR>(t.X(), t.Y(), tmp, shape, true);
}
FAULT(reduce_axis_pad) {
  const uint32_t shape[] = {4, 5};
  ReduceMax<float, Pattern::Reduce::RA>(t.X(), t.Y(), t.Z<uint8_t>(), shape, false);
}
FAULT(reduce_axis_source) {
  const uint32_t shape[] = {4, 8};
  ReduceSum<float, Pattern::Reduce::AR, true>(t.X(), t.Y(), t.Z<uint8_t>(), shape, true);
  PipeBarrier<PIPE_V>();
  Muls(t.Z(), t.Y(), 2.0f, 32);
}
namespace {
void TransposeAs(Tensors& t, TransposeType type, uint32_t rows, uint32_t stride) {
  ConfusionTransposeTiling tiling{8, rows, 32, rows / 16, stride, 4};
  ConfusionTranspose(t.X(), t.Y(), t.Z<uint8_t>(), type, tiling);
}
}  // namespace
FAULT(transpose_rows) { TransposeAs(t, TransposeType::TRANSPOSE_ND2ND_ONLY, 17, 17); }
FAULT(transpose_tiling) { TransposeAs(t, TransposeType::TRANSPOSE_ND2ND_ONLY, 16, 32); }
FAULT(transpose_kind) { TransposeAs(t, TransposeType::TRANSPOSE_NZ2ND_0213, 16, 16); }
namespace {
void DropOutAs(Tensors& t, float keep, uint32_t columns) {
  DropOutShapeInfo info;
  info.firstAxis = 2;
  info.srcLastAxis = 64;
  info.maskLastAxis = columns;
  DropOut<float, false, DROPOUT_MODE_BIT_MISALIGN>(t.X(), t.Y(), t.Z<uint8_t>(),
                                                   t.Z<uint8_t>()[4096], keep, info);
}
}  // namespace
FAULT(dropout_keep) { DropOutAs(t, 1.0f, 32); }
FAULT(dropout_mask) { DropOutAs(t, 0.5f, 6); }
FAULT(dropout_mask_used_again) {
  DropOutAs(t, 0.5f, 32);
  PipeBarrier<PIPE_V>();
  DropOutAs(t, 0.5f, 32);
}

// GM filled twice in a row. p: whether the second value is another one.
static const harness::Registration register_two_fills("two_fills", [](GM_ADDR* g,
                                                                      const int64_t* p) {
  TPipe pipe;
  auto out = harness::Global<float>(g[0]);
  InitOutput<float>(out, 64, 1.0f);
  InitOutput<float>(out[64], 64, p[0] == 1 ? 2.0f : 1.0f);
  if (p[0] == 2) {
    const LocalTensor<float> here(TPosition::VECCALC, 0, 64);
    PipeBarrier<PIPE_ALL>();
    Duplicate(here, 3.0f, 64);
    PipeBarrier<PIPE_ALL>();
    InitOutput<float>(out[128], 64, 1.0f);
  }
});

// Its work stands behind a tiling key that nobody sets.
static const harness::Registration register_nothing("nothing", [](GM_ADDR* g, const int64_t*) {
  TPipe pipe;
  if (TILING_KEY_IS(7)) InitOutput<float>(harness::Global<float>(g[0]), 64, 1.0f);
});
