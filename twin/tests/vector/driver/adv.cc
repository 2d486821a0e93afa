// The high-level APIs.
#include "twin/tests/vector/driver/driver.h"

namespace vector_test {
namespace {

using namespace AscendC;

constexpr SoftmaxConfig kOnePerRow = {true, 0, 0, SoftmaxMode::SOFTMAX_OUTPUT_WITHOUT_BRC};

// The bytes that an API leaves in its temporary space, to the end of the image, are not
// specified.
void ClearFrom(const Call& c, size_t index) {
  PipeBarrier<PIPE_V>();
  const auto words = c.At<uint16_t>(index);
  Duplicate(words, uint16_t{0}, static_cast<int32_t>(words.GetSize()));
}

struct Shape {
  SoftMaxShapeInfo info;
  SoftMaxTiling tiling;
};
// args from `at` on: srcM, srcK, oriSrcM, oriSrcK
template <typename Stat>
Shape ShapeAt(const Call& c, size_t at) {
  const auto n = [&](size_t i) { return static_cast<uint32_t>(c[at + i]); };
  return {{n(0), n(1), n(2), n(3)}, twin::MakeSoftmaxTiling(n(0), n(1), 32 / sizeof(Stat), n(0))};
}

// Calls f(T(), Stat()) for the pair of types.
template <typename F>
void WithStat(const Call& c, F f) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_same<T, half>::value) {
      if (c.types[1] == "float") return f(half(), float());
    }
    f(T(), T());
  });
}

// args: tmp or -1, nz, one statistic per row, four of the shape, dst, sum, max, src
const Register kSoftMax("SoftMax", [](const Call& c) {
  WithStat(c, [&](auto t, auto s) {
    using T = decltype(t);
    using S = decltype(s);
    const Shape shape = ShapeAt<S>(c, 3);
    auto dst = c.At<T>(7), src = c.At<T>(10);
    auto sum = c.At<S>(8), max = c.At<S>(9);
    if (c[2] != 0) {
      SoftMax<T, false, false, false, kOnePerRow>(dst, sum, max, src, shape.tiling, shape.info);
    } else if (c[1] != 0) {
      SoftMax<T, false, false, true>(dst, sum, max, src, shape.tiling, shape.info);
    } else if (c[0] >= 0) {
      SoftMax<T>(dst, sum, max, src, c.At<uint8_t>(0), shape.tiling, shape.info);
      ClearFrom(c, 0);
    } else {
      SoftMax<T>(dst, sum, max, src, shape.tiling, shape.info);
    }
  });
});
const Register kSoftMaxAlone("SoftMaxAlone", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    const Shape shape = ShapeAt<T>(c, 3);
    SoftMax(c.At<T>(7), c.At<T>(10), shape.tiling, shape.info);
  });
});
const Register kSimple("SimpleSoftMax", [](const Call& c) {
  WithStat(c, [&](auto t, auto s) {
    using T = decltype(t);
    using S = decltype(s);
    const Shape shape = ShapeAt<S>(c, 3);
    auto dst = c.At<T>(7), src = c.At<T>(10);
    auto sum = c.At<S>(8), max = c.At<S>(9);
    if (c[0] >= 0) {
      SimpleSoftMax<T>(dst, sum, max, src, c.At<uint8_t>(0), shape.tiling, shape.info);
      ClearFrom(c, 0);
    } else {
      SimpleSoftMax<T>(dst, sum, max, src, shape.tiling, shape.info);
    }
  });
});

// args as SoftMax, then expMax, inSum, inMax, outReduceMax or -1, update
template <typename T, typename S, bool update>
void Flash(const Call& c) {
  const Shape shape = ShapeAt<S>(c, 3);
  auto dst = c.At<T>(7), src = c.At<T>(10), exp_max = c.At<T>(11);
  auto sum = c.At<S>(8), max = c.At<S>(9), in_sum = c.At<S>(12), in_max = c.At<S>(13);
  if constexpr (std::is_same<T, S>::value) {
    if (c[14] >= 0) {
      SoftmaxFlashV2<T, update, false, false, false, kOnePerRow>(
          dst, c.At<T>(14), sum, max, src, exp_max, in_sum, in_max, c.At<uint8_t>(0), shape.tiling,
          shape.info);
      ClearFrom(c, 0);
      return;
    }
  }
  if (c[0] >= 0) {
    SoftmaxFlashV2<T, update>(dst, sum, max, src, exp_max, in_sum, in_max, c.At<uint8_t>(0),
                              shape.tiling, shape.info);
    ClearFrom(c, 0);
  } else {
    SoftmaxFlashV2<T, update>(dst, sum, max, src, exp_max, in_sum, in_max, shape.tiling,
                              shape.info);
  }
}
const Register kFlash("SoftmaxFlashV2", [](const Call& c) {
  WithStat(c, [&](auto t, auto s) {
    using T = decltype(t);
    using S = decltype(s);
    c[15] != 0 ? Flash<T, S, true>(c) : Flash<T, S, false>(c);
  });
});

// args: tmp or -1, nz, -, four of the shape, dst, grad, src
const Register kGradFront("SoftmaxGradFront", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    const Shape shape = ShapeAt<T>(c, 3);
    auto dst = c.At<T>(7), grad = c.At<T>(8), src = c.At<T>(9);
    if (c[1] != 0) {
      SoftmaxGradFront<T, false, true>(dst, grad, src, shape.tiling, shape.info);
    } else if (c[0] >= 0) {
      SoftmaxGradFront(dst, grad, src, c.At<uint8_t>(0), shape.tiling, shape.info);
      ClearFrom(c, 0);
    } else {
      SoftmaxGradFront(dst, grad, src, shape.tiling, shape.info);
    }
  });
});

// args: tmp or -1, values, indices, src, source indices or -1, finished rows or -1, k, rows, inner,
// n, largest, small
template <typename T, bool index, bool finish, TopKMode mode>
void RunTopK(const Call& c) {
  LocalTensor<int32_t> src_index;
  LocalTensor<bool> finished;
  if (index) src_index = c.At<int32_t>(4);
  if (finish) finished = c.At<bool>(5);
  const auto n = [&](size_t i) { return static_cast<int32_t>(c[i]); };
  TopKInfo info;
  info.outter = n(7);
  info.inner = n(8);
  info.n = n(9);
  TopkTiling tiling;
  tiling.allDataSize = info.outter * info.inner;
  tiling.kAlignFourBytes = (n(6) + 7) / 8 * 8;
  auto values = c.At<T>(1), src = c.At<T>(3);
  auto indices = c.At<int32_t>(2);
  if (c[0] >= 0) {
    TopK<T, index, finish, false, mode>(values, indices, src, src_index, finished, c.At<uint8_t>(0),
                                        n(6), tiling, info, c[10] != 0);
    ClearFrom(c, 0);
  } else {
    TopK<T, index, finish, false, mode>(values, indices, src, src_index, finished, n(6), tiling,
                                        info, c[10] != 0);
  }
  if (mode == TopKMode::TOPK_NSMALL) return;
  // The padding has no value; the image is copied out.
  PipeBarrier<PIPE_ALL>();
  const uint32_t k = static_cast<uint32_t>(n(6)), unit = 32 / sizeof(T);
  const uint32_t pitch = (k + unit - 1) / unit * unit, index_pitch = (k + 7) / 8 * 8;
  for (uint32_t row = 0; row < static_cast<uint32_t>(n(7)); ++row) {
    for (uint32_t i = k; i < pitch; ++i) values.SetValue(row * pitch + i, T(0));
    for (uint32_t i = k; i < index_pitch; ++i) indices.SetValue(row * index_pitch + i, 0);
  }
}
const Register kTopK("TopK", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    constexpr TopKMode kNormal = TopKMode::TOPK_NORMAL, kSmall = TopKMode::TOPK_NSMALL;
    const bool index = c[4] >= 0;
    if (c[11] != 0) {
      index ? RunTopK<T, true, false, kSmall>(c) : RunTopK<T, false, false, kSmall>(c);
    } else if (c[5] >= 0) {
      RunTopK<T, false, true, kNormal>(c);
    } else {
      index ? RunTopK<T, true, false, kNormal>(c) : RunTopK<T, false, false, kNormal>(c);
    }
  });
});

// args: tmp or -1, dst, src, dim, axis, dst shape, src shape
template <typename T, int dim, int axis>
void RunBroadcast(const Call& c) {
  uint32_t dst[2], src[2];
  for (size_t i = 0; i < 2; ++i) {
    dst[i] = static_cast<uint32_t>(c[5 + i]);
    src[i] = static_cast<uint32_t>(c[7 + i]);
  }
  if (c[0] >= 0) {
    auto tmp = c.At<uint8_t>(0);
    Broadcast<T, dim, axis>(c.At<T>(1), c.At<T>(2), dst, src, tmp);
    ClearFrom(c, 0);
  } else {
    Broadcast<T, dim, axis>(c.At<T>(1), c.At<T>(2), dst, src);
  }
}
const Register kBroadcast("Broadcast", [](const Call& c) {
  WithType<int8_t, uint8_t, half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    if (c[3] == 1) return RunBroadcast<T, 1, 0>(c);
    c[4] == 0 ? RunBroadcast<T, 2, 0>(c) : RunBroadcast<T, 2, 1>(c);
  });
});

// args: tmp, dst, src, mask, scalar, scalar first, reuse mask, rows, columns, mask columns
template <typename T, typename U>
void RunSelectBytes(const Call& c) {
  SelectWithBytesMaskShapeInfo info;
  info.firstAxis = static_cast<uint32_t>(c[7]);
  info.srcLastAxis = static_cast<uint32_t>(c[8]);
  info.maskLastAxis = static_cast<uint32_t>(c[9]);
  auto dst = c.At<T>(1), src = c.At<T>(2);
  auto mask = c.At<U>(3);
  auto tmp = c.At<uint8_t>(0);
  src.SetSize(info.firstAxis * info.srcLastAxis);
  mask.SetSize(info.firstAxis * info.maskLastAxis);
  const T scalar = c.Bits<T>(4);
  if (c[5] != 0) {
    c[6] != 0 ? Select<T, U, true>(dst, scalar, src, mask, tmp, info)
              : Select<T, U, false>(dst, scalar, src, mask, tmp, info);
  } else {
    c[6] != 0 ? Select<T, U, true>(dst, src, scalar, mask, tmp, info)
              : Select<T, U, false>(dst, src, scalar, mask, tmp, info);
  }
  // The mask may be rewritten; it lies before the temporary space.
  ClearFrom(c, 3);
}
const Register kSelectBytes("SelectWithBytesMask", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    WithType<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t>(
        c.types[1], [&](auto u) { RunSelectBytes<decltype(t), decltype(u)>(c); });
  });
});

}  // namespace
}  // namespace vector_test
