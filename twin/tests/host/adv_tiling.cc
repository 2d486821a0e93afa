// The host side of the high-level APIs, as functions, and kernels that run what it has tiled.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tiling/tiling_api.h"
#include "twin/tests/harness.h"

#define HOST extern "C" __attribute__((visibility("default")))

namespace {

using namespace AscendC;

enum Kind { kSoftmax, kFlash, kGrad, kGradFront };
// How a softmax is called, as in the tests.
struct Call {
  int64_t kind, m, k, data, stat, update, basic, one_per_row;

  uint32_t Data() const { return static_cast<uint32_t>(data); }
  uint32_t Stat() const { return static_cast<uint32_t>(stat); }
};

// The rows as more than one axis where they are even.
ge::Shape ShapeOf(int64_t m, int64_t k) {
  return ge::Shape(m % 2 == 0 ? std::vector<int64_t>{2, m / 2, k} : std::vector<int64_t>{m, k});
}

template <class Tiling>
void Tile(const Call& c, uint32_t bytes, Tiling* tiling) {
  const ge::Shape shape = ShapeOf(c.m, c.k);
  switch (c.kind) {
    case kSoftmax:
      return SoftMaxTilingFunc(shape, c.Stat(), bytes, *tiling);
    case kFlash:
      return SoftMaxFlashV2TilingFunc(shape, c.Data(), c.Stat(), bytes, *tiling, c.update != 0,
                                      c.basic != 0, c.one_per_row != 0);
    default:
      return SoftMaxGradTilingFunc(shape, c.Data(), bytes, *tiling, c.kind == kGradFront);
  }
}

}  // namespace

HOST void softmax_space(const Call* c, uint32_t* least, uint32_t* most) {
  const ge::Shape shape = ShapeOf(c->m, c->k);
  if (c->kind == kSoftmax) {
    *least = GetSoftMaxMinTmpSize(shape, c->Stat(), false);
    *most = GetSoftMaxMaxTmpSize(shape, c->Stat(), false);
  } else if (c->kind == kFlash) {
    const bool update = c->update != 0, basic = c->basic != 0, one = c->one_per_row != 0;
    *least = GetSoftMaxFlashV2MinTmpSize(shape, c->Data(), c->Stat(), update, basic, one);
    *most = GetSoftMaxFlashV2MaxTmpSize(shape, c->Data(), c->Stat(), update, basic, one);
  } else {
    *least = GetSoftMaxGradMinTmpSize(shape, c->Data(), c->kind == kGradFront, false);
    *most = GetSoftMaxGradMaxTmpSize(shape, c->Data(), c->kind == kGradFront, false);
  }
}

// The tiling as the plain struct, and as the class of macro-style tiling data has it in its bytes.
HOST void softmax_tiling(const Call* c, uint32_t bytes, uint32_t* plain, uint32_t* by_macros) {
  tiling::SoftMaxTiling tiling;
  optiling::SoftMaxTiling data;
  Tile(*c, bytes, &tiling);
  Tile(*c, bytes, &data);
  static_assert(sizeof(tiling) == 16 * sizeof(uint32_t));
  std::memcpy(plain, &tiling, sizeof(tiling));
  data.SaveToBuffer(by_macros, sizeof(tiling));
}

HOST bool basic_block(int64_t m, int64_t k, uint32_t data) {
  tiling::SoftMaxTiling tiling;
  optiling::SoftMaxTiling by_macros;
  const uint32_t space = GetSoftMaxMaxTmpSize(ShapeOf(m, k), 4, false);
  SoftMaxTilingFunc(ShapeOf(m, k), 4, space, tiling);
  SoftMaxTilingFunc(ShapeOf(m, k), 4, space, by_macros);
  const bool result = IsBasicBlockInSoftMax(tiling, data);
  return IsBasicBlockInSoftMax(by_macros, data) == result && result;
}

// n: inner, outter, k, bytes of an element, with indices, small, largest
HOST bool topk_tiling(const int64_t* n, uint32_t* least, uint32_t* most, uint8_t* plain,
                      uint8_t* by_macros) {
  const platform_ascendc::PlatformAscendC platform(nullptr);
  const auto mode = n[5] != 0 ? TopKMode::TOPK_NSMALL : TopKMode::TOPK_NORMAL;
  const auto inner = static_cast<int32_t>(n[0]), outter = static_cast<int32_t>(n[1]);
  const auto k = static_cast<int32_t>(n[2]);
  const auto data = static_cast<uint32_t>(n[3]);
  const bool index = n[4] != 0, largest = n[6] != 0;
  tiling::TopkTiling tiling;
  optiling::TopkTiling macros;
  if (!GetTopKMaxMinTmpSize(platform, inner, outter, false, index, mode, largest, data, *most,
                            *least) ||
      !TopKTilingFunc(platform, inner, outter, k, data, index, mode, largest, tiling) ||
      !TopKTilingFunc(platform, inner, outter, k, data, index, mode, largest, macros)) {
    return false;
  }
  std::memcpy(plain, &tiling, sizeof(tiling));
  macros.SaveToBuffer(by_macros, sizeof(tiling));
  return macros.GetDataSize() == sizeof(tiling);
}

HOST void broadcast_space(int64_t rank, const int64_t* dst, const int64_t* src, uint32_t width,
                          uint32_t* least, uint32_t* most) {
  const platform_ascendc::PlatformAscendC platform(nullptr);
  GetBroadCastMaxMinTmpSize(platform, ge::Shape({src, src + rank}), ge::Shape({dst, dst + rank}),
                            width, false, *most, *least);
}

// n: rows, columns, columns of the mask, bytes of an element, of the mask's, reuse, scalar first
HOST bool select_space(const int64_t* n, uint32_t* least, uint32_t* most) {
  const ge::Shape tensor({n[0], n[1]}), scalar({1}), mask({n[0], n[2]});
  const ge::Shape &src0 = n[6] != 0 ? scalar : tensor, &src1 = n[6] != 0 ? tensor : scalar;
  const auto width = static_cast<uint32_t>(n[3]), mask_width = static_cast<uint32_t>(n[4]);
  GetSelectMaxMinTmpSize(src0, src1, width, mask, mask_width, n[5] != 0, *most, *least);
  uint32_t old_most = 0, old_least = 0;
  GetSelectWithBytesMaskMaxMinTmpSize(src0, src1, width, mask, mask_width, n[5] != 0, old_most,
                                      old_least);
  return old_most == *most && old_least == *least &&
         *least == GetSelectMinTmpSize(src0, src1, width, mask, mask_width, n[5] != 0) &&
         *most == GetSelectWithBytesMaskMaxTmpSize(src0, src1, width, mask, mask_width, n[5] != 0);
}

// The shape that the host side takes, where it is unknown.
HOST int64_t shape_size(int64_t rank, const int64_t* dims, int64_t* counted) {
  ge::Shape shape(std::vector<int64_t>(dims, dims + rank));
  *counted = static_cast<int64_t>(shape.GetDimNum());
  return shape.GetShapeSize();
}

namespace {

// Tensors of a kernel in UB, all of which end at blocks of 32 bytes.
class Tensors {
 public:
  explicit Tensors(GM_ADDR* g) : g_(g) {}

  template <typename T>
  LocalTensor<T> Make(int64_t elements) {
    TBuf<TPosition::VECCALC> buffer;
    const auto count = static_cast<uint32_t>(elements);
    pipe_.InitBuffer(buffer, (count * sizeof(T) + 31) / 32 * 32);
    return buffer.Get<T>();
  }
  template <typename T>
  LocalTensor<T> Load(int argument) {
    const auto bytes = static_cast<int64_t>(Bytes(argument));
    LocalTensor<T> tensor = Make<T>(bytes / static_cast<int64_t>(sizeof(T)));
    const DataCopyExtParams all(1, static_cast<uint32_t>(bytes), 0, 0, 0);
    DataCopyPad(tensor, harness::Global<T>(g_[argument]), all, DataCopyPadExtParams<T>{});
    PipeBarrier<PIPE_ALL>();
    return tensor;
  }
  template <typename T>
  void Store(int argument, const LocalTensor<T>& tensor) {
    PipeBarrier<PIPE_ALL>();
    const DataCopyExtParams all(1, static_cast<uint32_t>(Bytes(argument)), 0, 0, 0);
    DataCopyPad(harness::Global<T>(g_[argument]), tensor, all);
  }

  // The kernels' buffers are as long as the test says in its numbers.
  const int64_t* sizes = nullptr;

 private:
  uint64_t Bytes(int argument) const { return static_cast<uint64_t>(sizes[argument]); }

  GM_ADDR* g_;
  TPipe pipe_;
};

constexpr SoftmaxConfig kOnePerRow = {true, 0, 0, SoftmaxMode::SOFTMAX_OUTPUT_WITHOUT_BRC};

SoftMaxShapeInfo InfoOf(const Call& c) {
  const auto m = static_cast<uint32_t>(c.m), k = static_cast<uint32_t>(c.k);
  return {m, k, m, k};
}

// Numbers of every kernel: bytes of its buffers (8), bytes of temporary space, then its own.
constexpr int kTmp = 8, kOwn = 9;

// dst, sum, max, src, tiling
template <typename T, typename S>
void RunSoftmax(GM_ADDR* g, const int64_t* p) {
  Tensors tensors(g);
  tensors.sizes = p;
  const Call& c = *reinterpret_cast<const Call*>(p + kOwn);
  GET_TILING_DATA_WITH_STRUCT(SoftMaxTiling, tiling, g[4]);
  auto src = tensors.Load<T>(3);
  auto dst = tensors.Make<T>(c.m * c.k);
  auto sum = tensors.Make<S>(p[1] / c.stat), max = tensors.Make<S>(p[2] / c.stat);
  SoftMax<T>(dst, sum, max, src, tensors.Make<uint8_t>(p[kTmp]), tiling, InfoOf(c));
  tensors.Store(0, dst);
  tensors.Store(1, sum);
  tensors.Store(2, max);
}

// dst, sum, max, src, tiling, expMax, inSum, inMax
template <typename T, typename S, bool update, bool basic, const SoftmaxConfig& config>
void RunFlash(GM_ADDR* g, const int64_t* p) {
  Tensors tensors(g);
  tensors.sizes = p;
  const Call& c = *reinterpret_cast<const Call*>(p + kOwn);
  GET_TILING_DATA_WITH_STRUCT(SoftMaxTiling, tiling, g[4]);
  auto src = tensors.Load<T>(3);
  auto in_sum = tensors.Load<S>(6), in_max = tensors.Load<S>(7);
  auto dst = tensors.Make<T>(c.m * c.k);
  auto exp_max = tensors.Make<T>(p[5] / c.data);
  auto sum = tensors.Make<S>(p[1] / c.stat), max = tensors.Make<S>(p[2] / c.stat);
  SoftmaxFlashV2<T, update, false, basic, false, config>(dst, sum, max, src, exp_max, in_sum,
                                                         in_max, tensors.Make<uint8_t>(p[kTmp]),
                                                         tiling, InfoOf(c));
  tensors.Store(0, dst);
  tensors.Store(1, sum);
  tensors.Store(2, max);
  if constexpr (update) tensors.Store(5, exp_max);
}

template <typename T, typename S>
void AnyFlash(GM_ADDR* g, const int64_t* p) {
  const Call& c = *reinterpret_cast<const Call*>(p + kOwn);
  if (c.one_per_row != 0) return RunFlash<T, S, true, false, kOnePerRow>(g, p);
  if (c.basic != 0) return RunFlash<T, S, true, true, SOFTMAX_DEFAULT_CFG>(g, p);
  c.update != 0 ? RunFlash<T, S, true, false, SOFTMAX_DEFAULT_CFG>(g, p)
                : RunFlash<T, S, false, false, SOFTMAX_DEFAULT_CFG>(g, p);
}

// dst, grad, -, src, tiling
template <typename T>
void RunGradFront(GM_ADDR* g, const int64_t* p) {
  Tensors tensors(g);
  tensors.sizes = p;
  const Call& c = *reinterpret_cast<const Call*>(p + kOwn);
  GET_TILING_DATA_WITH_STRUCT(SoftMaxTiling, tiling, g[4]);
  auto src = tensors.Load<T>(3), grad = tensors.Load<T>(1);
  auto dst = tensors.Make<T>(p[0] / c.data);
  SoftmaxGradFront(dst, grad, src, tensors.Make<uint8_t>(p[kTmp]), tiling, InfoOf(c));
  tensors.Store(0, dst);
}

// values, indices, -, src, tiling, source indices; own numbers as those of topk_tiling
template <typename T, bool index, TopKMode mode>
void RunTopK(GM_ADDR* g, const int64_t* p) {
  Tensors tensors(g);
  tensors.sizes = p;
  GET_TILING_DATA_WITH_STRUCT(TopkTiling, tiling, g[4]);
  const int64_t* n = p + kOwn;
  const auto of = [n](int i) { return static_cast<int32_t>(n[i]); };
  TopKInfo info;
  info.inner = info.n = of(0);
  info.outter = of(1);
  auto src = tensors.Load<T>(3);
  LocalTensor<int32_t> src_index;
  if constexpr (index) src_index = tensors.Load<int32_t>(5);
  auto values = tensors.Make<T>(p[0] / static_cast<int64_t>(sizeof(T)));
  auto indices = tensors.Make<int32_t>(p[1] / 4);
  TopK<T, index, false, false, mode>(values, indices, src, src_index, LocalTensor<bool>(),
                                     tensors.Make<uint8_t>(p[kTmp]), of(2), tiling, info,
                                     n[6] != 0);
  tensors.Store(0, values);
  tensors.Store(1, indices);
}

template <typename T>
void AnyTopK(GM_ADDR* g, const int64_t* p) {
  constexpr auto kNormal = TopKMode::TOPK_NORMAL, kSmall = TopKMode::TOPK_NSMALL;
  const bool index = p[kOwn + 4] != 0;
  if (p[kOwn + 5] != 0) {
    return index ? RunTopK<T, true, kSmall>(g, p) : RunTopK<T, false, kSmall>(g, p);
  }
  index ? RunTopK<T, true, kNormal>(g, p) : RunTopK<T, false, kNormal>(g, p);
}

// dst, -, -, src; own numbers: rank, axis, dst shape, src shape
template <typename T>
void RunBroadcast(GM_ADDR* g, const int64_t* p) {
  Tensors tensors(g);
  tensors.sizes = p;
  const int64_t* n = p + kOwn;
  uint32_t dst_shape[2], src_shape[2];
  for (int i = 0; i < 2; ++i) {
    dst_shape[i] = static_cast<uint32_t>(n[2 + i]);
    src_shape[i] = static_cast<uint32_t>(n[4 + i]);
  }
  auto src = tensors.Load<T>(3);
  auto dst = tensors.Make<T>(p[0] / static_cast<int64_t>(sizeof(T)));
  auto tmp = tensors.Make<uint8_t>(p[kTmp]);
  if (n[0] == 1) {
    Broadcast<T, 1, 0>(dst, src, dst_shape, src_shape, tmp);
  } else if (n[1] == 0) {
    Broadcast<T, 2, 0>(dst, src, dst_shape, src_shape, tmp);
  } else {
    Broadcast<T, 2, 1>(dst, src, dst_shape, src_shape, tmp);
  }
  tensors.Store(0, dst);
}

// dst, -, -, src, mask; own numbers as those of select_space; the scalar is 3
template <typename T, typename U>
void RunSelect(GM_ADDR* g, const int64_t* p) {
  Tensors tensors(g);
  tensors.sizes = p;
  const int64_t* n = p + kOwn;
  SelectWithBytesMaskShapeInfo info;
  info.firstAxis = static_cast<uint32_t>(n[0]);
  info.srcLastAxis = static_cast<uint32_t>(n[1]);
  info.maskLastAxis = static_cast<uint32_t>(n[2]);
  auto src = tensors.Load<T>(3);
  auto mask = tensors.Load<U>(4);
  auto dst = tensors.Make<T>(n[0] * n[1]);
  auto tmp = tensors.Make<uint8_t>(p[kTmp]);
  const T scalar = static_cast<T>(3);
  if (n[6] != 0) {
    n[5] != 0 ? Select<T, U, true>(dst, scalar, src, mask, tmp, info)
              : Select<T, U, false>(dst, scalar, src, mask, tmp, info);
  } else {
    n[5] != 0 ? Select<T, U, true>(dst, src, scalar, mask, tmp, info)
              : Select<T, U, false>(dst, src, scalar, mask, tmp, info);
  }
  tensors.Store(0, dst);
}

}  // namespace

KERNEL(softmax_half_half) { RunSoftmax<half, half>(g, p); }
KERNEL(softmax_half_float) { RunSoftmax<half, float>(g, p); }
KERNEL(softmax_float_float) { RunSoftmax<float, float>(g, p); }
KERNEL(flash_half_half) { AnyFlash<half, half>(g, p); }
KERNEL(flash_half_float) { AnyFlash<half, float>(g, p); }
KERNEL(flash_float_float) { AnyFlash<float, float>(g, p); }
KERNEL(grad_front_half) { RunGradFront<half>(g, p); }
KERNEL(grad_front_float) { RunGradFront<float>(g, p); }
KERNEL(topk_half) { AnyTopK<half>(g, p); }
KERNEL(topk_float) { AnyTopK<float>(g, p); }
KERNEL(broadcast_int8) { RunBroadcast<int8_t>(g, p); }
KERNEL(broadcast_half) { RunBroadcast<half>(g, p); }
KERNEL(broadcast_float) { RunBroadcast<float>(g, p); }
KERNEL(select_half_uint8) { RunSelect<half, uint8_t>(g, p); }
KERNEL(select_float_uint8) { RunSelect<float, uint8_t>(g, p); }
KERNEL(select_float_int32) { RunSelect<float, int32_t>(g, p); }
